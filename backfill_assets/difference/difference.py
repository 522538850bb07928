"""What a comparison of staged days with main found: frozen data that goes to JSON and back. Pure.

It is by rows; or from metadata alone, for the breaker and for notices: no row is read then.
"""

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
"""The name of the number of rows, among the measures."""
EXACT = Context(prec=100)
"""For sums: Python rounds to 28 digits unless it is asked not to, and Spark's decimals have 38."""


class Sums(Record):
    """The sum of a measure: in main now, and after the publication. None is unknown."""

    before: Decimal | None = Decimal(0)
    after: Decimal | None = Decimal(0)

    @property
    def change(self) -> Decimal | None:
        """None if it is unknown."""
        return None if self.before is None or self.after is None else EXACT.subtract(self.after, self.before)

    @property
    def differs(self) -> bool:
        """True unless both sides are known to be equal: what is unknown may differ."""
        return self.change != 0

    @property
    def share(self) -> Decimal | None:
        """The change as a share of what main has: 0.02 is 2 %. None where main has nothing, and if it is unknown."""
        return self.change / abs(self.before) if self.change is not None and self.before else None

    def __add__(self, other: Sums) -> Sums:
        return Sums(before=_plus(self.before, other.before), after=_plus(self.after, other.after))


def _plus(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return None if one is None or other is None else EXACT.add(one, other)


_UNKNOWN = Sums(before=None, after=None)


class RowCounts(Record):
    """Rows by what would become of them. Rows belong together by key, or as a whole in tables without one."""

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
"""What a day of a table holds and would hold: logical fingerprints of main and of what is staged, by table and day.

Of days that would be published. A day that failed its gates has :data:`HELD_BACK` in place of both.
"""

DayIs = Literal["compared", "equal"] | Stays
"""``equal`` was staged, and its checksum is that of main; of an ``unchanged`` day no input changes: it was not staged.

``held back`` failed its gates, and ``left out`` reads such a day or could not be computed: both stay as they are. The
turn of a day that is ``not staged`` has not come: what would become of it is not known.
"""


class DayCompared(Record):
    """One day of a table, or the first day of its period. A day that would stay as it is has only unchanged rows."""

    day: date
    how: DayIs
    rows: RowCounts = RowCounts()
    sums: Mapping[str, Sums | None] = Field(default_factory=dict)
    """By measure; None is unknown on both sides."""
    beside: Mapping[str, tuple[str, ...]] = Field(default_factory=dict, exclude_if=not_)
    """The other columns that differ, by each column of which an expectation says that only it changes."""
    published: str = ""
    """The logical fingerprint of what main holds."""
    staged: str = ""
    """The same of what is staged; empty if nothing is."""

    @property
    def differs(self) -> bool:
        return self.rows.differing > 0

    @property
    def known(self) -> bool:
        """Is the change of the day known?"""
        return self.how != "not staged"

    def of(self, measure: str) -> Sums:
        return self.rows.sums if measure == ROWS else self.sums.get(measure) or _UNKNOWN


class GroupCompared(Record):
    """The rows of all compared days that have ``value`` in one column; None stands for rows without a value."""

    value: str | None
    rows: RowCounts = RowCounts()
    sums: Mapping[str, Sums] = Field(default_factory=dict)


class GroupsCompared(Record):
    """The groups by one column in the compared days: how many, how many differ, and those that differ most, first."""

    column: str
    groups: int
    differing: int
    most: tuple[GroupCompared, ...]

    @property
    def complete(self) -> bool:
        """Is every group that differs in ``most``?"""
        return len(self.most) == self.groups or sum(each.rows.differing > 0 for each in self.most) == self.differing


class Cell(Record):
    """A value of a changed row, as text."""

    column: str
    before: str | None
    after: str | None


class ChangedRow(Record):
    """A row side by side: only the columns that differ. ``withheld`` names personal ones that differ."""

    day: date
    key: Mapping[str, str | None]
    cells: tuple[Cell, ...] = ()
    withheld: tuple[str, ...] = ()


class TableCompared(Record):
    """All planned days of a table beside main, ascending; groups and ``sample`` are of the compared days alone."""

    table: str
    cadence: Cadence = Cadence.DAILY
    measures: tuple[str, ...] = ()
    days: tuple[DayCompared, ...] = ()
    groups: tuple[GroupsCompared, ...] = ()
    sample: tuple[ChangedRow, ...] = ()
    whole_rows: bool = False
    """The table has no key, so rows are compared as a whole, and none can be called changed."""

    @property
    def rows(self) -> RowCounts:
        """The rows of all days whose change is known."""
        return sum((day.rows for day in self.known), RowCounts())

    @property
    def known(self) -> tuple[DayCompared, ...]:
        return tuple(day for day in self.days if day.known)

    @property
    def differing(self) -> tuple[DayCompared, ...]:
        return tuple(day for day in self.days if day.differs)

    def count(self, *hows: DayIs) -> int:
        """How many days are one of ``hows``."""
        return sum(day.how in hows for day in self.days)

    def total(self, measure: str) -> Sums:
        """The sum over the days whose change is known, so that the change of a canary is a share of the canary."""
        return sum((day.of(measure) for day in self.known), Sums())

    def changing(self) -> Iterator[str]:
        """The measures whose sum is known to change; the number of rows is the last one."""
        return (measure for measure in (*self.measures, ROWS) if self.total(measure).change)


@dataclass(frozen=True)
class TableDifference:
    """Staged days of a table beside main, from metadata alone: which of them differ, and the sums over all of them."""

    table: str
    changed: tuple[date, ...] = ()
    unchanged: tuple[date, ...] = ()
    sums: Mapping[str, Sums] = field(default_factory=dict)
    """By measure; the number of rows first."""
    nulls: Mapping[str, Sums] = field(default_factory=dict)
    """Nulls as a share of all rows, by column."""


def sides_compared(tables: Iterable[TableCompared]) -> dict[TableDay, tuple[str, str]]:
    """The days that ``tables`` show, before and after, as fingerprints."""
    found: dict[TableDay, tuple[str, str]] = {}
    for table in tables:
        for day in table.days:
            if day.how == "held back":
                found[TableDay(table.table, day.day)] = HELD_BACK
            elif day.how in ("compared", "equal"):
                found[TableDay(table.table, day.day)] = (day.published, day.staged)
    return found


def fingerprint_of(sides: Sides) -> str:
    """One fingerprint of all days: two differences with the same one show the same rows before and after."""
    lines = (f"{table} {day} {' '.join(both)}" for (table, day), both in sorted(sides.items()))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


# ------------------------------------------------------------------ from metadata alone


Contents = Mapping[date, DayContent | None]
"""What the published days of a table hold. A missing day was never published; None is unknown."""
_NULLS = "nulls_"


def table_difference(table: str, published: Contents, staged: Mapping[date, DayContent]) -> TableDifference:
    """``staged`` beside what is ``published`` for the same days; a day that was never published holds nothing."""
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
    """What ``publication`` brings, beside what is ``published`` of its tables before it."""
    found = []
    for change in publication.tables:
        brought = {day.day: day.content for day in change.days if day.content is not None}
        found.append(table_difference(change.table, published.get(change.table, {}), brought))
    return found


def _sum(contents: Sequence[DayContent | None], metric: str) -> Decimal | None:
    """The sum of a metric over days; None if it is unknown of one of them."""
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
