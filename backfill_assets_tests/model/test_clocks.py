"""What gives another answer at every call is known by its name, by how it is called, and in SQL."""

from __future__ import annotations

import pytest

from backfill_assets.model.clocks import asks_by_call, asks_by_name, asks_in_sql


@pytest.mark.parametrize(
    ("path", "asks"),
    [
        ("pyspark.sql.functions.rand", "F.rand"),
        ("pyspark.sql.functions.builtin.current_date", "F.current_date"),
        ("pyspark.sql.connect.functions.builtin.uuid", "F.uuid"),
        ("os.environ.get", "os.environ.get"),
        ("numpy.random.default_rng", "numpy.random.default_rng"),
        ("backfill_assets.clock.today", "backfill_assets.clock.today"),
        ("pyspark.sql.functions.sum", ""),
        ("shop.random", ""),
        ("randomized.choice", ""),
    ],
)
def test_names(path: str, asks: str) -> None:
    assert asks_by_name(path) == asks


def test_calls() -> None:
    """With a column it only reads it; a frame's sample has an argument, and a method of that name may have none."""
    assert asks_by_call("pyspark.sql.functions.unix_timestamp", "unix_timestamp", 0) == "F.unix_timestamp"
    assert asks_by_call("pyspark.sql.functions.unix_timestamp", "unix_timestamp", 1) == ""
    assert asks_by_call("", "sample", 1) == ".sample()"
    assert asks_by_call("", "sample", 0) == asks_by_call("shop.sample", "sample", 1) == ""


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("CURRENT_DATE", ["current_date in SQL"]),
        ("a < Current_Timestamp ( )", ["current_timestamp() in SQL"]),
        ("unix_timestamp() - unix_timestamp(at)", ["unix_timestamp() in SQL"]),
        ("note = 'rand()' -- now()", []),
        ("/* uuid() */ `current_date` > 1", []),
        ("random_walk(x) + now", []),
    ],
)
def test_sql(text: str, asks: list[str]) -> None:
    assert list(asks_in_sql([text], by_name=False)) == asks


def test_a_function_that_is_called_by_its_name() -> None:
    assert list(asks_in_sql(["uuid"], by_name=True)) == ["uuid() in SQL"]
    assert list(asks_in_sql(["uuid"], by_name=False)) == []
