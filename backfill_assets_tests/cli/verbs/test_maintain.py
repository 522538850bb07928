"""``backfill maintain``: says what it would do, does it, and says so."""

from __future__ import annotations

import os
from datetime import date

from backfill_assets_tests.cli.command import Backfill

DAY = date(2017, 3, 1)


def test_planned_done_and_nothing_left(backfill: Backfill) -> None:
    """Five small files of one day become one."""
    assert "nothing to do" in backfill("maintain").output
    for number in range(5):
        backfill.lakehouse.publish(f"a{number}", {"raw_sales": {DAY: [number]}}, mode="append")
    (task,) = backfill.json("maintain", "--dry-run")["chores"]
    assert (task["chore"], task["table"], task["items"], task["outcome"]) == ("compact", "raw_sales", [str(DAY)], "")
    assert task["files"] == 5 and task["bytes"]
    assert "Nothing was done" in backfill("maintain", "--dry-run").output
    assert len(backfill.lakehouse.newest("raw_sales").file_uris()) == 5
    assert "1 day compacted" in backfill("maintain").output
    assert len(backfill.lakehouse.newest("raw_sales").file_uris()) == 1
    assert backfill.json("maintain")["chores"] == []


def test_after_a_long_pause_a_person_who_checked_the_clock_frees_more(backfill: Backfill) -> None:
    """The small lakehouse's log is of 2017: what it bears out is not the years since."""
    for number in range(2):
        backfill.lakehouse.publish(f"p{number}", {"bronze_sales": {DAY: [number]}})
    replaced = min((backfill.home / "lakehouse").glob("bronze_sales/_timelines/run-p0/day=*/*.parquet"))
    for file in replaced.parents[1].rglob("*"):
        os.utime(file, (0, 0))
    assert backfill.json("maintain")["chores"] == [] and replaced.exists()
    (task,) = backfill.json("maintain", "--clock-checked")["chores"]
    assert task["chore"] == "reclaim files" and not replaced.exists()
