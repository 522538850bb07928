from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pyarrow as pa
import pytest

from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.judge.engine import engine
from backfill_assets.landing.raw_query import register_tokens, token
from backfill_assets.landing.token_key import token_of
from backfill_assets_tests.strategies.landed_sales import land_key

pytestmark = pytest.mark.data
KEYS = {
    "of 16 characters": b"k" * 16,
    "no ASCII": "a key with blanks and ümlauts".encode(),
    "as long as a block": b"x" * 64,
    "longer than a block": b"y" * 65,
    "any bytes": bytes([0x80, 0xFF, 0xFE, 0x41, 0xC3, 0x28]) * 6,
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_token_is_the_hmac_of_the_standard_library(tmp_path: Path, key: bytes) -> None:
    """Known answers: a home-made construction would be worth nothing.

    Nothing has no token: that of an absent household would look like one big household.
    """
    path = tmp_path / "token.key"
    path.write_bytes(key)
    values = ["900", "1", " a b\n", "ß", "x" * 300, "900"]
    with engine(threads=1) as connection:
        register_tokens(connection.con, path)
        connection.con.register("rows", pa.table({"household": [*values, "", None]}))
        rows = connection.table("rows")
        found = connection.to_pyarrow(rows.mutate(token=token(rows.household))).to_pylist()
    tokens = {row["household"]: row["token"] for row in found}
    assert (tokens.pop(""), tokens.pop(None)) == (None, None)
    assert tokens == {value: hmac.new(key, value.encode(), hashlib.sha256).hexdigest() for value in values}
    assert tokens == {value: token_of(value, path) for value in values}


@pytest.mark.parametrize("key", ["", " " * 40], ids=["empty", "blank"])
def test_a_short_or_empty_key_is_refused(tmp_path: Path, key: str) -> None:
    """An empty key file must not give tokens that can be guessed."""
    with engine(threads=1) as connection, pytest.raises(LakehouseUnusable, match="fewer than 16 characters"):
        register_tokens(connection.con, Path(land_key(tmp_path, key)))


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
