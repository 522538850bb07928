"""The sequential model, in plain Python: what each day must hold after each commit, given what each commit was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

Rows = Counter[str]
Files = frozenset[str]
Names = tuple[str, ...]
RowsOfTables = Mapping[str, Mapping[date, Names]]
"""Rows by table and day."""


@dataclass(frozen=True)
class Wish:
    """What a publication is meant to do to one table: rows and files by day, and the state it was staged against."""

    mode: str
    rows: Mapping[date, Names]
    files: Mapping[date, Files]
    expected: Mapping[date, Files] = field(default_factory=dict)
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Wishes:
    """A publication: its wishes by table. A rollback names what it undoes, a compaction wishes for the same rows."""

    kind: str
    tables: Mapping[str, Wish]
    undoes: str = ""
    inputs: RowsOfTables = field(default_factory=dict)
    """The rows that were read."""
    looked_at: Mapping[str, int] = field(default_factory=dict)
    """The version at which each input was read, where all days were computed of just that."""
    exact: bool = False
    switches: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The version that it was decided on and the one that becomes current, by step."""


@dataclass(frozen=True)
class DayImage:
    """A day as it stood at some version; ``value`` names the write that it shows, or is None."""

    rows: Rows
    files: Files
    value: str | None = None


NOTHING = DayImage(Counter(), frozenset())
Days = Mapping[date, DayImage]


@dataclass
class Commit:
    """A publication's commit to a table: what its days were before, and what they were right after."""

    version: int
    before: dict[date, DayImage]
    after: dict[date, DayImage]


def forward(wishes: Wishes, table: str, before: Days, undone: Commit | None) -> dict[date, Rows]:
    """The rows of every touched day once the publication is committed."""
    if undone is not None:
        return {day: image.rows for day, image in undone.before.items()}
    wish = wishes.tables[table]
    if wishes.kind == "compact":
        return {day: before[day].rows for day in wish.rows}
    if wish.mode == "append":
        return {day: before[day].rows + Counter(rows) for day, rows in wish.rows.items()}
    return {day: Counter(rows) for day, rows in wish.rows.items()}


def back(wish: Wish | None, commit: Commit, now: Days) -> dict[date, Rows]:
    """The rows of every touched day once the publication is withdrawn again.

    Days that others changed since stay as they are; with source positions it is all of the table or nothing.
    """
    restored: dict[date, Rows] = {}
    for day, after in commit.after.items():
        if wish is not None and wish.mode == "append":
            if wish.files[day] <= now[day].files:
                restored[day] = now[day].rows - Counter(wish.rows[day])
        elif now[day].files == after.files:
            restored[day] = commit.before[day].rows
    if wish is not None and wish.positions and len(restored) != len(commit.after):
        restored = {}
    return {day: restored.get(day, image.rows) for day, image in now.items()}
