"""Markers lie beside the rows that arrived, in no commit of their timeline: another try looks for them anew."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import InputRead
from backfill_assets.lakehouse.rows import rows_of_files, stage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.publish.promote import silent
from backfill_assets.rebuild import raw_change as module
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.raw_change import RawWriter
from backfill_assets_tests.strategies.raw_sales import raw_sales
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD, NEW = (date(2017, 3, day) for day in (1, 2))


@pytest.mark.parametrize(("at_once", "files"), [(3, 1), (2, 2)])
def test_markers_are_written_beside_the_rows_that_arrived(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, files: int
) -> None:
    """One file a day; of more than are held at once, another one for each turn."""
    monkeypatch.setattr(module, "_MARKERS_AT_ONCE", at_once)
    lake = Workshop(tmp_path, lambda: spark).builder.lake
    timeline = Timeline(lake.storage, "raw_sales", "a-run")
    versions = [
        {"day": day, "basket_id": basket, "updated_at": f"{day}T20:00:00Z"} for day in (OLD, NEW) for basket in "abc"
    ]
    rows = stage(raw_sales(spark, versions).coalesce(1), timeline, {}, other_days=True)
    build = RawWriter(lake, CATALOG.step("raw_sales"), RunInfo("a-run"), silent)
    around = InputRead(table="raw_sales", version=None, days={})
    written = build.stage_supersessions(timeline, rows, around)
    assert [file.day for file in written] == [str(OLD)] * files
    assert {file.path for file in timeline.files()} == {file.path for file in rows}
    found = rows_of_files(spark, timeline, written).collect()
    assert sorted((row.basket_id, row.updated_at, row.superseded_by_day, row.day) for row in found) == [
        (basket, f"{NEW}T20:00:00.000000Z", NEW, OLD) for basket in "abc"
    ]


def test_nothing_is_written_without_a_newer_version(spark: SparkSession, tmp_path: Path) -> None:
    lake = Workshop(tmp_path, lambda: spark).builder.lake
    timeline = Timeline(lake.storage, "raw_sales", "a-run")
    rows = stage(raw_sales(spark, [{"day": OLD}, {"day": OLD}]), timeline, {}, other_days=True)
    build = RawWriter(lake, CATALOG.step("raw_sales"), RunInfo("a-run"), silent)
    around = InputRead(table="raw_sales", version=None, days={})
    assert build.stage_supersessions(timeline, rows, around) == []
    assert {file.path for file in timeline.files()} == {file.path for file in rows}
