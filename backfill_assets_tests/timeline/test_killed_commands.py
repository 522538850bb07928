"""Each command that makes or changes a timeline is killed at every write: nothing is lost, and typed again it ends.

Files and processes are real, and SIGKILL is; only the rows of staged days are made up.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets.lakehouse.named_timelines import NamedTimeline, kept_timelines
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.state.history import history
from backfill_assets.timeline.opened import OpenedTimeline
from backfill_assets_tests.forks import forks_of
from backfill_assets_tests.streamed_lakehouse import BRONZE, StreamedLakehouse
from backfill_assets_tests.timeline import dying_commands

pytestmark = pytest.mark.protocol
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)
COMMANDS = {
    "rewind": (("timeline", "rewind", BRONZE, "--to", "bronze-1", "--as", "back"), {"back"}),
    "create": (("timeline", "create", "empty"), {"back", "empty"}),
    "forward as another": (("timeline", "forward", "back", "--as", "other"), {"back", "empty", "other"}),
    "forward": (("timeline", "forward", "back"), {"back", "empty", "other"}),
    "publish": (("timeline", "publish", "back", "--dry-run"), {"back", "empty", "other"}),
    "rename": (("timeline", "keep", "other", "renamed"), {"back", "empty", "renamed"}),
    "delete": (("timeline", "delete", "back", "--yes"), {"empty", "renamed"}),
}
"""One after the other, each with the timelines that there are then."""
STOPPED = 1
"""The plan is made, and says that these made-up rows do not fit the table."""


Run = Callable[..., tuple[int, int]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """A command on a home: its exit code, and how many places it reached."""
    with forks_of(dying_commands, 0, 1, 2) as forks:

        def run(home: Path, words: Sequence[str], kill_at: int = 0) -> tuple[int, int]:
            (home / dying_commands.REACHED).unlink(missing_ok=True)
            status, _ = forks.run(home, kill_at, *words)
            return status, int((home / dying_commands.REACHED).read_text())

        yield run


@pytest.fixture(scope="module")
def homes(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path, int]]:
    """Of each command: a home before and after it, undisturbed, and how many places it reaches."""
    home = tmp_path_factory.mktemp("homes") / "start"
    lakehouse = StreamedLakehouse(home / "lakehouse")
    lakehouse.land("one", {FIRST: [1], SECOND: [2]}, "sales/2017-03-02/a.jsonl.gz")
    lakehouse.build_bronze("bronze-1", {FIRST: [1], SECOND: [2]})
    lakehouse.land("two", {FIRST: [3]}, "sales/2017-03-03/a.jsonl.gz")
    lakehouse.build_bronze("bronze-2", {FIRST: [1, 3]})
    lakehouse.land("three", {FIRST: [4]}, "sales/2017-03-03/b.jsonl.gz")
    found: dict[str, tuple[Path, Path, int]] = {}
    for name, (words, there) in COMMANDS.items():
        after = home.with_name(name.replace(" ", "-"))
        shutil.copytree(home, after)
        status, reached = run(after, words)
        assert status == (STOPPED if name == "publish" else 0)
        assert {each.name for each in timelines(after)} == there
        found[name] = home, after, reached
        home = after
    return found


def timelines(home: Path) -> list[NamedTimeline]:
    return kept_timelines(Storage(str(home / "lakehouse")), datetime(2030, 1, 1, tzinfo=UTC))


def contents(home: Path) -> dict[str, dict[date, str]]:
    """What every timeline holds of bronze, its own days and those that it reads through to; all files are there."""
    storage = Storage(str(home / "lakehouse"))
    found = {}
    for each in timelines(home):
        opened = OpenedTimeline(storage, each)
        held = opened.held(BRONZE)
        assert storage.missing(f"{BRONZE}/{file.path}" for file in opened.files(BRONZE)) == []
        assert opened.dataset(BRONZE).count_rows() == sum(day.content.rows for day in held.values() if day.content)
        found[each.name] = {day: day_held.logical for day, day_held in held.items()}
    return found


@pytest.mark.parametrize("one_in", [20, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", list(COMMANDS), ids=lambda name: str(name).replace(" ", "_"))
def test_killed_at_every_write(
    name: str, one_in: int, homes: dict[str, tuple[Path, Path, int]], run: Run, tmp_path: Path
) -> None:
    """At its beginning, after its first write and its last one, and after one in so many of the others."""
    before, after, reached = homes[name]
    words, there = COMMANDS[name]
    published = [each.publication for each in history(Storage(str(before / "lakehouse")))]
    assert reached >= 2, "it must write something"
    places = sorted({1, 2, *range(1, reached + 1, one_in), reached})
    for number in places:
        home = tmp_path / str(number)
        shutil.copytree(before, home)
        status, died_at = run(home, words, number)
        assert (status, died_at) == (-signal.SIGKILL, number), "it must have died there"
        names = {each.name for each in timelines(home)}
        assert {each.name for each in timelines(before)} & there <= names <= there | {n.name for n in timelines(before)}
        is_done = contents(home) == contents(after)
        status, _ = run(home, words)
        assert status == 0 or is_done, "typed again when it was just done, it may say so"
        assert contents(home) == contents(after), number
        assert [each.publication for each in history(Storage(str(home / "lakehouse")))] == published
        shutil.rmtree(home)
    print(f"{name}: killed at {len(places)} of {reached} places")
