"""Rows once and right: a table judged by its own Delta log, commit by commit, beside the model.

All of a publication's days or none, never twice, nothing of others undone, and no reader who misses a file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date
from typing import Any, Protocol, TypeGuard

import pyarrow as pa

from backfill_assets.days import parse_day
from backfill_assets.lakehouse.main_table import PUBLICATION_KEY
from backfill_assets_tests.simulator.judges.verdict import passed_over
from backfill_assets_tests.simulator.model import NOTHING, Commit, DayImage, Rows, Wishes, back, forward
from backfill_assets_tests.simulator.store import Content

SHARED = "stream"
"""The transaction that appends and compactions share, as those of a stream do."""
STATES = 4
FOREIGN = "foreign"
"""Where the commit of a writer who knows nothing of publications has its name."""
Actions = list[dict[str, Any]]


def is_whole(commit: Content | None) -> TypeGuard[bytes]:
    """A loss of power leaves commits that are not, until a new process finds them; nothing can stand on them."""
    try:
        return isinstance(commit, bytes) and bool([json.loads(line) for line in commit.splitlines()])
    except ValueError:
        return False


class Contents(Protocol):
    """What files hold, by path: bytes of a commit, rows of a Parquet file."""

    def get(self, path: str, /) -> Content | None: ...

    def __getitem__(self, path: str, /) -> Content: ...

    def __contains__(self, path: object, /) -> bool: ...


class Held(Protocol):
    """The files of a lakehouse, in memory or on a disk."""

    @property
    def contents(self) -> Contents: ...

    @property
    def changes(self) -> object:
        """Equal as long as no file is written or deleted."""

    def names(self, path: str, /) -> list[str]:
        """What is directly below a folder."""


class TableJudge:
    """Follows one main table. What is committed past the protocol says so itself."""

    def __init__(self, held: Held, table: str, wishes: Mapping[str, Wishes]) -> None:
        self.held = held
        self.table = table
        self.version = -1
        self.days: list[dict[date, DayImage]] = []
        """Every day, by version."""
        self.positions: list[dict[str, int]] = []
        self.commits: dict[str, Commit] = {}
        self.withdrawn: dict[str, int] = {}
        self.fenced: dict[str, int] = {}
        self.foreign: dict[int, str] = {}
        """Who made each version that was made past the protocol."""
        self.touched: dict[date, list[int]] = {}
        """The versions at which foreign writers changed a day."""
        self.lost: set[str] = set()
        """Files that were taken away, below the root of the lakehouse."""
        self._wishes = wishes
        self._day_of: dict[str, date] = {}
        self._rows: dict[str, Rows] = {}
        self._newest: dict[date, set[str]] = {}

    def follow(self) -> bool:
        """Check every commit since the last look; whether there was one."""
        known = self.version
        while self.follow_one():
            pass
        return self.version > known

    def follow_one(self) -> bool:
        """Check the next commit; False if there is none yet."""
        if not is_whole(data := self.held.contents.get(self._log_file(self.version + 1))):
            return False
        self.version += 1
        actions = [json.loads(line) for line in data.splitlines()]
        self._check_files(actions)
        before = self.days[-1] if self.days else {}
        self.days.append(self._images(before, actions))
        self.positions.append(self._moved_positions(actions))
        with passed_over():
            self._judge(actions, before)
        return True

    def step_back(self) -> None:
        """Forget the newest version, which was overwritten: it is read again."""
        for made in (self.fenced, self.withdrawn):
            for id in [id for id, version in made.items() if version == self.version]:
                del made[id]
        for id in [id for id, commit in self.commits.items() if commit.version == self.version]:
            del self.commits[id]
        for versions in self.touched.values():
            versions[:] = [version for version in versions if version != self.version]
        self.days.pop()
        self.positions.pop()
        self.version -= 1
        self._newest = {day: set(image.files) for day, image in self.days[-1].items()} if self.days else {}
        self._day_of = {path: day for day, paths in self._newest.items() for path in paths}

    def has_commit(self, version: int) -> bool:
        """False once an engine has deleted it."""
        return self._log_file(version) in self.held.contents

    def newest_is_of(self, publications: Collection[str]) -> bool:
        """Did one of ``publications`` make the newest commit?"""
        commits = {id: commit.version for id, commit in self.commits.items()}
        return any(
            made.get(id) == self.version for id in publications for made in (commits, self.fenced, self.withdrawn)
        )

    def _log_file(self, version: int) -> str:
        return f"{self.table}/_delta_log/{version:020d}.json"

    def _check_files(self, actions: Actions) -> None:
        """Spark loses a day whose path a commit both adds and removes; a path that is active may not be added."""
        adds = [action["add"] for action in actions if "add" in action]
        removes = {action["remove"]["path"] for action in actions if "remove" in action}
        paths = {add["path"] for add in adds}
        assert not paths & removes, f"{self.table} {self.version}: {paths & removes} both added and removed"
        assert not paths & self._day_of.keys(), f"{self.table} {self.version}: an active path is added"
        assert removes <= self._day_of.keys(), f"{self.table} {self.version}: removes what is not there"
        for path in removes:
            if path in self._day_of:
                self._newest[self._day_of.pop(path)].discard(path)
        for add in adds:
            day = self._day_of[add["path"]] = parse_day(add["partitionValues"]["day"])
            self._newest.setdefault(day, set()).add(add["path"])

    def _images(self, before: Mapping[date, DayImage], actions: Actions) -> dict[date, DayImage]:
        """Each day that has other files than before gets the name of this write."""
        found = dict(before)
        for day, paths in self._newest.items():
            if before.get(day, NOTHING).files != paths:
                found[day] = DayImage(self._rows_in(paths), frozenset(paths), self._name(actions))
        return found

    def _name(self, actions: Actions) -> str:
        info = _info(actions)
        return str(info.get(FOREIGN) or info.get(PUBLICATION_KEY) or f"{self.table} {self.version}")

    def _rows_in(self, paths: Iterable[str]) -> Rows:
        total: Rows = Counter()
        for path in paths:
            if path not in self._rows:
                content = self.held.contents.get(f"{self.table}/{path}")
                assert content is not None, f"{self.table} {self.version}: the file {path} is missing"
                assert isinstance(content, pa.Table), f"{self.table} {self.version}: the file {path} is torn"
                self._rows[path] = Counter(content.column("name").to_pylist())
            total += self._rows[path]
        return total

    def _moved_positions(self, actions: Actions) -> dict[str, int]:
        positions = dict(self.positions[-1]) if self.positions else {}
        for action in actions:
            if "txn" in action and action["txn"]["appId"] not in (*self._wishes, SHARED):
                positions[action["txn"]["appId"]] = action["txn"]["version"]
        return positions

    def _judge(self, actions: Actions, before: dict[date, DayImage]) -> None:
        done = {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a}
        ours = [(id, number) for id, number in done.items() if id in self._wishes]
        if SHARED in done:  # its number counts in fours; the commit says whose it is
            assert not ours, f"{self.table} {self.version} has two marks"
            ours = [(self._name(actions), done[SHARED] % STATES)]
        if (is_foreign := self.is_foreign(actions)) or not ours:
            assert is_foreign or self.version == 0, f"{self.table} {self.version}: whose commit is it?"
            self.foreign[self.version] = self._name(actions)
            self._take_foreign(before)
            return
        ((publication, number),) = ours
        assert publication not in self.fenced, f"{publication} committed to {self.table} past its fence"
        assert publication not in self.withdrawn, f"{publication} committed to {self.table} after it was withdrawn"
        checks: list[Callable[[str, dict[date, DayImage]], None]] = [self._fenced, self._committed, self._restored]
        checks[number](publication, before)

    def is_foreign(self, actions: Actions) -> bool:
        """Whether the newest commit, of these ``actions``, was made past the protocol."""
        return FOREIGN in _info(actions)

    def _take_foreign(self, before: dict[date, DayImage]) -> None:
        now = self.days[-1]
        for day in now.keys() | before.keys():
            if now.get(day, NOTHING).files != before.get(day, NOTHING).files:
                self.touched.setdefault(day, []).append(self.version)

    def _fenced(self, publication: str, before: dict[date, DayImage]) -> None:
        assert publication not in self.commits, f"{publication} was fenced in {self.table} after it had committed"
        assert self.days[-1] == before, f"the fence of {publication} changed {self.table}"
        self.fenced[publication] = self.version

    def _committed(self, publication: str, before: dict[date, DayImage]) -> None:
        assert publication not in self.commits, f"{publication} committed to {self.table} twice"
        wishes, wish = self._wishes[publication], self._wishes[publication].tables.get(self.table)
        undone = self.commits[wishes.undoes] if wishes.undoes else None
        days = undone.after if undone else (wish.rows if wish else {})
        was = {day: before.get(day, NOTHING) for day in days}
        self._check_expected(publication, was, undone)
        self._compare(publication, before, forward(wishes, self.table, was, undone))
        for day in days:  # also a day that has the same files as before is of this publication now
            image = self.days[-1].get(day, NOTHING)
            self.days[-1][day] = DayImage(image.rows, image.files, publication)
        self.commits[publication] = Commit(self.version, was, {day: self.days[-1][day] for day in days})

    def _check_expected(self, publication: str, was: dict[date, DayImage], undone: Commit | None) -> None:
        """Compare-and-swap, checked from outside: the days are just as they were when they were staged."""
        wish = self._wishes[publication].tables.get(self.table)
        for day, image in was.items():
            expected = undone.after[day].files if undone else wish.expected.get(day) if wish else None
            if undone and image.files != expected:  # a compaction puts the same rows into other files
                assert image.rows == undone.after[day].rows, f"{publication} undid others' {self.table} {day}"
                continue
            assert expected is None or image.files == expected, f"{publication} undid others' {self.table} {day}"

    def _restored(self, publication: str, before: dict[date, DayImage]) -> None:
        commit = self.commits[publication]
        now = {day: before.get(day, NOTHING) for day in commit.after}
        wish = self._wishes[publication].tables.get(self.table)
        if wish is None or wish.mode != "append":
            self._check_left_alone(publication, commit, now)
        rows = back(wish, commit, now)
        self._compare(publication, before, rows)
        for day, image in commit.before.items():
            found = self.days[-1].get(day, NOTHING)
            emptied = not now[day].files and now[day].value != publication  # by others, which is theirs
            if found.files == image.files and not emptied:
                self.days[-1][day] = image
            elif found.files != now[day].files and now[day].value != publication:  # what others wrote stays theirs
                self.days[-1][day] = DayImage(found.rows, found.files, now[day].value)
            if rows[day] != image.rows:  # others changed the day, or the positions that belong to it
                self.touched.setdefault(day, []).append(self.version)
        self.withdrawn[publication] = self.version

    def _check_left_alone(self, publication: str, commit: Commit, now: Mapping[date, DayImage]) -> None:
        """An abort puts back what is as its publication made it, and nothing else."""
        others = {day: image for day, image in now.items() if image.files != commit.after[day].files}
        undone = [str(day) for day, image in others.items() if self.days[-1].get(day, NOTHING).files != image.files]
        assert not undone, f"{self.table} {self.version}: {publication} took back what others wrote on {undone}"

    def _compare(self, publication: str, before: Mapping[date, DayImage], rows: Mapping[date, Rows]) -> None:
        """All of the publication's days or none: every day equals the model, and no other day moved."""
        model = {day: image.rows for day, image in before.items()} | dict(rows)
        found = {day: image.rows for day, image in self.days[-1].items()}
        assert {d: r for d, r in model.items() if r} == {d: r for d, r in found.items() if r}, (
            f"{self.table} {self.version} ({publication}): model {model}, table {found}"
        )

    def missing_files(self, version: int) -> list[str]:
        """Files that a reader of ``version`` would not find, but for those that somebody took away."""
        paths = (f"{self.table}/{path}" for image in self.days[version].values() for path in image.files)
        return [path for path in paths if path not in self.held.contents and path not in self.lost]

    def at(self, version: int, day: date) -> DayImage:
        return self.days[version].get(day, NOTHING)

    def touched_between(self, day: date, after: int, upto: int) -> bool:
        return any(after < version <= upto for version in self.touched.get(day, ()))


def _info(actions: Actions) -> dict[str, Any]:
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
