"""What a comparison with main found, as JSON data, by rows or by metadata alone. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Context, Decimal
from operator import not_
from typing import Literal

from pydantic import Field

from backfill_assets.days import Cadence, TableDay
from backfill_assets.lakehouse.records import HELD_BACK, TOTAL, DayContent, Publication, Record, logical_or_empty
from backfill_assets.rebuild.decide import Stays

ROWS = "rows"
EXACT = Context(prec=100)
"""For sums: Python rounds to 28 digits, Spark's decimals have 38."""


class Sums(Record):
    """``before`` is main, ``after`` the publication; None is unknown."""

    before: Decimal | None = Decimal(0)
    after: Decimal | None = Decimal(0)

    @property
    def change(self) -> Decimal | None:
        return None if self.before is None or self.after is None else EXACT.subtract(self.after, self.before)

    @property
    def differs(self) -> bool:
        return self.change != 0

    @property
    def share(self) -> Decimal | None:
        return self.change / abs(self.before) if self.change is not None and self.before else None

    def __add__(self, other: Sums) -> Sums:
        return Sums(before=_plus(self.before, other.before), after=_plus(self.after, other.after))


def _plus(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return None if one is None or other is None else EXACT.add(one, other)


_UNKNOWN = Sums(before=None, after=None)


class RowCounts(Record):
    """Matched by key, or as a whole."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    unchanged: int = 0

    @property
    def sums(self) -> Sums:
        kept = self.changed + self.unchanged
        return Sums(before=Decimal(self.removed + kept), after=Decimal(self.added + kept))

    @property
    def differing(self) -> int:
        return self.added + self.removed + self.changed

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(**{name: getattr(self, name) + getattr(other, name) for name in COUNTS})


COUNTS = tuple(RowCounts.model_fields)


Sides = Mapping[TableDay, tuple[str, str]]
"""Logical fingerprints of main and staged; both :data:`HELD_BACK` if gates failed."""

DayIs = Literal["compared", "equal"] | Stays
"""``equal``: staged, by checksum. ``unchanged``: no input changes. ``held back``: failed its gates. ``left out``: reads
such a day, or could not be computed. ``not staged``: not yet.
"""


class DayCompared(Record):
    """``day`` is a period's first. One that stays has only unchanged rows."""

    day: date
    how: DayIs
    rows: RowCounts = RowCounts()
    sums: Mapping[str, Sums | None] = Field(default_factory=dict)
    beside: Mapping[str, tuple[str, ...]] = Field(default_factory=dict, exclude_if=not_)
    """Other columns that differ, where one alone is expected to."""
    published: str = ""
    staged: str = ""

    @property
    def differs(self) -> bool:
        return self.rows.differing > 0

    @property
    def known(self) -> bool:
        return self.how != "not staged"

    def of(self, measure: str) -> Sums:
        return self.rows.sums if measure == ROWS else self.sums.get(measure) or _UNKNOWN


class GroupCompared(Record):
    """``value`` is None for rows without one."""

    value: str | None
    rows: RowCounts = RowCounts()
    sums: Mapping[str, Sums] = Field(default_factory=dict)


class GroupsCompared(Record):
    column: str
    groups: int
    differing: int
    most: tuple[GroupCompared, ...]

    @property
    def complete(self) -> bool:
        return len(self.most) == self.groups or sum(each.rows.differing > 0 for each in self.most) == self.differing


class Cell(Record):
    column: str
    before: str | None
    after: str | None


class ChangedRow(Record):
    """Columns that differ; ``withheld`` are personal."""

    day: date
    key: Mapping[str, str | None]
    cells: tuple[Cell, ...] = ()
    withheld: tuple[str, ...] = ()


class TableCompared(Record):
    """All planned days, ascending; groups and ``sample`` are of compared ones."""

    table: str
    cadence: Cadence = Cadence.DAILY
    measures: tuple[str, ...] = ()
    days: tuple[DayCompared, ...] = ()
    groups: tuple[GroupsCompared, ...] = ()
    sample: tuple[ChangedRow, ...] = ()
    whole_rows: bool = False
    """Rows are compared as a whole: none counts as changed."""

    @property
    def rows(self) -> RowCounts:
        return sum((day.rows for day in self.known), RowCounts())

    @property
    def known(self) -> tuple[DayCompared, ...]:
        return tuple(day for day in self.days if day.known)

    @property
    def differing(self) -> tuple[DayCompared, ...]:
        return tuple(day for day in self.days if day.differs)

    def count(self, *hows: DayIs) -> int:
        return sum(day.how in hows for day in self.days)

    def total(self, measure: str) -> Sums:
        """Over days whose change is known."""
        return sum((day.of(measure) for day in self.known), Sums())

    def changing(self) -> Iterator[str]:
        return (measure for measure in (*self.measures, ROWS) if self.total(measure).change)


@dataclass(frozen=True)
class TableDifference:
    """By metadata alone."""

    table: str
    changed: tuple[date, ...] = ()
    unchanged: tuple[date, ...] = ()
    sums: Mapping[str, Sums] = field(default_factory=dict)
    nulls: Mapping[str, Sums] = field(default_factory=dict)


def sides_compared(tables: Iterable[TableCompared]) -> dict[TableDay, tuple[str, str]]:
    found: dict[TableDay, tuple[str, str]] = {}
    for table in tables:
        for day in table.days:
            if day.how == "held back":
                found[TableDay(table.table, day.day)] = HELD_BACK
            elif day.how in ("compared", "equal"):
                found[TableDay(table.table, day.day)] = (day.published, day.staged)
    return found


def fingerprint_of(sides: Sides) -> str:
    """Equal for the same rows before and after."""
    lines = (f"{table} {day} {' '.join(both)}" for (table, day), both in sorted(sides.items()))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


# ------------------------------------------------------------------ from metadata alone


Contents = Mapping[date, DayContent | None]
"""An absent day was never published; None is unknown."""
_NULLS = "nulls_"


def table_difference(table: str, published: Contents, staged: Mapping[date, DayContent]) -> TableDifference:
    same = {day for day, content in staged.items() if logical_or_empty(published.get(day)) == content.logical}
    before, after = [published[day] for day in staged if day in published], list(staged.values())
    metrics = sorted({name for content in after for name in content.metrics})
    totals = {ROWS: ROWS} | {name.removeprefix(TOTAL): name for name in metrics if name.startswith(TOTAL)}
    nulls = {name.removeprefix(_NULLS): name for name in metrics if name.startswith(_NULLS)}
    return TableDifference(
        table,
        changed=tuple(sorted(staged.keys() - same)),
        unchanged=tuple(sorted(same)),
        sums={name: Sums(before=_sum(before, of), after=_sum(after, of)) for name, of in totals.items()},
        nulls={name: Sums(before=_share(before, of), after=_share(after, of)) for name, of in nulls.items()},
    )


def changes(publication: Publication, published: Mapping[str, Contents]) -> list[TableDifference]:
    found = []
    for change in publication.tables:
        brought = {day.day: day.content for day in change.days if day.content is not None}
        found.append(table_difference(change.table, published.get(change.table, {}), brought))
    return found


def _sum(contents: Sequence[DayContent | None], metric: str) -> Decimal | None:
    values = [_figure(content, metric) for content in contents]
    return None if None in values else sum((value for value in values if value is not None), Decimal(0))


def _figure(content: DayContent | None, metric: str) -> Decimal | None:
    if content is None:
        return None
    return Decimal(content.rows) if metric == ROWS else content.figure(metric)


def _share(contents: Sequence[DayContent | None], metric: str) -> Decimal | None:
    rows, found = _sum(contents, ROWS), _sum(contents, metric)
    if rows is None or found is None:
        return None
    return found / rows if rows else Decimal(0)
