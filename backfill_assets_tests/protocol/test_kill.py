"""Kill -9 of a real process at every named step and at random moments; afterwards, a re-run makes up for all of it."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets_tests.forks import Forks, forks_of
from backfill_assets_tests.protocol import victim
from backfill_assets_tests.protocol.lake import Lake
from backfill_assets_tests.protocol.victim import ROUNDS, TOLD

pytestmark = pytest.mark.protocol
SEED = 20170301
RANDOM_KILLS = 20
ROWS_OF = ("fact", "report", "raw", "raw_more")
_KILLED = -9


@pytest.fixture(scope="module")
def victims() -> Iterator[Forks]:
    with forks_of(victim, 0) as found:
        yield found


def _killed_after(victims: Forks, root: Path, number: int, seconds: float) -> list[str]:
    """Start a run, let it work for so long after that many steps, kill it, and say which steps it had reached."""
    process = victims.start(root)
    reached = [victims.next() for _ in range(number)]
    time.sleep(seconds)
    with suppress(ProcessLookupError):  # it has ended
        os.kill(process, signal.SIGKILL)
    _, steps = victims.end(reached)
    return steps


def _rows(root: Path) -> dict[str, dict[date, list[str]]]:
    return {table: {day: rows for day, rows in Lake(root).rows(table).items() if rows} for table in ROWS_OF}


def _told(root: Path) -> set[str]:
    """What a receiver has heard that drops the keys that were seen before."""
    return {json.loads(line)["key"] for line in (root / TOLD).read_text().splitlines()}


@dataclass(frozen=True)
class Undisturbed:
    """What a run that was not killed leaves, the steps it reached, and how long it took from the first to the last."""

    rows: dict[str, dict[date, list[str]]]
    steps: list[str]
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(victims: Forks, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    root = tmp_path_factory.mktemp("undisturbed")
    victims.start(root)
    first = victims.next()
    started = time.monotonic()
    code, steps = victims.end([first])
    seconds = time.monotonic() - started
    assert code == 0
    return Undisturbed(_rows(root), steps, seconds)


def _assert_as_undisturbed(victims: Forks, root: Path, undisturbed: Undisturbed) -> None:
    code, _ = victims.run(root)
    assert code == 0
    assert _rows(root) == undisturbed.rows
    assert _told(root) == {f"p{number}" for number in range(ROUNDS)}, "each is sent; that of an abort is not"
    log = Lake(root).publisher().log
    assert not log.head().state.open
    assert not log.head().state.reclaiming
    for table in ROWS_OF:
        assert not Lake(root).storage.missing(f"{table}/{path}" for path in Lake(root).state(table).active)


def test_an_undisturbed_run_reaches_every_step(undisturbed: Undisturbed) -> None:
    """Steps that no run reaches could not be died at: the tests below would show nothing."""
    hits = Counter(undisturbed.steps)
    print("\n".join(f"{step.value:18} {hits[step.value]}" for step in CrashPoint))
    assert [step.value for step in CrashPoint if not hits[step.value]] == []


@pytest.mark.parametrize("step", list(CrashPoint), ids=lambda step: str(step.value).replace(" ", "_"))
@pytest.mark.parametrize("time", ["first", "last"])
@pytest.mark.long
def test_killed_at_a_step(
    tmp_path: Path, step: CrashPoint, time: str, victims: Forks, undisturbed: Undisturbed
) -> None:
    """On its first lakehouse, or beside all that was done before: a re-run ends with the rows of an undisturbed run."""
    _assert_dies(victims, tmp_path, step, 1 if time == "first" else undisturbed.steps.count(step.value))
    _assert_as_undisturbed(victims, tmp_path, undisturbed)


def _assert_dies(victims: Forks, root: Path, step: str, number: int = 1) -> None:
    code, steps = victims.run(root, step, str(number))
    assert (code, steps[-1]) == (_KILLED, step), "it must have died there"


def test_killed_again_and_again(tmp_path: Path, victims: Forks, undisturbed: Undisturbed) -> None:
    """The run that recovers dies too, at every step in turn, on one lakehouse: recovery is safe to repeat.

    In the order in which an undisturbed run reaches them: what comes before a death is then never done for good.
    """
    for step in dict.fromkeys(undisturbed.steps):
        _assert_dies(victims, tmp_path, step)
    _assert_as_undisturbed(victims, tmp_path, undisturbed)


@pytest.mark.parametrize("kills", [2, pytest.param(RANDOM_KILLS, marks=pytest.mark.long)])
def test_killed_at_random_moments(tmp_path: Path, victims: Forks, undisturbed: Undisturbed, kills: int) -> None:
    """Between the named steps as well: in the middle of a file, a commit, a deletion; early in a run and late."""
    moments, reached, steps = random.Random(SEED), [], len(undisturbed.steps)
    for number in range(kills):
        root = tmp_path / str(number)
        before = 1 + int(0.9 * steps * (number + moments.random()) / kills)
        reached.append(_killed_after(victims, root, before, moments.random() * undisturbed.seconds / steps))
        _assert_as_undisturbed(victims, root, undisturbed)
    print(f"seed {SEED}: last step before the kill {[steps[-1] for steps in reached]}")
    assert len({len(steps) for steps in reached}) > 1
