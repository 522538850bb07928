"""The process that cuts a campaign over is killed everywhere: readers see all tables old or all new, and nothing else.

Readers here look at files, as the protocol has them: what is in a file was checked when it was staged.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from backfill_assets.lakehouse.delta_log import read_log
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import timelines_of
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.state.reading import published_versions
from backfill_assets_tests.forks import Forks, forks_of
from backfill_assets_tests.stories import cutting_over
from backfill_assets_tests.stories.staged_campaign import CAMPAIGN, TABLES

Files = frozenset[tuple[str, str]]
RANDOM_KILLS = int(os.environ.get("BACKFILL_RANDOM_KILLS", "20"))
SEED = int(os.environ.get("BACKFILL_SEED", "6"))
TRIES = 4
"""So many random moments are tried at most for each that is to hit."""
BETWEEN_READS = 0.01
"""A reader that never rests takes the processor from the process that it looks at; a read takes as long as this."""
MUST_BE_HIT = {
    CrashPoint.LOG_READ,
    CrashPoint.TABLES_READ,
    CrashPoint.PREPARED,
    CrashPoint.TABLE_LOADED,
    CrashPoint.TABLE_COMMITTED,
    CrashPoint.CLOSING,
    CrashPoint.CLOSED,
}


def shared(source: str, target: str) -> str:
    """Files of rows are written once: a copy of a home has them in common with it. Everything else is copied."""
    if source.endswith((".parquet", ".gz")):
        os.link(source, target)
        return target
    return shutil.copy2(source, target)


class CuttingOver:
    """Starts processes that cut over, each on a home of its own, and reads like a consistent reader meanwhile."""

    def __init__(self, forks: Forks, staged: Path, scratch: Path) -> None:
        self.forks, self.staged, self.scratch = forks, staged, scratch
        self.reads = 0
        self.seen: Counter[str] = Counter()
        self.old = files(staged)
        self.new = self.old

    def home(self) -> Path:
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.copytree(self.staged, self.scratch, copy_function=shared)
        return self.scratch

    def run(self, home: Path, *kill_at: str, kill_after: float | None = None) -> int:
        """The status of the process; what a reader sees until it ends is checked at every read."""
        child = self.forks.start(home, *kill_at)
        until = None if kill_after is None else time.monotonic() + kill_after
        while psutil.pid_exists(child):  # its parent reaps it, and then writes its status
            self.read(home)
            if until is not None and time.monotonic() >= until:
                with suppress(ProcessLookupError):  # it has ended during the read
                    os.kill(child, signal.SIGKILL)
                until = None
            time.sleep(BETWEEN_READS)
        self.read(home)
        return self.forks.end()[0]

    def read(self, home: Path) -> str:
        found = files(home)
        assert found in (self.old, self.new), "a mixture of old and new, or a missing file"
        self.reads += 1
        state = "new" if found == self.new else "old"
        self.seen[state] += 1
        return state


def files(home: Path) -> Files:
    """The files of every table, at the versions that a reader who pins the publication log reads."""
    storage = Storage(str(home / "lakehouse"))
    versions = published_versions(storage)
    return frozenset((table, path) for table in TABLES for path in read_log(storage, table, versions[table]).active)


@contextmanager
def cutting(staged: Path, scratch: Path) -> Iterator[CuttingOver]:
    with forks_of(cutting_over, 0, 3) as forks:
        yield CuttingOver(forks, staged, scratch)


@pytest.mark.parametrize(
    ("random_kills", "each_time"),
    [
        pytest.param(3, False, id="each step once"),
        pytest.param(RANDOM_KILLS, True, id="each time", marks=pytest.mark.long),
    ],
)
@pytest.mark.timeout(max(1200, 30 * RANDOM_KILLS))
def test_all_tables_are_old_or_new_wherever_the_cut_over_is_killed(
    staged_home: Path, tmp_path: Path, random_kills: int, each_time: bool
) -> None:
    """At every step that it reaches, and at seeded random moments; the next process ends what was begun."""
    with cutting(staged_home, tmp_path / "home") as story:
        home = story.home()
        story.new = expected_new(home)
        seconds = undisturbed(story, home)
        places = [line.split("\t") for line in (home / cutting_over.REACHED).read_text().splitlines()]
        hits: Counter[str] = Counter()
        for step, number in places if each_time else once_each(places):
            hits[step] += killed_and_followed(story, step, number)
        assert {step.value for step in MUST_BE_HIT} <= set(hits), "a step was never hit"
        seeds = killed_at_random(story, seconds, random_kills)
        hits["a random moment"] = len(seeds)
        print(f"\nkilled at {dict(hits)}; seeds that hit: {', '.join(seeds)}")
        print(f"{story.reads} reads, {dict(story.seen)}")
        assert len(seeds) == random_kills, f"of {TRIES * random_kills} random moments too few were in its life"
        assert min(story.seen.values()) >= 50


def once_each(places: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Of the times that each step is reached, the one in the middle: of several tables, some are done then."""
    times: dict[str, list[str]] = {}
    for step, number in places:
        times.setdefault(step, []).append(number)
    return [(step, numbers[len(numbers) // 2]) for step, numbers in times.items()]


def killed_at_random(story: CuttingOver, seconds: float, kills: int) -> list[str]:
    """The seeds of the moments that hit. A moment after its end is no kill: the next seed is tried, up to a bound."""
    hit: list[str] = []
    for number in range(TRIES * kills):
        if len(hit) == kills:
            break
        seed = f"{SEED}-{number}"
        if killed_and_followed(story, kill_after=random.Random(seed).uniform(0, seconds)):
            hit.append(seed)
    return hit


def undisturbed(story: CuttingOver, home: Path) -> float:
    """How long a cut-over takes that is not killed."""
    started = time.monotonic()
    assert story.run(home) == 0
    return time.monotonic() - started


def expected_new(home: Path) -> Files:
    """The staged files in place of those of the same days."""
    storage = Storage(str(home / "lakehouse"))
    versions = published_versions(storage)
    found: set[tuple[str, str]] = set()
    for table in TABLES:
        days = {
            str(day): held
            for timeline in timelines_of(storage, table, CAMPAIGN)
            for day, held in timeline.days().items()
        }
        kept = [file.path for file in read_log(storage, table, versions[table]).active.values() if file.day not in days]
        found |= {(table, path) for path in kept}
        found |= {(table, file.path) for held in days.values() for file in held.files}
    return frozenset(found)


def killed_and_followed(story: CuttingOver, *kill_at: str, kill_after: float | None = None) -> int:
    """1 if the kill hit. The next process publishes, or finds that the dead one's publication stands."""
    home = story.home()
    status = story.run(home, *kill_at, kill_after=kill_after)
    assert status in (0, -signal.SIGKILL)
    if kill_at:
        assert status == -signal.SIGKILL, f"{kill_at} was not reached"
    assert story.run(home) in (0, 3)
    assert story.read(home) == "new"
    return int(status == -signal.SIGKILL)
