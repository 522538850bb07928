"""What a person sees of the demo's backfill while it runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backfill_assets.examples.demo.follow import BackfillProgress
from backfill_assets.examples.demo.progress import BackfillProgressView, shown

STEPS = ["raw_sales", "bronze_sales"]
LAUNCHED = BackfillProgress("abcdefgh", "REQUESTED", runs={}, steps={}, step_seconds={})
RUNNING = replace(LAUNCHED, steps={"raw_sales": "STARTED"}, message="raw_sales: 1/3 days staged, ETA 4 s")
HALF = replace(LAUNCHED, steps={"raw_sales": "SUCCESS", "bronze_sales": "STARTED"}, step_seconds={"raw_sales": 7.4})
DONE = replace(
    LAUNCHED,
    status="COMPLETED_SUCCESS",
    steps={"raw_sales": "SUCCESS", "bronze_sales": "SUCCESS"},
    step_seconds={"raw_sales": 7.4, "bronze_sales": 2.0},
)


def test_each_thing_is_said_once_and_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    """In a log or a pipe there is no place to overwrite: a line when a step begins, stages days, and is done."""
    view = BackfillProgressView(STEPS, LAUNCHED)
    with shown(view) as show:
        for now in (LAUNCHED, RUNNING, RUNNING, HALF, DONE):
            show(now)
    assert view.now == DONE
    said = [line.partition("  ")[2] for line in capsys.readouterr().out.splitlines() if line[:2].isdigit()]
    assert said == [
        "raw_sales                  running  1/3 days staged, ETA 4 s",
        "raw_sales                  done     7 s",
        "bronze_sales               running",
        "bronze_sales               done     2 s",
    ]


def test_the_headline_says_what_the_demo_waits_for() -> None:
    """Half a minute without a word looks like a hang."""
    progress = BackfillProgressView(STEPS, LAUNCHED)
    for now, expected in (
        (LAUNCHED, "waiting for Dagster's daemon to start the run"),
        (RUNNING, "0 of 2 steps done"),
        (HALF, "1 of 2 steps done"),
        (replace(DONE, status="REQUESTED"), "every step is done, Dagster is closing the backfill"),
        (replace(LAUNCHED, steps={"raw_sales": "FAILURE"}), "a step failed, Dagster is closing the backfill"),
    ):
        progress.hear(now)
        assert progress.headline == f"backfill abcdefgh, 00:00: {expected}"
