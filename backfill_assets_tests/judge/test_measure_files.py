"""Files are measured by the judge with the hashes that Spark wrote beside their rows, or computes again."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge import measure
from backfill_assets.judge.engine import DayFiles, files_by_day
from backfill_assets.judge.measure import executors_read, measure_files, measure_on_executors
from backfill_assets.lakehouse.rows import rows_of_files, stage
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.model.declaration import Metrics
from backfill_assets.model.measure import hashes_written_of, is_hash
from backfill_assets.quality import measures
from backfill_assets.spark.computed import computed
from backfill_assets_tests.judge.written_rows import measure_rows
from backfill_assets_tests.quality.test_measures import DEFECTS, NEXT_DAY
from backfill_assets_tests.strategies.raw_sales import DAY, raw_sales

ROWS: list[dict[str, Any]] = [
    *DEFECTS,
    {"basket_id": "6", "currency": "CHF", "sales_value": "+7.5", "transaction_timestamp": "yesterday"},
    {"basket_id": "7", "quantity": "007", "rescued": '{"till":"é"}', "arrival_day": NEXT_DAY},
    {"basket_id": "8", "day_is_arrival": True, "updated_at": "2017-03-01T23:59:59.5Z"},
]


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, DataFrame]:
    """Every table of sales, with every kind of row."""
    rates = spark.createDataFrame([], "currency string, rate_day date, rate decimal(18,6)")
    tables = {"raw_sales": raw_sales(spark, ROWS), "bronze_fx_rates": rates}
    for name in ("bronze_sales", "fact_sales_transactions", "fact_daily_revenue"):
        tables |= computed(CATALOG.step(name).version(), tables)
    return {name: rows for name, rows in tables.items() if name != "bronze_fx_rates"}


def _staged(rows: DataFrame, name: str, folder: Path, *, hashed: bool = True) -> Timeline:
    timeline = Timeline(Storage(str(folder)), name, "one")
    days = dict.fromkeys((DAY, NEXT_DAY), StagedAs(input_fingerprint="1"))
    stage(rows, timeline, days, table=CATALOG.table(name) if hashed else None, other_days=True)
    return timeline


def _measured(spark: SparkSession, timeline: Timeline, **asked: Any) -> tuple[dict[date, Metrics], int]:
    """And how often Spark was asked for the rows."""
    files, reads = timeline.files(), []

    def rows() -> DataFrame:
        reads.append(timeline)
        return rows_of_files(spark, timeline, files)

    by_day = files_by_day(timeline.path, files)
    return measure_files(timeline.storage, CATALOG.table(timeline.table), by_day, rows, **asked), len(reads)


def test_hashes_are_those_that_spark_wrote_or_computes_again(
    spark: SparkSession, tables: dict[str, DataFrame], tmp_path: Path
) -> None:
    """All metrics are the same in their order; Spark starts nothing for rows whose hashes it has written."""
    for name, rows in tables.items():
        table = CATALOG.table(name)
        written, reads = _measured(spark, _staged(rows, name, tmp_path / "written"))
        assert written and reads == 0, name
        assert all(list(each) == list(measures.zero_metrics(table)) for each in written.values())
        without, reads = _measured(spark, _staged(rows, name, tmp_path / "without", hashed=False))
        assert (without, reads) == (written, 1), name
        assert _measured(spark, _staged(rows, name, tmp_path / "afresh"), afresh=True) == (written, 1)


def test_a_day_that_one_file_without_hashes_came_to_is_hashed_again(
    spark: SparkSession, tables: dict[str, DataFrame], tmp_path: Path
) -> None:
    """Another writer knows nothing of them; the other days of the table are as Spark wrote them."""
    rows = tables["bronze_sales"]
    timeline = _staged(rows, "bronze_sales", tmp_path)
    stage(rows.where(rows.day == DAY), timeline, {DAY: StagedAs(input_fingerprint="2")})
    found, reads = _measured(spark, timeline)
    expected = measure_rows(rows.where(rows.day == DAY).union(rows), CATALOG.table("bronze_sales"))
    assert (found, reads) == (expected, 1)


def test_only_a_watchdog_sees_that_a_value_is_not_the_one_that_was_hashed(
    spark: SparkSession, tables: dict[str, DataFrame], tmp_path: Path
) -> None:
    """A value that is changed in its file beside the old hash."""
    timeline = _staged(tables["bronze_sales"], "bronze_sales", tmp_path)
    before, _ = _measured(spark, timeline)
    for path in tmp_path.rglob(f"day={DAY}/*.parquet"):
        held = pq.ParquetFile(path).read()
        at = held.column_names.index("store_id")
        pq.write_table(held.set_column(at, "store_id", held["basket_id"]), path)
        path.with_name(f".{path.name}.crc").unlink()
    assert _measured(spark, timeline)[0][DAY] == before[DAY]
    afresh, _ = _measured(spark, timeline, afresh=True)
    assert afresh[NEXT_DAY] == before[NEXT_DAY]
    changed = {name for name, value in afresh[DAY].items() if value != before[DAY][name]}
    assert changed == {"checksum", "recomputed_hash_sum"}


def test_hashes_are_columns_of_files_and_of_nothing_else(
    spark: SparkSession, tables: dict[str, DataFrame], tmp_path: Path
) -> None:
    """Neither a reader of the table nor its statistics know them."""
    timeline = _staged(tables["bronze_sales"], "bronze_sales", tmp_path)
    (path, *_) = tmp_path.rglob("*.parquet")
    hashes = [each.name for each in hashes_written_of(CATALOG.table("bronze_sales"))]
    assert {name for name in pq.ParquetFile(path).schema_arrow.names if is_hash(name)} == {*hashes}
    assert not any(map(is_hash, rows_of_files(spark, timeline, timeline.files()).columns))
    assert not any(name in file.stats for file in timeline.files() for name in hashes)


def test_some_metrics_are_measured_alone(spark: SparkSession, tables: dict[str, DataFrame], tmp_path: Path) -> None:
    timeline = _staged(tables["fact_daily_revenue"], "fact_daily_revenue", tmp_path, hashed=False)
    whole, _ = _measured(spark, timeline)
    some, reads = _measured(spark, timeline, only=("rows", "total_revenue_eur"))
    assert reads == 0
    assert some == {day: {name: each[name] for name in ("rows", "total_revenue_eur")} for day, each in whole.items()}


@pytest.mark.parametrize("able", [True, False])
def test_much_in_a_bucket_is_measured_by_executors(
    spark: SparkSession, tables: dict[str, DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, able: bool
) -> None:
    """By the same query, if they have this package and may read it; else this process reads it."""
    timelines = [_staged(tables[name], name, tmp_path) for name in ("bronze_sales", "raw_sales")]
    expected = [_measured(spark, timeline)[0] for timeline in timelines]
    monkeypatch.setattr(Storage, "is_folder", False)
    monkeypatch.setattr(measure, "MOST_BYTES_FROM_A_BUCKET", 1)
    asked: list[DayFiles] = []

    def counting(spark: SparkSession, storage: Storage, columns: Any, files: DayFiles, query: str) -> Any:
        asked.append(files)
        return measure_on_executors(spark, storage, columns, files, query)

    monkeypatch.setattr(measure, "measure_on_executors", counting)
    if not able:
        monkeypatch.setattr(measure, "executors_read", lambda *_: False)
    assert [_measured(spark, timeline)[0] for timeline in timelines] == expected
    assert len(asked) == (2 if able else 0)


def test_executors_that_cannot_read_the_lakehouse_are_not_asked(spark: SparkSession, tmp_path: Path) -> None:
    """Or that have another Python, without this package."""
    (tmp_path / "file").touch()
    assert not executors_read(spark, str(tmp_path / "file"))
