"""``backfill maintain``: says what it would do, does it, and says so."""

from __future__ import annotations

from backfill_assets_tests.cli.command import Backfill

DAY = "2017-03-01"


def test_planned_done_and_nothing_left(backfill: Backfill) -> None:
    """Five small files of one day become one."""
    assert "nothing to do" in backfill("maintain").output
    for number in range(5):
        backfill.lakehouse.publish(f"a{number}", {"raw_sales": {DAY: [number]}}, mode="append")
    (task,) = backfill.json("maintain", "--dry-run")
    assert (task["chore"], task["table"], task["items"], task["outcome"]) == ("compact", "raw_sales", [DAY], "")
    assert "Nothing was done" in backfill("maintain", "--dry-run").output
    assert len(backfill.lakehouse.newest("raw_sales").file_uris()) == 5
    assert "1 day(s) compacted" in backfill("maintain").output
    assert len(backfill.lakehouse.newest("raw_sales").file_uris()) == 1
    assert backfill.json("maintain") == []
