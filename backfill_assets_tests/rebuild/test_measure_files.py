"""Staged files are measured here and by Spark, and it comes to the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.rows import rows_of_files, stage
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.model.declaration import DayFacts, DayRule, GateFinding, Table
from backfill_assets.quality import measures
from backfill_assets.rebuild import measure_files as module
from backfill_assets.rebuild.measure_files import can_measure, measure_files, measure_on_executors
from backfill_assets_tests.quality.test_measures import DEFECTS, NEXT_DAY
from backfill_assets_tests.strategies.raw_sales import DAY, raw_sales

ROWS: list[dict[str, Any]] = [
    *DEFECTS,
    {"basket_id": "6", "currency": "CHF", "sales_value": "+7.5", "transaction_timestamp": "yesterday"},
    {"basket_id": "7", "quantity": "007", "rescued": '{"till":"é"}', "arrival_day": NEXT_DAY},
    {"basket_id": "8", "day_is_arrival": True, "updated_at": "2017-03-01T23:59:59.5Z"},
]


class OddStores(DayRule):
    """A rule that only Spark can measure."""

    name_format = "odd_stores"
    dimension = "validity"

    def measure(self) -> Mapping[str, Any]:
        def odd() -> Column:
            return F.count_if(F.col("store_id").cast("bigint") % 2 == 1)

        return {"odd_stores": odd, "odd_stores_example": lambda: F.min("store_id")}

    def judge(self, facts: DayFacts) -> GateFinding:
        raise NotImplementedError


def _tables(spark: SparkSession) -> dict[str, DataFrame]:
    rates = spark.createDataFrame([], "currency string, rate_day date, rate decimal(18,6)")
    tables = {"raw_sales": raw_sales(spark, ROWS), "bronze_fx_rates": rates}
    for name in ("bronze_sales", "fact_sales_transactions", "fact_daily_revenue"):
        tables |= CATALOG.step(name).version().transform(tables)
    return {name: rows for name, rows in tables.items() if name != "bronze_fx_rates"}


@pytest.fixture
def timelines(spark: SparkSession, tmp_path: Path) -> dict[str, Timeline]:
    """Every table of sales, with every kind of row, as Spark writes it."""
    staged = {}
    for name, rows in _tables(spark).items():
        staged[name] = Timeline(Storage(str(tmp_path)), name, "one")
        stage(rows, staged[name], dict.fromkeys((DAY, NEXT_DAY), StagedAs(input_fingerprint="1")), other_days=True)
    return staged


def _by_both(spark: SparkSession, table: Table, timeline: Timeline) -> tuple[Any, Any, int]:
    files, asked = timeline.files(), []

    def rows() -> DataFrame:
        asked.append(table.name)
        return rows_of_files(spark, timeline, files)

    native = measure_files(timeline.storage, table, timeline.path, files, rows, 99)
    return native, measures.measure_days(rows_of_files(spark, timeline, files), table, 1), len(asked)


def test_files_are_measured_as_spark_measures_them(spark: SparkSession, timelines: dict[str, Timeline]) -> None:
    """All metrics in their order, and Spark is asked for examples of what is wrong alone."""
    for name, timeline in timelines.items():
        table = CATALOG.table(name)
        native, by_spark, asked = _by_both(spark, table, timeline)
        assert native == by_spark and by_spark, name
        assert all(list(metrics) == list(measures.zero_metrics(table)) for metrics in native.values())
        wrong = [each for each in measures.examples(table) if any(day[each] for day in native.values())]
        assert asked == bool(wrong), name


def test_a_rule_that_only_spark_can_measure_is_measured_by_it(
    spark: SparkSession, timelines: dict[str, Timeline]
) -> None:
    """With its example; what else is measured stays as it is."""
    table = CATALOG.table("bronze_sales")
    own = replace(table, rules=(*table.rules, OddStores()))
    native, by_spark, _ = _by_both(spark, own, timelines["bronze_sales"])
    assert native == by_spark
    assert {day: metrics["odd_stores"] for day, metrics in native.items()} == {DAY: 0, NEXT_DAY: 0}


@pytest.mark.parametrize("able", [True, False])
def test_much_in_a_bucket_is_read_by_executors(
    spark: SparkSession, timelines: dict[str, Timeline], monkeypatch: pytest.MonkeyPatch, able: bool
) -> None:
    """With the same kernels, if they have this package and may read it; else Spark measures its own rows."""
    tables = [CATALOG.table(name) for name in ("bronze_sales", "raw_sales")]
    expected = [_by_both(spark, table, timelines[table.name])[0] for table in tables]
    monkeypatch.setattr(Storage, "is_folder", False)
    monkeypatch.setattr(module, "MOST_BYTES_FROM_A_BUCKET", 1)
    monkeypatch.setattr(module, "_measure_here", lambda *_: pytest.fail("it was read"))
    counted: list[int] = []
    on_executors = measure_on_executors

    def counting(*asked: Any) -> Any:
        counted.append(1)
        return on_executors(*asked)

    monkeypatch.setattr(module, "measure_on_executors", counting)
    if not able:
        monkeypatch.setattr(module, "can_measure", lambda *_: False)
    assert [_by_both(spark, table, timelines[table.name])[0] for table in tables] == expected
    assert len(counted) == (2 if able else 0)


def test_executors_that_cannot_read_the_lakehouse_are_not_asked(spark: SparkSession, tmp_path: Path) -> None:
    """Or that have another Python, without this package."""
    (tmp_path / "file").touch()
    assert not can_measure(spark, str(tmp_path / "file"))


def test_nothing_is_measured_of_no_files() -> None:
    """A quarantine table is mostly empty."""
    assert measure_files(Storage("."), CATALOG.table("bronze_sales"), "", [], pytest.fail, 0) == {}
