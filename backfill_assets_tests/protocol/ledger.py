"""Judges a table by its own Delta log, commit by commit: what a reader of one table sees must equal the model."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from backfill_assets.days import parse_day
from backfill_assets.lakehouse.main_table import PUBLICATION_KEY
from backfill_assets_tests.protocol.model import SHARED, Commit, DayImage, Rows, Wishes, back, forward

Actions = list[dict[str, Any]]


class Ledger:
    """Follows one main table. ``foreign`` has the versions that were committed past the protocol."""

    def __init__(self, root: Path, table: str, wishes: dict[str, Wishes], foreign: dict[int, str]) -> None:
        self.root = root
        self.table = table
        self.version = -1
        self.days: list[dict[date, DayImage]] = []
        """Every day, by version."""
        self.positions: list[dict[str, int]] = []
        self.commits: dict[str, Commit] = {}
        self.withdrawn: dict[str, int] = {}
        self.fenced: dict[str, int] = {}
        self.touched: dict[date, list[int]] = {}
        """The versions at which foreign writers changed a day."""
        self._wishes = wishes
        self._foreign = foreign
        self._day_of: dict[str, date] = {}
        self._rows: dict[str, Rows] = {}

    def follow(self) -> bool:
        """Check every commit since the last look; whether there was one."""
        known = self.version
        while (commit := self._log_file(self.version + 1)).exists():
            self.version += 1
            actions = [json.loads(line) for line in commit.read_text().splitlines()]
            self._check_files(actions)
            before = dict(self.days[-1]) if self.days else {}
            self.days.append(self._images())
            self.positions.append(self._moved_positions(actions))
            self._judge(actions, before)
        return self.version > known

    def newest_is_of(self, publications: Collection[str]) -> bool:
        """Did one of ``publications`` make the newest commit?"""
        commits = {id: commit.version for id, commit in self.commits.items()}
        return any(
            made.get(id) == self.version for id in publications for made in (commits, self.fenced, self.withdrawn)
        )

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
        self._day_of = {path: day for day, image in self.days[-1].items() for path in image.files}

    def _log_file(self, version: int) -> Path:
        return self.root / self.table / "_delta_log" / f"{version:020d}.json"

    def _check_files(self, actions: Actions) -> None:
        """Spark loses a day whose path a commit both adds and removes; a path that is active may not be added."""
        adds = [action["add"] for action in actions if "add" in action]
        removes = {action["remove"]["path"] for action in actions if "remove" in action}
        paths = {add["path"] for add in adds}
        assert not paths & removes, f"{self.table} {self.version}: {paths & removes} both added and removed"
        assert not paths & self._day_of.keys(), f"{self.table} {self.version}: an active path is added"
        assert removes <= self._day_of.keys(), f"{self.table} {self.version}: removes what is not there"
        for path in removes:
            del self._day_of[path]
        for add in adds:
            self._day_of[add["path"]] = parse_day(add["partitionValues"]["day"])

    def _images(self) -> dict[date, DayImage]:
        paths: dict[date, set[str]] = {}
        for path, day in self._day_of.items():
            paths.setdefault(day, set()).add(path)
        return {day: DayImage(self._rows_in(found), frozenset(found)) for day, found in paths.items()}

    def _rows_in(self, paths: set[str]) -> Rows:
        total: Rows = Counter()
        for path in paths:
            if path not in self._rows:
                names = pq.ParquetFile(self.root / self.table / path).read(["name"]).column("name").to_pylist()
                self._rows[path] = Counter(names)
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
            ours = [(next(a["commitInfo"][PUBLICATION_KEY] for a in actions if "commitInfo" in a), done[SHARED] % 4)]
        if self.version in self._foreign or not ours:
            self._take_foreign(before)
            return
        ((publication, number),) = ours
        assert publication not in self.fenced, f"{publication} committed to {self.table} past its fence"
        assert publication not in self.withdrawn, f"{publication} committed to {self.table} after it was withdrawn"
        checks: list[Callable[[str, dict[date, DayImage]], None]] = [self._fenced, self._committed, self._restored]
        checks[number](publication, before)

    def _take_foreign(self, before: dict[date, DayImage]) -> None:
        assert self.version in self._foreign or self.version == 0, f"{self.table} {self.version}: whose commit is it?"
        now = self.days[-1]
        for day in now.keys() | before.keys():
            if now.get(day, _NOTHING).files != before.get(day, _NOTHING).files:
                self.touched.setdefault(day, []).append(self.version)

    def _fenced(self, publication: str, before: dict[date, DayImage]) -> None:
        assert publication not in self.commits, f"{publication} was fenced in {self.table} after it had committed"
        assert self.days[-1] == before, f"the fence of {publication} changed {self.table}"
        self.fenced[publication] = self.version

    def _committed(self, publication: str, before: dict[date, DayImage]) -> None:
        assert publication not in self.commits, f"{publication} committed to {self.table} twice"
        wishes, wish = self._wishes[publication], self._wishes[publication].tables.get(self.table)
        undone = self.commits[self._undone_by(publication)] if wishes.undoes else None
        days = undone.after if undone else (wish.rows if wish else {})
        was = {day: before.get(day, _NOTHING) for day in days}
        self._check_expected(publication, was, undone)
        self._compare(publication, before, forward(wishes, self.table, was, undone))
        after = {day: self.days[-1].get(day, _NOTHING) for day in days}
        self.commits[publication] = Commit(self.version, was, after)

    def _undone_by(self, publication: str) -> str:
        return self._wishes[publication].undoes

    def _check_expected(self, publication: str, was: dict[date, DayImage], undone: Commit | None) -> None:
        """Compare-and-swap, checked from outside: the days are just as they were when they were staged."""
        wish = self._wishes[publication].tables.get(self.table)
        for day, image in was.items():
            expected = undone.after[day].files if undone else wish.expected.get(day) if wish else None
            assert expected is None or image.files == expected, f"{publication} undid others' {self.table} {day}"

    def _restored(self, publication: str, before: dict[date, DayImage]) -> None:
        commit = self.commits[publication]
        now = {day: before.get(day, _NOTHING) for day in commit.after}
        wish = self._wishes[publication].tables.get(self.table)
        rows, _ = back(wish, commit, now)
        self._compare(publication, before, rows)
        for day, image in commit.before.items():
            if rows[day] != image.rows:  # others changed the day, or the positions that belong to it
                self.touched.setdefault(day, []).append(self.version)
        self.withdrawn[publication] = self.version

    def _compare(self, publication: str, before: dict[date, DayImage], rows: dict[date, Rows]) -> None:
        """All of the publication's days or none: every day equals the model, and no other day moved."""
        model = {day: image.rows for day, image in before.items()} | rows
        found = {day: image.rows for day, image in self.days[-1].items()}
        assert {d: r for d, r in model.items() if r} == {d: r for d, r in found.items() if r}, (
            f"{self.table} {self.version} ({publication}): model {model}, table {found}"
        )

    def missing_files(self, version: int) -> list[str]:
        """Files that a reader of ``version`` would not find."""
        folder = f"{self.root}/{self.table}"
        paths = (path for image in self.days[version].values() for path in image.files)
        return [path for path in paths if not os.path.exists(f"{folder}/{path}")]  # noqa: PTH110 - at every step

    def rows_at(self, version: int, day: date) -> Rows:
        return self.days[version].get(day, _NOTHING).rows

    def files_at(self, version: int, day: date) -> frozenset[str]:
        return self.days[version].get(day, _NOTHING).files

    def touched_between(self, day: date, after: int, upto: int) -> bool:
        return any(after < version <= upto for version in self.touched.get(day, ()))


_NOTHING = DayImage(Counter(), frozenset())
