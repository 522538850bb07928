"""A table of others in plain Python: files with rows of days, as engines write, delete, rewrite and compact them.

What the package is told of a file is what a log says of it, which may be more days than it has, or nothing at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import count
from typing import Literal

from hypothesis import strategies as st

from backfill_assets.days import DayRange
from backfill_assets.external.files import ExternalFile

DAYS = DayRange(date(2025, 3, 1), date(2025, 3, 6))
"""The days that a dataset may have; others have rows on the day before them and on the day after, too."""
Says = Literal["its days", "more days", "nothing"]
Row = tuple[int, date | None]
"""A number of its own, and its day."""


@dataclass(frozen=True)
class WrittenFile:
    """A file with all its rows, and those that a deletion vector has taken from it."""

    name: str
    rows: tuple[Row, ...]
    says: Says
    deleted: frozenset[int] = frozenset()

    @property
    def left(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row[0] not in self.deleted)

    def as_said(self) -> ExternalFile:
        """As its log says it: statistics are of all rows, also of deleted ones."""
        days = [day for _, day in self.rows if day]
        identity = " ".join([self.name, *map(str, sorted(self.deleted))])
        more = timedelta(days=self.says == "more days")
        touches = DayRange(min(days) - more, max(days) + more) if days and self.says != "nothing" else None
        return ExternalFile(identity, len(self.left), 10, touches, without_days=not days and self.says != "nothing")


@dataclass
class TableOfOthers:
    """Each method is one commit, and gives the files that came or went with other rows."""

    files: list[WrittenFile] = field(default_factory=list)
    numbers: Iterable[int] = field(default_factory=count)

    def insert(self, days: Iterable[date | None], says: Says) -> list[WrittenFile]:
        rows = tuple((self._next(), day) for day in days)
        return self._replaced((), [WrittenFile(f"f{self._next()}", rows, says)] if rows else ())

    def delete(self, day: date | None) -> list[WrittenFile]:
        """By deletion vectors; a file without a row left goes."""
        had = self._with(day)
        deleted = [replace(each, deleted=each.deleted | {row for row, on in each.rows if on == day}) for each in had]
        return self._replaced(had, [each for each in deleted if each.left])

    def update(self, day: date | None, says: Says) -> list[WrittenFile]:
        """Files that have a row of ``day`` are written anew, with another row in the place of each of that day."""
        had = self._with(day)
        rows = [tuple((self._next() if on == day else row, on) for row, on in each.left) for each in had]
        return self._replaced(had, [WrittenFile(f"f{self._next()}", each, says) for each in rows])

    def compact(self, says: Says) -> list[WrittenFile]:
        """All rows in one file, and no other row: nothing came or went."""
        rows = tuple(row for each in self.files for row in each.left)
        self._replaced(list(self.files), [WrittenFile(f"f{self._next()}", rows, says)] if rows else ())
        return []

    def play(self, history: Iterable[Commit]) -> list[ExternalFile]:
        """What its log says of the files that came or went with other rows."""
        touched: list[WrittenFile] = []
        for what, days, says in history:
            match what:
                case "insert":
                    touched += self.insert(days, says)
                case "delete":
                    touched += self.delete(days[0])
                case "update":
                    touched += self.update(days[0], says)
                case "compact":
                    touched += self.compact(says)
        return [each.as_said() for each in touched]

    def said(self) -> list[ExternalFile]:
        return [each.as_said() for each in self.files]

    def rows(self) -> dict[date, Counter[int]]:
        """What the rows of each day are: the truth."""
        found: dict[date, Counter[int]] = {}
        for number, day in (row for each in self.files for row in each.left):
            if day:
                found.setdefault(day, Counter())[number] += 1
        return found

    def _with(self, day: date | None) -> list[WrittenFile]:
        return [each for each in self.files if any(on == day for _, on in each.left)]

    def _replaced(self, gone: Iterable[WrittenFile], come: Iterable[WrittenFile]) -> list[WrittenFile]:
        gone, come = list(gone), list(come)
        self.files = [each for each in self.files if each not in gone] + come
        return [*gone, *come]

    def _next(self) -> int:
        return next(iter(self.numbers))


Commit = tuple[Literal["insert", "delete", "update", "compact"], list[date | None], Says]


def _commits(says: st.SearchStrategy[Says], *kinds: str) -> st.SearchStrategy[list[Commit]]:
    day = st.one_of(st.none(), st.dates(DAYS.first - timedelta(days=1), DAYS.last + timedelta(days=1)))
    one = st.tuples(st.sampled_from(kinds), st.lists(day, min_size=1, max_size=3), says)
    return st.lists(one, max_size=5)  # type: ignore[arg-type]


ANY: st.SearchStrategy[Says] = st.sampled_from(["its days", "more days", "nothing"])
SOMETHING: st.SearchStrategy[Says] = st.sampled_from(["its days", "more days"])
HISTORIES = _commits(ANY, "insert", "insert", "delete", "update", "compact")
HISTORIES_OF_DAYS = _commits(SOMETHING, "insert", "insert", "delete", "update", "compact")
COMPACTIONS = _commits(ANY, "compact")
COMPACTIONS_OF_DAYS = _commits(SOMETHING, "compact")
