"""What a person sees of the demo's backfill while it runs."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from backfill_assets.examples.demo.progress import BackfillProgress, happening, shown, step_rows

STEPS = ["raw_sales", "bronze_sales"]
LAUNCHED = BackfillProgress("abcdefgh", "REQUESTED", steps={}, step_seconds={})
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
    with shown(STEPS) as show:
        for now in (LAUNCHED, RUNNING, RUNNING, HALF, DONE):
            show(now)
    said = [line.partition("  ")[2] for line in capsys.readouterr().out.splitlines() if line[:2].isdigit()]
    assert said == [
        "raw_sales                  running  1/3 days staged, ETA 4 s",
        "raw_sales                  done     7 s",
        "bronze_sales               running",
        "bronze_sales               done     2 s",
    ]


def test_steps_stand_in_the_order_in_which_they_began() -> None:
    """Then those that wait; a message is about the step that it names."""
    assert step_rows(RUNNING, STEPS) == [
        ("raw_sales", "running", "", "1/3 days staged, ETA 4 s"),
        ("bronze_sales", "waiting", "", ""),
    ]
    late = replace(HALF, message=RUNNING.message)
    assert step_rows(late, STEPS) == [("raw_sales", "done", "7 s", ""), ("bronze_sales", "running", "", "")]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (LAUNCHED, "waiting for Dagster's daemon to start the run"),
        (RUNNING, "0 of 2 steps done"),
        (HALF, "1 of 2 steps done"),
        (replace(DONE, status="REQUESTED"), "every step is done, Dagster is closing the backfill"),
        (replace(LAUNCHED, steps={"raw_sales": "FAILURE"}), "a step failed, Dagster is closing the backfill"),
    ],
)
def test_it_says_what_the_demo_waits_for(now: BackfillProgress, expected: str) -> None:
    """Half a minute without a word looks like a hang."""
    assert happening(now, STEPS) == expected


def test_a_terminal_shows_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr("backfill_assets.examples.demo.progress.console", lambda: screen)
    with shown(STEPS) as show:
        show(HALF)
    drawn = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "1 of 2 steps done" in drawn
