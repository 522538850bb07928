"""The five hazards on a few real lines: each plain way goes wrong, and the careful one and this project do not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.examples.lab.counts import WayCounts
from backfill_assets.examples.lab.hazards import HAZARDS
from backfill_assets.examples.lab.ways import Workbench
from backfill_assets.publish.promote import silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE_LINE_OF = 25


@pytest.fixture
def bench(tmp_path: Path, spark: SparkSession) -> Workbench:
    return Workbench(spark, tmp_path, print, silent)


def ways(bench: Workbench, name: str, one_line_of: int = ONE_LINE_OF) -> dict[str, WayCounts]:
    """Of the hazard by their names, once each of them is as it must be."""
    hazard = bench.play(name, HAZARDS[name], one_line_of)
    for way in hazard.ways:
        print(way.way, (way.missing, way.doubled), f"{way.seconds:.1f} s")
    assert hazard.shown, hazard.ways
    return {way.way: way for way in hazard.ways}


@pytest.mark.long
def test_a_backfill_collides_with_a_stream(bench: Workbench) -> None:
    """``replaceWhere`` loses what the stream appended, and doubles what both have read."""
    found = ways(bench, "collision")
    lost = found["replaceWhere"]
    assert lost.missing > 0 and lost.doubled > 0
    appended = found["append"]
    assert (appended.missing, appended.doubled) == (0, appended.tables[0].rows - appended.events)
    assert "staged again: 1 time" in found["this project"].note, "the stream came between staging and publishing"
    assert "read before the backfill: 1 time" in found["this project"].note
    assert found["MERGE by key"].careful and not found["MERGE by key"].note.startswith("MERGE wrote 0 ")


@pytest.mark.long
def test_a_job_repeats_what_it_has_written(bench: Workbench) -> None:
    """By a retry, by a batch that its checkpoint does not know, and by a checkpoint that is lost."""
    found = ways(bench, "repeat")
    assert found["append, then a retry"].doubled == found["stream, killed"].doubled > 0
    assert found["stream, checkpoint lost"].doubled == found["this project"].events
    merged = found["MERGE by key"]
    assert merged.careful, "the batch of the dead attempt is passed over; all files are merged again once, later"
    assert merged.note == f"MERGE wrote {merged.events:,} rows that were there already."


@pytest.mark.long
def test_one_big_job_loses_its_work(bench: Workbench) -> None:
    """And reads the source again; the other one uses what was staged, and reads raw."""
    found = ways(bench, "scale", one_line_of=200)
    job, read, rebuild = found.values()
    days = len(HAZARDS["scale"].days)
    assert job.days_thrown_away > days / 2 and job.source.files == 2 * days
    assert job.source.most_at_once > 2 * read.source.most_at_once
    assert (rebuild.source.files, rebuild.source.bytes, rebuild.days_thrown_away) == (0, 0, 0)
    assert f"It died with {days} of {days} days staged" in rebuild.note


@pytest.mark.long
def test_a_boundary_by_time_has_gaps_and_overlaps(bench: Workbench) -> None:
    """A boundary by positions has neither."""
    found = ways(bench, "boundary")
    assert found["from now"].missing > 0 and found["from now"].doubled == 0
    assert found["with an overlap"].doubled > 0
    assert "1 file read. At the end raw_sales has read 4." in found["this project"].note
    assert found["MERGE by key"].careful


@pytest.mark.long
def test_an_undo_loses_what_the_stream_has_brought_since(bench: Workbench) -> None:
    """``RESTORE`` does; here a day gets its files back, and one is staged again."""
    found = ways(bench, "undo")
    lost, ours = found["MERGE, then RESTORE"], found["this project"]
    assert 0 < lost.missing < lost.events / 2 and lost.doubled == 0
    assert found["MERGE by key, old logic again"].careful
    assert "1 day put back, 1 day staged again" in ours.note
    assert [table.table for table in ours.tables] == ["raw_sales", "bronze_sales", "fact_sales_transactions"]
