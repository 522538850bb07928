from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.deletions import as_deletions
from backfill_assets.model.checks import struct_type
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import DayFacts, Metrics
from backfill_assets.model.deletion import OF_DELETIONS
from backfill_assets.model.drift import FIELDS
from backfill_assets.model.measure import RowHash
from backfill_assets.quality.gates import judge
from backfill_assets.quality.measures import examples, numbers, zero_metrics
from backfill_assets.spark.computed import computed
from backfill_assets_tests.judge.written_rows import measure_rows
from backfill_assets_tests.strategies.raw_sales import DAY, marker, raw_sales

NEXT_DAY = date(2017, 3, 2)
DEFECTS: list[dict[str, Any]] = [
    {"basket_id": "1", "currency": "EUR", "sales_value": "1.10"},
    {"basket_id": "2", "currency": "EUR", "sales_value": "2.20"},
    {"basket_id": "2", "currency": "EUR", "sales_value": "2.00", "updated_at": "2017-03-01T00:00:00Z"},
    {"basket_id": "2", "currency": "EUR", "sales_value": "2.20"},
    {"basket_id": "3", "currency": "EUR"},
    {"basket_id": "4", "sales_value": "12,3x"},
    {"unparsed_line": "[1]", "day_is_arrival": True},
    marker("2017-03-09T00:00:00.000000Z", 5, date(2017, 3, 4), basket_id="3"),
    {"basket_id": "5", "currency": "EUR", "sales_value": "4.00", "day": NEXT_DAY},
]
LATE_DAY, SOUND_DAY = date(2017, 3, 11), date(2017, 3, 12)
LATE: list[dict[str, Any]] = [
    *({"basket_id": str(n), "currency": "EUR", "arrival_day": date(2017, 3, n), "day": LATE_DAY} for n in (19, 18, 11)),
    marker("2017-03-19T00:00:00.000000Z", 5, date(2017, 3, 14), basket_id="9", day=LATE_DAY),
]
SOUND: list[dict[str, Any]] = [{"basket_id": str(n), "currency": "EUR", "day": SOUND_DAY} for n in (5, 6, 7)]
Tables = Mapping[str, DataFrame]
Measured = Mapping[str, dict[date, Metrics]]


class Nested(Contract):
    """Of which no list of values says all."""

    lists: T.ArrayType(T.ArrayType(T.StringType())) = Field(nullable=True)  # type: ignore[valid-type]
    place: T.StructType([T.StructField("shop", T.StringType()), T.StructField("till", T.StringType())]) = Field()  # type: ignore[valid-type]
    reasons: T.ArrayType(T.StringType()) = Field()  # type: ignore[valid-type]
    day: T.DateType = Field()


class TwoTexts(Contract):
    """Of which either may be null."""

    one: T.StringType = Field(nullable=True)
    other: T.StringType = Field(nullable=True)
    day: T.DateType = Field()


class TwoLists(Contract):
    """Whose values and nulls they are is not known from all of them together."""

    reasons: T.ArrayType(T.StringType()) = Field()  # type: ignore[valid-type]
    doubts: T.ArrayType(T.StringType()) = Field()  # type: ignore[valid-type]
    day: T.DateType = Field()


class Mapped(Contract):
    """A map, and maps in a list, a structure and a map."""

    shares: T.MapType(T.StringType(), T.DoubleType()) = Field(nullable=True)  # type: ignore[valid-type]
    within: T.ArrayType(  # type: ignore[valid-type]
        T.StructType([T.StructField("by", T.MapType(T.LongType(), T.MapType(T.StringType(), T.StringType())))])
    ) = Field(nullable=True)
    day: T.DateType = Field()


def _measured(rows: DataFrame, table: str) -> dict[date, Metrics]:
    declared = CATALOG.table(table)
    found = measure_rows(rows, declared)
    assert all(list(metrics) == list(zero_metrics(declared)) for metrics in found.values())
    return found


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    return _chain(spark, raw_sales(spark, [*DEFECTS, *LATE, *SOUND]))


@pytest.fixture(scope="module")
def measured(tables: Tables) -> Measured:
    return _all_measured(tables)


def _chain(spark: SparkSession, raw: DataFrame, bronze_from: DataFrame | None = None) -> dict[str, DataFrame]:
    rates = spark.createDataFrame([], "currency string, rate_day date, rate decimal(18,6)")
    tables: dict[str, DataFrame] = {"raw_sales": raw, "bronze_fx_rates": rates}
    sources = {**tables, "raw_sales": raw if bronze_from is None else bronze_from}
    for name in ("bronze_sales", "fact_sales_transactions", "fact_daily_revenue"):
        built = computed(CATALOG.step(name).version(), sources)
        # As from a table: planning all layers as one query would take longer than everything else here.
        stored = {table: spark.createDataFrame(rows.collect(), rows.schema) for table, rows in built.items()}
        tables.update(stored)
        sources.update(stored)
    return tables


def _all_measured(tables: Mapping[str, DataFrame]) -> dict[str, dict[date, Metrics]]:
    return {name: _measured(rows, name) for name, rows in tables.items() if name != "bronze_fx_rates"}


def _failures(measured: Mapping[str, dict[date, Metrics]], day: date) -> set[str]:
    of_day = {name: days.get(day, zero_metrics(CATALOG.table(name))) for name, days in measured.items()}
    outcomes = {
        f"{name}.{outcome.rule}": outcome.passed
        for name in measured
        for outcome in judge(CATALOG.table(name), DayFacts(own=of_day[name], upstream=of_day))
    }
    return {rule for rule, passed in outcomes.items() if not passed}


def test_the_accounting_of_a_day_with_every_kind_of_row(measured: Measured) -> None:
    """Known answers, by count: 7 received = 2 published + 2 quarantined + 2 deduplicated + 1 superseded."""
    assert measured["raw_sales"][DAY]["received"] == 7
    assert measured["raw_sales"][DAY]["rows"] == 8
    bronze = measured["bronze_sales"][DAY]
    assert (bronze["rows"], bronze["deduplicated"], bronze["superseded"], bronze["keys"]) == (3, 2, 1, 3)
    assert measured["quarantine_sales"][DAY]["rows"] == 2
    fact = measured["fact_sales_transactions"][DAY]
    assert (fact["rows"], fact["total_amount_eur"], fact["total_quantity"]) == (2, "3.3000", 2)
    assert measured["fact_daily_revenue"][DAY]["total_revenue_eur"] == "3.3000"
    assert _failures(measured, DAY) == _failures(measured, NEXT_DAY) == _failures(measured, SOUND_DAY) == set()


def test_a_day_without_rows_is_measured_as_zeros_and_passes(measured: Measured) -> None:
    """Christmas: nothing was sold, and that is published like any other day."""
    assert _failures(measured, date(2017, 12, 25)) == set()
    for table in CATALOG.tables:
        fields = {FIELDS} if table.layer == "raw" else set()
        assert zero_metrics(table).keys() == {*numbers(table), *examples(table), *fields} - {*OF_DELETIONS}


MAPS = (
    ("map('a', 0.5D, 'b', null)", "array(named_struct('by', map(1L, map('x', 'y', 'z', null), 2L, null)), null)"),
    ("map('a', null, 'b', 0.5D)", "array(named_struct('by', map(1L, map('x', null, 'z', 'y'), 2L, null)), null)"),
    ("map('a', 0.5D)", "array(null, named_struct('by', map(1L, map('x', 'y', 'z', null), 2L, null)))"),
    ("map()", "array(named_struct('by', map()))"),
    ("null", "null"),
    ("map('b', 0.5D)", "array(named_struct('by', null))"),
)


def test_a_map_is_hashed_in_any_order(spark: SparkSession) -> None:
    """Entries that change places leave the hash, at any depth; whose value each is, and nulls, do not."""
    hashed = RowHash(Mapped).column()

    def hashes(maps: Sequence[tuple[str, str]]) -> list[int]:
        rows = [
            f"SELECT {n} n, {shares} shares, {within} within, DATE '2017-03-01' day"
            for n, (shares, within) in enumerate(maps)
        ]
        typed = spark.sql(" UNION ALL ".join(rows)).orderBy("n")
        kinds = struct_type(Mapped)
        return [
            row[0]
            for row in typed.select(
                *(F.col(each.name).cast(each.dataType.simpleString()).alias(each.name) for each in kinds)
            )
            .select(hashed)
            .collect()
        ]

    shuffled = (
        "map('b', null, 'a', 0.5D)",
        "array(named_struct('by', map(2L, null, 1L, map('z', null, 'x', 'y'))), null)",
    )
    assert hashes([shuffled]) == hashes(MAPS[:1])
    assert len({*hashes([*MAPS, *((shares, "null") for shares, _ in MAPS[:4])])}) == len(MAPS) + 4


def test_amounts_swapped_pairwise_after_raw_are_noticed(spark: SparkSession) -> None:
    """Counts and totals stay the same; only the content of the rows shows it."""
    rows = [{"basket_id": str(n), "currency": "EUR", "sales_value": f"{n}.00"} for n in range(1, 9)]
    raw = raw_sales(spark, rows)
    partner = F.when(F.col("basket_id") % 2 == 0, F.col("basket_id") - 1).otherwise(F.col("basket_id") + 1)
    swapped = raw.withColumn("sales_value", F.concat(partner.cast("int").cast("string"), F.lit(".00")))
    straight, crossed = (_all_measured(_chain(spark, raw, rows)) for rows in (raw, swapped))
    assert _failures(straight, DAY) == set()
    totals = [each["fact_sales_transactions"][DAY]["total_amount_eur"] for each in (straight, crossed)]
    assert totals[0] == totals[1]
    assert _failures(crossed, DAY) >= {
        "bronze_sales.content_intact",
        "bronze_sales.everything_accounted_for",
        "fact_sales_transactions.everything_published",
    }


def test_rows_that_arrived_late_are_counted_from_raw_on(measured: Measured) -> None:
    """Eight days are more than a week, seven are not; a marker did not arrive at all."""
    for name in ("raw_sales", "bronze_sales"):
        found = measured[name][LATE_DAY]
        assert (found["late_rows"], found["arrived_rows"]) == (1, 3), name


def test_lines_with_an_old_rate_are_counted(tables: Tables) -> None:
    """Five days are the longest gap that the bank leaves; a line without a rate is counted elsewhere."""
    aged = tables["fact_sales_transactions"].withColumn(
        "rate_day", F.when(F.col("basket_id") != "7", F.date_sub("day", F.col("basket_id").cast("int")))
    )
    assert _measured(aged, "fact_sales_transactions")[SOUND_DAY]["outdated_rate_day"] == 1


def test_the_checksum_sees_content_and_not_order(spark: SparkSession) -> None:
    """It decides whether what is downstream is stale: a value, or a null that changes its column, must change it."""
    rows: list[dict[str, Any]] = [{"basket_id": "1"}, {"basket_id": "2", "retail_disc": None, "coupon_disc": "1.00"}]
    moved: list[dict[str, Any]] = [{"basket_id": "1"}, {"basket_id": "2", "retail_disc": "1.00", "coupon_disc": None}]
    frames = {
        "as it is": raw_sales(spark, rows),
        "turned round": raw_sales(spark, rows).orderBy(F.desc("basket_id")).repartition(3),
        "moved": raw_sales(spark, moved),
        "other day": raw_sales(spark, rows).withColumn("day", F.lit(NEXT_DAY)),
    }
    sums = {name: next(iter(_measured(rows, "raw_sales").values()))["checksum"] for name, rows in frames.items()}
    assert sums["as it is"] == sums["turned round"] == sums["other day"]
    assert sums["as it is"] != sums["moved"]


def test_a_breach_of_the_contract_in_staged_rows_is_counted_with_an_example(tables: Tables) -> None:
    """A transform that lets through what the contract forbids must not publish it."""
    broken = tables["bronze_sales"].withColumn("quantity", F.lit(-1).cast("bigint"))
    measured = _measured(broken, "bronze_sales")[NEXT_DAY]
    assert measured["violating"] == 1
    assert measured["violating_example"] == "quantity: not greater than or equal to 0 (was -1)"


def test_rows_that_differ_in_their_shape_alone_have_different_hashes(spark: SparkSession) -> None:
    """XXH64 passes over nulls, and over where a list ends: the values of all these are the same ones, in this order."""
    rows = [
        ([["a"], ["b"]], ("c", None), []),
        ([["a", "b"]], ("c", None), []),
        ([["a", "b"], None], ("c", None), []),
        ([["a", "b"], []], ("c", None), []),
        ([["a", "b"]], (None, "c"), []),
        ([["a", "b"]], (None, None), ["c"]),
        ([["a", "b"]], ("c", None), [None]),
    ]
    pairs = [(["a", None], ["b", "c"]), (["a", "b"], ["c", None]), (["a", "b", "c"], [None]), (["a"], ["b", "c", None])]
    texts = [("a", None), (None, "a"), ("a", "a"), (None, None)]
    for contract, values in ((Nested, rows), (TwoLists, pairs), (TwoTexts, texts)):
        held = spark.createDataFrame([(*each, DAY) for each in values], struct_type(contract))
        assert held.select(RowHash(contract).column().alias("hash")).distinct().count() == len(values)


def test_a_marker_that_was_taken_back_is_measured(spark: SparkSession) -> None:
    """So that its day is read without it. A day without deletions is recorded as it was before there were any."""
    markers = raw_sales(spark, [marker("2017-03-09T00:00:00.000000Z", 5, date(2017, 3, 4), basket_id="3")])
    raw = markers.unionByName(as_deletions(markers)).unionByName(raw_sales(spark, [{"day": NEXT_DAY}]))
    found = measure_rows(raw, CATALOG.table("raw_sales"))
    assert {name: found[DAY][name] for name in OF_DELETIONS} == dict(zip(OF_DELETIONS, (0, 0, 1), strict=True))
    assert not found[NEXT_DAY].keys() & {*OF_DELETIONS}
