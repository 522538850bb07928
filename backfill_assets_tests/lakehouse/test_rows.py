"""Published and staged rows are read by naming their files; Delta is asked only where a path does not say its day."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql import types as T

from backfill_assets.lakehouse.publication import InputRead
from backfill_assets.lakehouse.rows import published_rows, staged_rows
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets_tests.small_lakehouse import SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = T.StructType([T.StructField("id", T.LongType()), T.StructField("day", T.DateType())])
FIRST, SECOND, THIRD = "2017-03-01", "2017-03-02", "2017-03-03"


def ids(rows: DataFrame) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows.collect():
        found.setdefault(str(row["day"]), []).append(row["id"])
    return {day: sorted(values) for day, values in sorted(found.items())}


def scans(rows: DataFrame) -> str:
    """What kind of files the plan reads."""
    return str(rows._jdf.queryExecution().executedPlan())


def read(lake: SmallLakehouse, *days: str, version: int | None = None) -> InputRead:
    return InputRead(
        table="fact",
        version=lake.newest("fact").version() if version is None else version,
        days=dict.fromkeys(days, ""),
    )


@pytest.fixture
def lake(tmp_path: Path) -> SmallLakehouse:
    lake = SmallLakehouse(tmp_path)
    lake.publish("one", {"fact": {FIRST: [1, 2], SECOND: [3], THIRD: [9]}})
    lake.publish("two", {"fact": {SECOND: [4, 5]}})
    return lake


def test_days_come_from_the_files_of_the_pinned_version(spark: SparkSession, lake: SmallLakehouse) -> None:
    """Of two timelines, and without the days that were not asked for."""
    now = published_rows(spark, lake.storage, read(lake, FIRST, SECOND), SCHEMA)
    before = published_rows(
        spark, lake.storage, read(lake, FIRST, SECOND, version=lake.newest("fact").version() - 1), SCHEMA
    )
    assert ids(now) == {FIRST: [1, 2], SECOND: [4, 5]}
    assert ids(before) == {FIRST: [1, 2], SECOND: [3]}
    assert "_delta_log" not in scans(now) and "TahoeLog" not in scans(now)


def test_a_column_that_the_files_lack_is_null(spark: SparkSession, lake: SmallLakehouse) -> None:
    wider = T.StructType([*SCHEMA.fields[:1], T.StructField("note", T.StringType()), SCHEMA["day"]])
    rows = published_rows(spark, lake.storage, read(lake, FIRST), wider)
    assert rows.columns == ["id", "note", "day"]
    assert {row["note"] for row in rows.collect()} == {None}


def test_days_without_files_have_no_rows(spark: SparkSession, lake: SmallLakehouse) -> None:
    rows = published_rows(spark, lake.storage, read(lake, "2017-04-01"), SCHEMA)
    assert rows.schema == SCHEMA and rows.count() == 0


def test_a_file_whose_path_does_not_say_its_day_is_left_to_delta(spark: SparkSession, lake: SmallLakehouse) -> None:
    """The log gives a file its day; a path need not."""
    table = lake.newest("fact")
    source = Path(next(uri for uri in table.file_uris() if THIRD in uri))
    target = Path(lake.storage.uri("fact")) / "elsewhere.parquet"
    target.write_bytes(source.read_bytes())
    add = AddAction("elsewhere.parquet", target.stat().st_size, {"day": THIRD}, 0, True, '{"numRecords": 1}')
    DeltaTable(lake.storage.uri("fact")).create_write_transaction([add], "append", table.schema(), ["day"])
    assert ids(published_rows(spark, lake.storage, read(lake, THIRD), SCHEMA)) == {THIRD: [9, 9]}


def test_staged_rows_are_those_of_the_days_asked_for(spark: SparkSession, lake: SmallLakehouse) -> None:
    timeline = Timeline(lake.storage, "fact", "run-one")
    assert ids(staged_rows(spark, timeline, [FIRST, THIRD])) == {FIRST: [1, 2], THIRD: [9]}
    assert ids(staged_rows(spark, timeline)) == {FIRST: [1, 2], SECOND: [3], THIRD: [9]}
