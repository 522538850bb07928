"""The terminal of ``backfill dev`` has what a person needs; all else that Dagster says is in the log."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from backfill_assets.cli.dev import dev_log
from backfill_assets.cli.dev.dev_log import AGAIN_AFTER_SECONDS, MOST_LINES, DevLog, Sieve

_BLUE, _PLAIN = "\x1b[34m", "\x1b[0m"


def said(who: str, level: str, text: str) -> str:
    """As Dagster writes it, in colour."""
    return f"\x1b[32m2026-11-29 11:05:28 +0000{_PLAIN} - {who} - {_BLUE}{level}{_PLAIN} - {text}\n"


def shown(lines: Iterable[str], sieve: Sieve | None = None, now: float = 0.0) -> list[str]:
    sieve = sieve or Sieve()
    return [found for line in lines for found in sieve.take(line, now)]


SENSORS = ("campaigns", "dagster_shows_what_is", "landed_files", "repairs", "restores_raw", "streams")
TRACE = ["Traceback (most recent call last):\n", '  File "a.py", line 1\n', "ValueError: 7\n"]


def test_ten_quiet_minutes_are_silent() -> None:
    """Each sensor looks every 15 seconds, and a backfill that waits is looked at every two."""
    lines = ["<frozen runpy>:128: RuntimeWarning: found in sys.modules\n"]
    for _ in range(40):
        for sensor in SENSORS:
            lines.append(said("dagster.daemon.SensorDaemon", "INFO", f"Checking for new runs for sensor: {sensor}"))
            lines.append(said("dagster.daemon.SensorDaemon", "INFO", f"Sensor {sensor} skipped: Nothing to repair."))
        lines.append("2026-11-29 11:05:33 +0000 - dagster - INFO - __repository__ - streams - never started.\n")
    for _ in range(300):
        lines.append(said("dagster.daemon.BackfillDaemon", "INFO", "Overall backfill status:"))
        lines += ["**Materialized assets:**\n", "- raw_sales: {12 partitions: 2017-03-01 -> 2017-03-12}\n", "\n"]
    assert len(lines) > 1500 and shown(lines) == []


def test_what_goes_wrong_is_seen_with_its_stack_trace() -> None:
    """In one colour, with its time; so is a crash that goes through no logger, and a launch."""
    lines = [
        said("dagster.daemon.SensorDaemon", "ERROR", "Sensor daemon caught an error for sensor repairs"),
        *TRACE,
        said("dagster.daemon.SensorDaemon", "INFO", "Checking for new runs for sensor: streams"),
        "what goes on is no message of its own\n",
        said("dagster.daemon.QueuedRunCoordinatorDaemon", "INFO", "Launched 2 runs."),
        said("dagster.daemon.QueuedRunCoordinatorDaemon", "INFO", "Launched 0 runs."),
        "26/11/29 11:05:28 WARN TaskSetManager: Lost task 0.0 in stage 1.0\n",
    ]
    assert shown(lines) == [
        "11:05:28 ERROR dagster.daemon.SensorDaemon: Sensor daemon caught an error for sensor repairs",
        *(line.rstrip() for line in TRACE),
        "11:05:28 INFO dagster.daemon.QueuedRunCoordinatorDaemon: Launched 2 runs.",
        "11:05:28 WARN TaskSetManager: Lost task 0.0 in stage 1.0",
    ]
    assert shown(TRACE) == [line.rstrip() for line in TRACE]


def test_the_same_error_at_every_look_is_shown_once_in_ten_minutes() -> None:
    """Messages that differ in an id or a number are the same; another sensor's is not."""
    sieve = Sieve()

    def look(sensor: str, now: float) -> list[str]:
        return shown([said("dagster", "ERROR", f"{sensor} failed, try 3f2a9c1b0d: 7"), *TRACE], sieve, now)

    assert len(look("repairs", 0.0)) == 4
    assert [look("repairs", now) for now in (15.0, 30.0)] == [[], []]
    assert len(look("streams", 30.0)) == 4
    assert look("repairs", AGAIN_AFTER_SECONDS)[0].endswith(": 7 (and 2 times since it was shown)")


def test_a_long_message_is_cut() -> None:
    lines = shown([said("dagster", "ERROR", "Step failed."), *["  at a line\n"] * 500])
    assert len(lines) == MOST_LINES and lines[-1].endswith("... the rest is in the log.")


def test_all_of_it_is_in_a_file_that_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its last process said is shown before the end; the log of the run before is kept."""
    monkeypatch.setattr(dev_log, "MOST_BYTES", 2000)
    told: list[str] = []
    log = DevLog(tmp_path / "home" / "dev.log", told.append)
    for _ in range(2):
        with log.followed() as written:
            for _ in range(3):
                many = [sys.executable, "-c", "print('quiet\\n' * 500)"]
                subprocess.run(many, stdout=written, check=True)
                time.sleep(0.5)
            subprocess.run([sys.executable, "-c", f"raise ValueError({str(tmp_path)!r})"], stderr=written, check=False)
        assert told.pop() == f"ValueError: {tmp_path}" and f"is in {log.path}" in told[0]
        told.clear()
    assert log.path.stat().st_size < 2000
    assert "quiet" in (tmp_path / "home" / "dev.before.log").read_text()
    assert log.last_lines().endswith(f"ValueError: {tmp_path}")
