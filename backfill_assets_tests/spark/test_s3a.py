"""Spark on a lakehouse in an S3-compatible store: it stages over ``s3a://``, and delta-rs publishes there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from backfill_assets.days import DayRange
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.judge import measure
from backfill_assets.judge.engine import DayFiles
from backfill_assets.judge.measure import measure_on_executors
from backfill_assets.lakehouse.object_store import spark_address
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Metrics
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.settings import Settings, lakehouse_path
from backfill_assets.spark.connect_server import connect_server
from backfill_assets.spark.jars import fetch_jars
from backfill_assets.spark.session import spark_session
from backfill_assets_tests.conftest import SMALL_SPARK
from backfill_assets_tests.s3_store import BUCKET, s3_server
from backfill_assets_tests.stories.orders_of_others import shop_at
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-04-13..2017-04-13")


@pytest.fixture
def on_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings of a lakehouse in an empty bucket; the JARs that it needs are fetched once, where there is a network."""
    with s3_server() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings = replace(Settings.at(tmp_path), lakehouse=lakehouse_path(f"s3://{BUCKET}/retail"))
        try:
            fetch_jars(settings)
        except LakehouseUnusable as error:
            if "could not fetch" not in error.message:
                raise
            pytest.skip(f"the JARs for s3a could not be fetched: {error.message}")
        yield settings


@pytest.fixture
def session(on_s3: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """Of a Connect server that reaches the bucket."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with connect_server(on_s3, options=SMALL_SPARK) as server:
        remote = replace(on_s3, spark_profile="connect", spark_remote=server.url)
        with spark_session(remote, "s3a") as connected:
            yield connected


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_same_rows_as_on_a_disk(
    on_s3: Settings, session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Landed files to bronze through both: staged and published, and read again as the input of the next table.

    A third time executors measure what is staged in the bucket: each reads it with the rights of its own environment.
    The gates pass, and publications record the same metrics of each day.
    """
    on_disk, in_store = (Workshop(tmp_path, lambda: session) for _ in range(2))
    on_disk.land_synthetic(SyntheticSpec(days=DAYS, rows_per_day=50, seed=13))
    in_store.builder = Builder.from_settings(on_s3, CATALOG, lambda: session)
    for workshop in (in_store, on_disk):
        _build(workshop)
    found = in_store.contents()
    assert found == on_disk.contents()
    assert found["bronze_sales"] and str(in_store.builder.lake.storage.root).startswith("s3://")

    measured: list[str] = []

    def counting(spark: SparkSession, storage: Storage, columns: Any, files: DayFiles, query: str) -> Any:
        measured.extend(file.path for some in files.values() for file in some)
        return measure_on_executors(spark, storage, columns, files, query)

    monkeypatch.setattr(measure, "MOST_BYTES_FROM_A_BUCKET", 0)
    monkeypatch.setattr(measure, "measure_on_executors", counting)
    by_executors = Workshop(tmp_path, lambda: session)
    elsewhere = replace(on_s3, lakehouse=lakehouse_path(f"s3://{BUCKET}/by-executors"))
    by_executors.builder = Builder.from_settings(elsewhere, CATALOG, lambda: session)
    _build(by_executors)
    assert by_executors.contents() == found
    assert {path.partition("/")[0] for path in measured} >= {"raw_sales", "bronze_sales"}, measured
    assert _metrics(by_executors) == _metrics(on_disk)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_table_of_others_in_a_bucket_is_read_where_it_lies(
    on_s3: Settings, session: SparkSession, tmp_path: Path
) -> None:
    """With rows that were deleted by deletion vectors, and again after others have written."""
    orders = f"s3://{BUCKET}/others/orders"
    table = f"delta.`{spark_address(orders)}`"
    session.sql(
        f"CREATE TABLE {table} (order_id STRING, email STRING, order_date DATE, amount DECIMAL(10,2)) USING delta "
        "PARTITIONED BY (order_date) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    day = "DATE'2025-01-01' + CAST(id % 3 AS INT)"
    session.sql(f"INSERT INTO {table} SELECT STRING(id), 'a@x.org', {day}, id FROM range(30)")  # noqa: S608
    session.sql(f"DELETE FROM {table} WHERE order_id = '3'")  # noqa: S608
    catalog = Catalog.of([shop_at(orders)])
    builder = Builder.from_settings(on_s3, catalog, lambda: session)
    days = list(DayRange.parse("2025-01-01..2025-01-03"))

    def published() -> list[int]:
        builder.build(catalog.step("fact_daily_orders"), days, run=RunInfo("run"))
        rows = DeltaTable(f"{on_s3.lakehouse}/fact_daily_orders", storage_options=dict(builder.lake.storage.options))
        return [int(row["amount"]) for row in sorted(rows.to_pyarrow_table().to_pylist(), key=itemgetter("day"))]

    sums = [sum(range(first, 30, 3)) for first in range(3)]
    assert published() == [sums[0] - 3, *sums[1:]]
    session.sql(f"UPDATE {table} SET amount = amount + 1 WHERE order_id = '2'")  # noqa: S608
    assert published() == [sums[0] - 3, sums[1], sums[2] + 1]


def _build(workshop: Workshop) -> None:
    for table in ("raw_sales", "bronze_sales"):
        workshop.builder.build(CATALOG.step(table), list(DAYS), run=RunInfo("run"))


def _metrics(workshop: Workshop) -> dict[tuple[str, date], Metrics]:
    """What publications recorded of each day."""
    return {
        (table, day): state.content.metrics
        for table in ("raw_sales", "bronze_sales", "quarantine_sales")
        for day, state in workshop.states(table).items()
        if state.content
    }
