from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.landing.raw_rows import token, with_token_pads
from backfill_assets.landing.token_key import token_of
from backfill_assets_tests.strategies.landed_sales import land_key

KEYS = {
    "of 16 characters": b"k" * 16,
    "no ASCII": "a key with blanks and ümlauts".encode(),
    "as long as a block": b"x" * 64,
    "longer than a block": b"y" * 65,
    "any bytes": bytes([0x80, 0xFF, 0xFE, 0x41, 0xC3, 0x28]) * 6,
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_token_is_the_hmac_of_the_standard_library(spark: SparkSession, tmp_path: Path, key: bytes) -> None:
    """Known answers: a home-made construction would be worth nothing.

    Nothing has no token: that of an absent household would look like one big household.
    """
    path = tmp_path / "token.key"
    path.write_bytes(key)
    values = ["900", "1", " a b\n", "ß", "x" * 300]
    rows = spark.createDataFrame([(value,) for value in [*values, "", None]], "household string")
    keyed = with_token_pads(rows, spark, str(path))
    found = {
        row.household: row.token for row in keyed.select("household", token(keyed.household).alias("token")).collect()
    }
    assert (found.pop(""), found.pop(None)) == (None, None)
    assert found == {value: hmac.new(key, value.encode(), hashlib.sha256).hexdigest() for value in values}
    assert found == {value: token_of(value, path) for value in values}


def test_no_plan_shows_the_key_or_what_is_derived_from_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plans end up in event logs and in the UI; the pads are as good as the key."""
    key = "correct-horse-battery-staple-0123"
    rows = spark.createDataFrame([("900",), (None,)], "household string")
    keyed = with_token_pads(rows, spark, land_key(tmp_path, key))
    tokens = keyed.select(token(keyed.household).alias("token"))
    tokens.collect()
    for mode in ("extended", "formatted", "codegen"):
        tokens.explain(mode=mode)
    execution = getattr(tokens, "_jdf").queryExecution()  # noqa: B009
    plans = [execution.optimizedPlan().toJSON(), execution.executedPlan().toJSON()]
    plan = (capsys.readouterr().out + "".join(plans)).lower()
    block = key.encode().ljust(64, b"\0")
    secrets = [key.encode(), bytes(byte ^ 0x36 for byte in block), bytes(byte ^ 0x5C for byte in block)]
    for secret in secrets:
        assert secret.hex() not in plan
        assert secret.decode("latin-1").lower() not in plan
    assert "token.key" in plan


@pytest.mark.parametrize("key", ["", " " * 40], ids=["empty", "blank"])
def test_a_short_or_empty_key_is_refused(spark: SparkSession, tmp_path: Path, key: str) -> None:
    """An empty key file must neither give guessable tokens nor, by the join, lose every row."""
    rows = spark.createDataFrame([("900",)], "household string")
    keyed = with_token_pads(rows, spark, land_key(tmp_path, key))
    with pytest.raises(PySparkException, match="fewer than 16 characters"):
        keyed.select(token(keyed.household)).collect()


@pytest.mark.parametrize("key", [None, "short", " " * 40])
def test_no_token_is_made_with_a_key_that_is_none(tmp_path: Path, key: str | None) -> None:
    """It would be found in no table; and neither the value nor the key is shown."""
    if key is not None:
        land_key(tmp_path, key)
    with pytest.raises(LakehouseUnusable, match=r"token\.key") as refused:
        token_of("900", tmp_path / "token.key")
    assert "900" not in str(refused.value) and "short" not in str(refused.value)
    with pytest.raises(InvalidRequest, match="no token"):
        token_of("", tmp_path / "token.key")
