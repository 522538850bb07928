"""What Arrow's kernels measure is what Spark measures: the same rows, values at every edge of every type among them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.model import measure as m
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Aggregates, Metrics
from backfill_assets.quality.measures import as_metrics, collect_metrics, numbers
from backfill_assets.quality.native_measures import measure_day
from backfill_assets_tests.quality.kernels_in_use import WAYS, hashed_by
from backfill_assets_tests.strategies.every_type import (
    RAW,
    SOURCE,
    EveryType,
    SoundMostly,
    every_landed_text,
    every_type,
    write_days,
)
from backfill_assets_tests.strategies.how_many import drawn

_ROWS = pytest.mark.parametrize("rows", [150, pytest.param(500, marks=pytest.mark.long)])
"""A type has some twenty edges: each of them is met in the fewer rows too."""
SETTINGS = settings(max_examples=drawn(2), phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""One seed gives all rows: a smaller one would be other rows, and each attempt a query."""


def _each_check() -> dict[str, m.Expression]:
    """Every check of the contract by itself, so that one that differs is named."""
    return {
        f"{name} {check}": m.Fulfils(name, check, asked)
        for name, field in EveryType.fields().items()
        for check, asked in field.checks.items()
    }


TYPED: Aggregates = {
    "rows": m.Rows(),
    "checksum": m.SumOfHashes(m.RowHash(EveryType)),
    "violating": m.CountIf(m.Unsound(EveryType)),
    **{f"checks {name}": m.CountIf(condition) for name, condition in _each_check().items()},
    **{f"nulls {name}": m.CountIf(m.IsNull(name)) for name in EveryType.fields()},
    **{f"values {name}": m.CountIf(m.HasValue(name)) for name in EveryType.fields()},
    **{f"keys {name}": m.DifferentKeys((name, "day")) for name in EveryType.fields()},
    **{
        f"total {name}": m.Total(m.ValueOf(name))
        for name in ("tiny", "small", "whole", "big", "few_digits", "money", "rate", "sums", "hashes", "finest")
    },
    "total of few": m.TotalOfFew("hashes"),
    "total of some": m.Total(m.Only(m.ValueOf("money"), m.Fulfils("code", "eq", "USD"))),
    "carried": m.SumOfHashes(m.ValueOf("big")),
    "carried by some": m.SumOfHashes(m.Only(m.ValueOf("big"), m.HasValue("text"))),
    "content": m.SumOfHashes(m.ContentHash(SOURCE, "values")),
    "late": m.CountIf(m.DaysApart("calendar_day", "day", 7)),
    "early": m.CountIf(m.DaysApart("day", "calendar_day", 0)),
    "first reason": m.Least(m.FirstItem("reasons")),
    "no quotient": m.CountIf(m.IsNoQuotient("money", "rate", "money", 4)),
    **{f"no quotient {digits}": m.CountIf(m.IsNoQuotient("money", "rate", "few_digits", digits)) for digits in (0, 18)},
}
TOGETHER: Aggregates = {
    "rows": m.Rows(),
    "violating": m.CountIf(m.Unsound(SoundMostly)),
    "checksum": m.SumOfHashes(m.RowHash(EveryType)),
    "first reason": m.Least(m.FirstItem("reasons")),
    "total": m.Total(m.ValueOf("money")),
    **{f"keys {name}": m.DifferentKeys((name, "flag")) for name in EveryType.fields()},
    "keys that may be null": m.DifferentKeys(("text", "code", "flag"), ("text", "code", "flag")),
}


def _by_arrow(files: Mapping[date, Path], metrics: Aggregates, contract: type[Contract]) -> dict[date, Metrics]:
    """In batches of three rows: a day is more than one batch."""
    found = {day: measure_day(pq.ParquetFile(f).iter_batches(3), day, contract, metrics) for day, f in files.items()}
    return {day: as_metrics(each) for day, each in found.items()}


def _require_equal(spark: SparkSession, rows: pa.Table, metrics: Aggregates, contract: type[Contract]) -> None:
    with TemporaryDirectory() as folder:
        files = write_days(rows, Path(folder))
        by_spark = _by_spark(spark.read.option("basePath", folder).parquet(folder), metrics)
        for way, of_way in zip(WAYS, (metrics, _hashing(metrics)), strict=True):
            with hashed_by(way):
                found = _by_arrow(files, of_way, contract)
            expected = {day: {name: each[name] for name in of_way} for day, each in by_spark.items()}
            assert _differences(found, expected) == {}


def _hashing(metrics: Aggregates) -> Aggregates:
    """Those that differ between the ways to hash. The others do not hash: measured again, they are the same code."""
    found = {name: made for name, made in metrics.items() if isinstance(made, m.SumOfHashes | m.DifferentKeys)}
    assert found
    return found


def _by_spark(rows: DataFrame, metrics: Aggregates) -> dict[date, Metrics]:
    return collect_metrics(rows.groupBy("day").agg(*(made().alias(name) for name, made in metrics.items())))


def _differences(one: Mapping[date, Metrics], other: Mapping[date, Metrics]) -> dict[str, tuple[date, object, object]]:
    assert one.keys() == other.keys()
    return {
        name: (day, one[day].get(name), value)
        for day in other
        for name, value in other[day].items()
        if one[day].get(name) != value or type(one[day].get(name)) is not type(value)
    }


@_ROWS
@given(seed=st.integers(0, 2**32))
@SETTINGS
def test_typed_rows_are_measured_as_spark_does(spark: SparkSession, rows: int, seed: int) -> None:
    """Each row is a day, so that one value that is hashed, added up or judged differently is seen."""
    _require_equal(spark, every_type(seed, rows), TYPED, EveryType)


@_ROWS
@given(seed=st.integers(0, 2**32))
@SETTINGS
def test_landed_texts_are_measured_as_spark_does(spark: SparkSession, rows: int, seed: int) -> None:
    """Text that is a value, in whichever way it is written, and text that is none."""
    _require_equal(spark, every_landed_text(seed, rows), numbers(RAW), RAW.contract)


@given(seed=st.integers(0, 2**32))
@SETTINGS
def test_days_of_many_rows_are_measured_as_spark_does(spark: SparkSession, seed: int) -> None:
    """A day is more than one batch, and a key may be in several of them."""
    _require_equal(spark, every_type(seed, 500, rows_a_day=50), TOGETHER, EveryType)


class Sale(Contract):
    """What is counted here is known without either of the two."""

    till: T.LongType = Field(ge=1)
    code: T.StringType = Field(nullable=True, str_matches="^[A-Z]{3}$")
    amount: Annotated[T.DecimalType, 18, 2] = Field(nullable=True, ge=0)
    day: T.DateType = Field()


class OfBranches(Contract):
    """Two columns of its key may be null."""

    till: T.LongType = Field()
    code: T.StringType = Field(nullable=True)
    branch: T.StringType = Field(nullable=True)
    day: T.DateType = Field()


DAY = date(2017, 3, 1)
OF_SALES: Aggregates = {
    "rows": m.Rows(),
    "keys": m.DifferentKeys(("till", "day")),
    "violating": m.CountIf(m.Unsound(Sale)),
    "nulls": m.CountIf(m.IsNull("code")),
    "amount": m.Total(m.ValueOf("amount")),
    "tills": m.Total(m.ValueOf("till")),
    "hashes": m.SumOfHashes(m.ValueOf("till")),
}


def _sales(tills: list[int], codes: list[str | None], amounts: list[str | None]) -> pa.RecordBatch:
    decimals = [None if amount is None else Decimal(amount) for amount in amounts]
    columns = {
        "till": pa.array(tills),
        "code": pa.array(codes, pa.string()),
        "amount": pa.array(decimals, pa.decimal128(18, 2)),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_a_day_of_two_batches_is_measured_as_a_whole() -> None:
    """A key that is in both is one key; a sum keeps its cents and its sign; a null breaks no check of its value."""
    batches = [
        _sales([1, 2, 2, 3], ["EUR", "usd", None, None], ["0.10", None, "-90000000000000.25", None]),
        _sales([2, 0], ["EUR", "EUR\n"], ["0.20", "1.00"]),
    ]
    found = measure_day(batches, DAY, Sale, OF_SALES)
    assert as_metrics(found) == {
        "rows": 6,
        "keys": 4,
        "violating": 3,
        "nulls": 2,
        "amount": "-89999999999998.95",
        "tills": 10,
        "hashes": 10,
    }


def test_keys_that_differ_in_what_is_null_are_different() -> None:
    """XXH64 passes over nulls, so their values alone have one hash."""
    batch = pa.RecordBatch.from_pydict(
        {
            "till": pa.array([1, 1, 1, 1]),
            "code": pa.array(["EUR", None, None, "EUR"]),
            "branch": pa.array([None, "EUR", None, None]),
        }
    )
    keys: Aggregates = {"keys": m.DifferentKeys(("till", "code", "branch"), ("code", "branch"))}
    assert measure_day([batch], DAY, OfBranches, keys) == {"keys": 3}


def test_a_sum_that_is_no_bigint_any_more_is_left_to_spark() -> None:
    """Spark says that it overflowed. The sum of hashes is a decimal, and exact."""
    found = measure_day([_sales([2**63 - 1, 1], [None, None], [None, None])], DAY, Sale, OF_SALES)
    assert "tills" not in found
    assert (found["hashes"], as_metrics(found)["amount"]) == (2**63, "0.00")


def test_files_of_other_types_than_declared_are_left_to_spark() -> None:
    """Spark converts them as it reads them, and then their hashes are others."""
    batch = pa.RecordBatch.from_pydict(
        {"till": pa.array([1], pa.int32()), "code": ["EUR"], "amount": [Decimal("1.00")]}
    )
    assert measure_day([batch], DAY, Sale, OF_SALES) == {}


def test_what_a_rule_of_ones_own_measures_has_no_rendering() -> None:
    """Any function that gives a column may be measured; the metrics beside it are still Arrow's."""
    own: Aggregates = {"rows": m.Rows(), "odd": lambda: F.count_if(F.col("till") % 2 == 1)}
    assert measure_day([_sales([1], ["EUR"], ["1.00"])], DAY, Sale, own) == {"rows": 1}
