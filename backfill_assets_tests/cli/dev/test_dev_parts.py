"""A part of ``backfill dev`` that ends is started again, alone; one that cannot live ends the command and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from backfill_assets.cli.dev import dev as dev_parts
from backfill_assets.cli.dev.dev import MOST_EARLY_ENDS, DevPart, DevPartEnded, DevParts, next_ticks
from backfill_assets.cli.dev.sessions import start_process
from backfill_assets.errors import LakehouseUnusable
from backfill_assets_tests.waiting import wait_until

SLEEP = ("sleep", "600")


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def run(tmp_path: Path, said: list[str]) -> Iterator[Callable[..., DevParts]]:
    """Starts parts by their commands; everything is stopped afterwards."""
    running: list[DevParts] = []

    def start(*commands: tuple[str, ...], has_worker: bool = False) -> DevParts:
        parts = [
            DevPart(f"part {number}", lambda command=command: start_process(command, tmp_path, {}), has_worker)  # type: ignore[misc]
            for number, command in enumerate(commands)
        ]
        running.append(DevParts(parts, said.append))
        running[0].start()
        return running[0]

    yield start
    for each in running:
        each.stop()


def _pids(parts: DevParts) -> list[int]:
    return [part.process.pid for part in parts.parts if part.process]


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_a_killed_part_is_started_again_and_the_others_go_on(run: Callable[..., DevParts], said: list[str]) -> None:
    """The daemon must not take the UI, the code server and their runs with it."""
    parts = run(SLEEP, SLEEP)
    killed, kept = _pids(parts)
    _kill(killed)
    wait_until(parts.restart_ended)
    assert _pids(parts)[1] == kept
    assert said == ["The part 0 was killed by signal 9. Starting it again ...", "The part 0 is back."]
    assert all(_runs(pid) for pid in _pids(parts))


def test_what_a_killed_part_had_started_is_stopped_at_the_end(run: Callable[..., DevParts]) -> None:
    """Runs outlive the code server that started them, so that their work is not lost; never the command."""
    parts = run(("sh", "-c", "sleep 600 & wait"))
    (leader,) = _pids(parts)
    wait_until(lambda: _children(leader))
    (orphan,) = _children(leader)
    _kill(leader)
    wait_until(parts.restart_ended)
    assert _runs(orphan)
    parts.stop()
    wait_until(lambda: not _runs(orphan))
    assert not any(_runs(pid) for pid in _pids(parts))


def test_a_part_whose_worker_was_killed_is_started_again(
    run: Callable[..., DevParts], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster's code server answers through a child, which it does not start again by itself."""
    monkeypatch.setattr(dev_parts, "_EARLY_SECONDS", 0.0)
    program = f"import subprocess, time; subprocess.Popen({SLEEP!r}); time.sleep(600)"
    parts = run((sys.executable, "-c", program), has_worker=True)
    (leader,) = _pids(parts)
    wait_until(lambda: _children(leader))
    parts.restart_ended()
    assert _pids(parts) == [leader]
    _kill(_children(leader)[0])
    wait_until(parts.restart_ended)
    assert said[0] == "The part 0 lost the process that does its work. Starting it again ..."


def test_a_part_that_cannot_live_ends_the_command(run: Callable[..., DevParts]) -> None:
    """A port that is taken, a module that does not import: no loop that starts it for ever."""
    parts = run(("false",))
    with pytest.raises(DevPartEnded, match=rf"The part 0 ended with exit code 1, {MOST_EARLY_ENDS} times in a row"):
        parts.watch()


def test_a_start_that_fails_is_tried_again(said: list[str], tmp_path: Path) -> None:
    """Spark may not come up while the memory of the killed one is not free yet."""
    starts = iter(
        [subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"]), LakehouseUnusable("no memory"), None]
    )

    def start() -> subprocess.Popen[bytes]:
        found = next(starts)
        if isinstance(found, Exception):
            raise found
        return found or start_process(SLEEP, tmp_path, {})

    parts = DevParts([DevPart("Spark server", start)], said.append)
    parts.start()
    while "The Spark server is back." not in said:
        wait_until(parts.restart_ended)
    assert "no memory" in said
    parts.stop()


def test_a_part_is_back_when_it_can_be_used(said: list[str], tmp_path: Path) -> None:
    """The UI answers some seconds after its start, and never if it ends before."""
    answers: list[bool] = []
    starts = iter([("false",), ("false",), SLEEP])
    part = DevPart("UI", lambda: start_process(next(starts), tmp_path, {}), is_ready=lambda: bool(answers))
    parts = DevParts([part], said.append)
    parts.start()
    while part.early_ends < 2:
        parts.restart_ended()
    parts.restart_ended()
    again = "The UI ended with exit code 1. Starting it again ..."
    assert said == [again, again]
    answers.append(True)
    parts.restart_ended()
    assert said == [again, again, "The UI is back."]
    parts.restart_ended()
    assert len(said) == 3
    parts.stop()


def _children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children()]


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# ---------------------------------------------------------------------------------------- what it says of schedules


TWO = 1_488_333_600
"""2017-03-01 02:00 UTC"""


def schedule(name: str, at: int, status: str = "RUNNING", description: str | None = "Builds it. And more.") -> Any:
    ticks = {"results": [{"timestamp": at}]}
    return {"name": name, "description": description, "scheduleState": {"status": status}, "futureTicks": ticks}


def test_schedules_that_are_on_come_in_the_order_of_their_next_ticks() -> None:
    """With what they do, in a few words; of sensors, which tick all the time, the names."""
    schedules = [schedule("b", TWO + 7200, description=None), schedule("a", TWO), schedule("off", TWO, "STOPPED")]
    sensors = [{"name": name, "sensorState": {"status": on}} for name, on in (("repairs", "RUNNING"), ("x", "STOPPED"))]
    answer = {"data": {"repositoriesOrError": {"nodes": [{"schedules": schedules, "sensors": sensors}]}}}
    assert list(next_ticks(answer)) == [
        "  Wed 2017-03-01 02:00 UTC  a: Builds it",
        "  Wed 2017-03-01 04:00 UTC  b: ",
        "  all the time: repairs",
    ]
