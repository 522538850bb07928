"""Doubles with digits count alike in any order of adding up, and in DuckDB, Spark and plain Python."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.errors import InvalidRequest
from backfill_assets.judge.compare import changed_rows, columns_beside, compare_rows
from backfill_assets.judge.engine import engine
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Table
from backfill_assets.model.doubles import decimal_of, in_digits, in_units, units_of
from backfill_assets.model.measure import RowHash, exact_sum
from backfill_assets_tests.strategies.how_many import drawn

DAY = date(2017, 3, 1)
ODD = (
    *(0.0, -0.0, 0.125, -0.125, 0.375, 1.005, 2.675, 0.1 + 0.2, 0.3, 0.49999999999999994, 0.5, -0.5, 1.5, 2.5, 5e-324),
    *(999_999_999.994, 999_999_999.995, 123456.785),
)


class Weighed(Contract):
    """The sum of each shop and day, as many digits of it as count."""

    shop: str = Field(key=True)
    kilos: float = Field(digits=2)
    grade: T.FloatType = Field(nullable=True, digits=0)
    day: date = Field()


WEIGHED = Table("report_weighed", "report", "What was weighed.", Weighed, ("shop",), totals=("kilos",))


def numbers(seed: int, count: int) -> list[float]:
    chance = random.Random(seed)
    return [
        *ODD,
        *(chance.uniform(-1e9, 1e9) for _ in range(count)),
        *(chance.randrange(10**9) / 8 for _ in range(count)),
    ]


def counted(value: float, digits: int) -> Decimal:
    """By the double that has the digits in front of the point, half away from zero."""
    units = Decimal(value * 10.0**digits).quantize(Decimal(1), ROUND_HALF_UP)
    return units.scaleb(-digits)


def by_duckdb(values: Sequence[float], digits: int) -> list[tuple[float, Decimal]]:
    import ibis

    rows = ibis.memtable(pa.table({"n": range(len(values)), "value": pa.array(values, pa.float64())}))
    asked = rows.select("n", units=units_of(rows.value, digits), amount=decimal_of(rows.value, digits))
    with engine(threads=1) as connection:
        found = connection.to_pyarrow(asked.order_by("n")).to_pylist()
    return [(row["units"], row["amount"]) for row in found]


@pytest.mark.data
@pytest.mark.parametrize("digits", [0, 1, 2, 5])
def test_a_double_counts_as_python_rounds_it(digits: int) -> None:
    values = numbers(digits, 2_000)
    found = by_duckdb(values, digits)
    assert [amount for _, amount in found] == [counted(value, digits) for value in values]
    assert [units for units, _ in found] == [float(counted(value, digits).scaleb(digits)) for value in values]


@pytest.mark.parametrize("digits", [0, 2, 5])
def test_spark_counts_as_duckdb_does(spark: SparkSession, digits: int) -> None:
    """And what has no such digits is null for sums, and still has a hash of its own."""
    values = numbers(digits, drawn(300))
    rows = spark.createDataFrame(list(enumerate(values)), "n int, value double").orderBy("n")
    found = rows.select(in_units(F.col("value"), digits), in_digits("value", digits)).collect()
    assert [tuple(row) for row in found] == by_duckdb(values, digits)
    beyond = spark.createDataFrame([(value,) for value in (math.nan, math.inf, -1e300)], "value double")
    assert [row[0] for row in beyond.select(in_digits("value", digits)).collect()] == [None] * 3


@dataclass(frozen=True)
class _Sums:
    """The same numbers of three shops, added up in another order each time."""

    seed: int
    parts: tuple[float, ...]

    def rows(self, order: int) -> pa.Table:
        shuffled = [*self.parts]
        random.Random(order).shuffle(shuffled)
        sums = [
            sum(shuffled[:count]) - sum(reversed(shuffled[:count])) + math.fsum(self.parts) for count in (5, 50, 500)
        ]
        shops = {"shop": ["a", "b", "c"], "kilos": sums, "grade": pa.array([0.5, None, 2.25], pa.float32())}
        return pa.table({**shops, "day": [DAY] * 3})


def added_up(seed: int) -> _Sums:
    chance = random.Random(seed)
    return _Sums(seed, tuple(chance.randrange(1, 10**6) / 100 for _ in range(500)))


@pytest.mark.data
def test_sums_in_another_order_have_one_hash_one_total_and_no_difference() -> None:
    """A rebuild that reads its files in another order changes the last bits only."""
    import ibis

    sums = added_up(1)
    amount = 3 * counted(math.fsum(sums.parts), 2)
    tables = [sums.rows(order) for order in range(4)]
    assert len({tuple(rows["kilos"].to_pylist()) for rows in tables}) > 1
    with engine(threads=1) as connection:
        memory = [ibis.memtable(rows) for rows in tables]
        hashes = {
            tuple(
                connection.to_pyarrow(rows.select(found=RowHash(Weighed).value(rows)).order_by("found"))[
                    "found"
                ].to_pylist()
            )
            for rows in memory
        }
        totals = {connection.to_pyarrow(exact_sum(rows.kilos, digits=2)).as_py() for rows in memory}
        for other, rows in enumerate(tables[1:], start=1):
            connection.con.register(f"after {other}", rows)
        connection.con.register("before", tables[0])
        before = connection.table("before")
        for other in range(1, 4):
            after = connection.table(f"after {other}")
            line = compare_rows(WEIGHED, before, after)["day"][str(DAY)]
            assert (line["same"], line["before kilos"], line["after kilos"]) == (3, amount, amount)
            assert changed_rows(WEIGHED, before, after, 5) == []
            assert columns_beside(WEIGHED, before, after, "grade") == {}
    assert len(hashes) == 1
    assert totals == {amount}


@pytest.mark.data
def test_a_change_of_the_last_digit_is_one() -> None:
    """A hundredth less in one row is another hash, another total and a difference."""
    import ibis

    rows = added_up(2).rows(0)
    less = rows.set_column(
        1,
        "kilos",
        [[value - 0.01 * (shop == "b") for shop, value in zip("abc", rows["kilos"].to_pylist(), strict=True)]],
    )
    with engine(threads=1) as connection:
        connection.con.register("before", rows)
        connection.con.register("after", less)
        before, after = connection.table("before"), connection.table("after")
        line = compare_rows(WEIGHED, before, after)["day"][str(DAY)]
        assert (line["same"], line["before kilos"] - line["after kilos"]) == (2, Decimal("0.01"))
        assert [row["after shop"] for row in changed_rows(WEIGHED, before, after, 5)] == ["b"]
        found = [
            set(connection.to_pyarrow(each.select(found=RowHash(Weighed).value(each)))["found"].to_pylist())
            for each in (ibis.memtable(rows), ibis.memtable(less))
        ]
    assert len(found[0] & found[1]) == 2


@pytest.mark.data
def test_a_sum_of_doubles_without_digits_is_refused() -> None:
    import ibis

    with pytest.raises(InvalidRequest, match="kilos is a double: its sum is another one") as refused:
        exact_sum(ibis.table({"kilos": "float64"}).kilos)
    assert "digits=2" in str(refused.value.hint)
