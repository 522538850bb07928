"""Ctrl-C in the middle of ``backfill run``: nothing of that step is published, and what was staged is used again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import open_timelines
from backfill_assets.text import format_are
from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2017-03-01..2017-03-15")
CHUNKS_OF_DAYS = 5
_PATIENCE = 240
_RUN = ("run", "bronze_sales", "--days", str(DAYS))
_BACKFILL = f"""
import sys
from backfill_assets.cli import main
from backfill_assets.rebuild import decide
decide._MOST_DAYS = {CHUNKS_OF_DAYS}
main(sys.argv[1:])
"""
"""Days are staged in chunks of 45 otherwise."""


def staged(home: Path) -> set[date]:
    """Days that a run has staged in every table of the step, with their gates passed."""
    storage = Storage(str(home / "lakehouse"))
    found = []
    for table in ("bronze_sales", "quarantine_sales"):
        held = [day for timeline in open_timelines(storage, table) for day in timeline.days().values()]
        found.append({day.day for day in held if day.verdict and day.verdict.passed})
    return set.intersection(*found)


def interrupt_once_days_are_staged(process: subprocess.Popen[str], home: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while len(staged(home)) < CHUNKS_OF_DAYS:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "no day was staged"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)


def test_an_interrupted_run_publishes_nothing_and_its_days_are_used_again(workshop: Workshop) -> None:
    """15 days in three chunks, interrupted after the first."""
    home = workshop.settings.home
    workshop.land_synthetic(SyntheticSpec(days=DAYS, rows_per_day=3, seed=7, defects={}))
    workshop.build("raw_sales", DAYS)
    environment = os.environ | {"BACKFILL_HOME": str(home)}
    command = [sys.executable, "-c", _BACKFILL, *_RUN]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    interrupt_once_days_are_staged(process, home)
    _, said = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 130, said
    assert "Interrupted while bronze_sales was built: nothing of it was published." in said
    assert "Run the same command again: days that were staged are used as they are." in said
    assert "Traceback" not in said
    assert workshop.states("bronze_sales") == {}
    kept = len(staged(home))
    assert CHUNKS_OF_DAYS <= kept < len(DAYS)

    result = workshop.build("bronze_sales", DAYS)

    assert {day.day for day in result.days if day.table == "bronze_sales"} == set(DAYS)
    assert f"bronze_sales: {format_are(kept, 'staged day')} taken over from an earlier run" in workshop.messages
    assert len(workshop.read("bronze_sales")) == 3 * len(DAYS)
