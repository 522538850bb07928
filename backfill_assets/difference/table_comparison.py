"""Compares the days of one table on two sides: counts, sums, groups and examples.

Checksums show which days hold the same. The rows of the others are joined, in this process and from their files, and
once more on the few days that the examples are taken from. Nothing is written, and Spark is not started.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from backfill_assets.days import Cadence, parse_day
from backfill_assets.difference.counts import complete
from backfill_assets.difference.records import (
    EXACT,
    Cell,
    ChangedRow,
    DayCompared,
    DayIs,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
)
from backfill_assets.judge.compare import Lines, changed_rows, columns_beside, compare_rows, value_text
from backfill_assets.judge.engine import DAY, DayFiles, engine, rows_of_files
from backfill_assets.lakehouse.records import TOTAL, DayContent, DayRecord
from backfill_assets.model.declaration import Table
from backfill_assets.model.lineage import personal_columns
from backfill_assets.model.measure import RowHash
from backfill_assets.rebuild.lake import Lake, Progress, waiting
from backfill_assets.rebuild.place import Overlay
from backfill_assets.text import format_are

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

SAMPLE_ROWS = 10
_SAMPLED_DAYS = 3
_MOST_GROUPS = 200
NOTHING = DayContent(rows=0, checksum="0")
"""What a day holds that was never published."""


@dataclass(frozen=True)
class Parts:
    """What was read: by day, by the groups of each column, examples, and what differs beside a column, by day."""

    days: Mapping[date, GroupCompared]
    groups: tuple[GroupsCompared, ...] = ()
    sample: tuple[ChangedRow, ...] = ()
    beside: Mapping[str, Mapping[date, tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class TableComparison:
    """``days`` of ``table`` on two sides."""

    lake: Lake
    table: Table
    cadence: Cadence
    days: Sequence[date]
    progress: Progress
    before: Mapping[date, DayRecord]
    after: Mapping[date, DayRecord]
    stay: Mapping[date, DayIs] = field(default_factory=dict)
    """Days that would stay as they are before, and why: nothing comes after them."""

    def how(self, day: date) -> DayIs:
        """``compared`` for a day that has to be read: checksums do not show what would become of it."""
        if day in self.stay:
            return self.stay[day]
        before, after = self.logicals(day)
        nothing = all(content is not None and content.rows == 0 for content in self._contents(day))
        return "equal" if before == after or nothing else "compared"

    def logicals(self, day: date) -> tuple[str, str]:
        """The logical fingerprints of a day on both sides."""
        absent = DayRecord(day=day)
        after = "" if day in self.stay else self.after.get(day, absent).logical
        return self.before.get(day, absent).logical, after

    def days_as_they_are(self, hows: Mapping[date, DayIs]) -> Mapping[date, DayContent]:
        """What the days hold that are not ``compared``, with every sum that is shown, as far as that is known.

        What was not measured is read, but for days whose turn has not come. The rows of an equal day are the same on
        both sides: it is the later one whose sums were measured.
        """
        sides = {day: self.after if how == "equal" else self.before for day, how in hows.items() if how != "compared"}
        contents = {day: _content(side, day) for day, side in sides.items()}
        added_up = {day: content for day, content in contents.items() if hows[day] != "not staged" or content is None}
        records = {day: side[day] for day, side in sides.items() if day in side}
        found = {**contents, **complete(self.lake, self.table, added_up, None, Overlay({self.table.name: records}))}
        return {day: content for day, content in found.items() if content is not None}

    def files(self, days: Sequence[date]) -> tuple[DayFiles, DayFiles]:
        """The files that have the rows of ``days`` before and after."""
        before, after = (
            {day: tuple(file.below(self.table.name) for file in side[day].files) for day in days if day in side}
            for side in (self.before, self.after)
        )
        return before, after

    def _contents(self, day: date) -> tuple[DayContent | None, DayContent | None]:
        return _content(self.before, day), _content(self.after, day)

    def compare(
        self, sample_rows: int, known: TableCompared | None = None, only: Collection[str] = ()
    ) -> TableCompared:
        """``known`` is a comparison from before: nothing is read if both sides of its days are as they were.

        For each column in ``only`` that the table has, it is looked for what differs beside it.
        """
        hows = {day: self.how(day) for day in self.days}
        to_read = [day for day, how in hows.items() if how == "compared"]
        found = TableCompared(
            table=self.table.name,
            cadence=self.cadence,
            measures=self.table.totals,
            days=tuple(self._unchanged_days(hows)),
            whole_rows=not self.table.key,
        )
        if not to_read:
            return found
        now = {day: self.logicals(day) for day in to_read}
        if known is not None and known.measures == found.measures and _read_days(known) == now:
            return _with_days(known, [*found.days, *(day for day in known.days if day.how == "compared")])
        return self._with_rows(
            found, to_read, sample_rows, [name for name in only if name in self.table.contract.fields()]
        )

    def _unchanged_days(self, hows: Mapping[date, DayIs]) -> Iterator[DayCompared]:
        for day, content in self.days_as_they_are(hows).items():
            yield self._day(day, hows[day], RowCounts(unchanged=content.rows), _unchanged_sums(self.table, content))

    def _with_rows(
        self, found: TableCompared, days: Sequence[date], sample_rows: int, only: Sequence[str]
    ) -> TableCompared:
        with waiting(self.progress, f"{self.table.name}: {format_are(len(days), 'day')} compared"):
            parts = self._read(days, sample_rows, only)
        nothing = GroupCompared(value=None, sums={name: Sums() for name in self.table.totals})
        read = []
        for day in days:
            group = parts.days.get(day, nothing)
            beside = {column: apart.get(day, ()) for column, apart in parts.beside.items()}
            read.append(self._day(day, "compared", group.rows, group.sums).model_copy(update={"beside": beside}))
        more = {"groups": parts.groups, "sample": parts.sample}
        return _with_days(found.model_copy(update=more), [*found.days, *read])

    @property
    def personal_columns(self) -> frozenset[str]:
        return personal_columns(self.table.name, self.lake.catalog.step)

    def _day(self, day: date, how: DayIs, rows: RowCounts, sums: Mapping[str, Sums | None]) -> DayCompared:
        published, staged = self.logicals(day)
        return DayCompared(day=day, how=how, rows=rows, sums=sums, published=published, staged=staged)

    def _read(self, days: Sequence[date], sample_rows: int, only: Sequence[str]) -> Parts:
        with engine() as duckdb:
            sides = self._rows(duckdb, days)
            found = compare_rows(self.table, *sides)
            read = {parse_day(str(day)): _group(self.table, day, line) for day, line in found.pop(DAY).items()}
            hidden = self.personal_columns if self.table.groups else frozenset()
            return Parts(
                days=read,
                groups=tuple(
                    _groups(self.table, name, lines) for name, lines in found.items() if lines and name not in hidden
                ),
                sample=self._sample(duckdb, read, sample_rows),
                beside={column: columns_beside(self.table, *sides, column) for column in only},
            )

    def _rows(self, duckdb: Backend, days: Sequence[date]) -> tuple[ir.Table, ir.Table]:
        before, after = (
            rows_of_files(duckdb, self.lake.storage, self.table.contract, files, [RowHash(self.table.contract).name])
            for files in self.files(days)
        )
        return before, after

    def _sample(self, duckdb: Backend, days: Mapping[date, GroupCompared], most: int) -> tuple[ChangedRow, ...]:
        """From the few days with the most changed rows, so that the others are not read again."""
        changed = {day: group.rows.changed for day, group in days.items() if group.rows.changed}
        fullest = sorted(changed, key=lambda day: (-changed[day], day))[:_SAMPLED_DAYS]
        if not fullest or most < 1:
            return ()
        rows = changed_rows(self.table, *self._rows(duckdb, fullest), most)
        return tuple(_changed_row(self.table, self.personal_columns, row) for row in rows)


def _content(side: Mapping[date, DayRecord], day: date) -> DayContent | None:
    """None for a foreign write, whose content is unknown until it is read."""
    record = side.get(day)
    if record is None:
        return NOTHING
    return None if record.foreign else record.content or NOTHING


def _read_days(known: TableCompared) -> dict[date, tuple[str, str]]:
    return {day.day: (day.published, day.staged) for day in known.days if day.how == "compared"}


def _with_days(found: TableCompared, days: Sequence[DayCompared]) -> TableCompared:
    return found.model_copy(update={"days": tuple(sorted(days, key=lambda each: each.day))})


def _groups(table: Table, column: str, lines: Lines) -> GroupsCompared:
    """The groups that differ most first: by the first total, then by rows, then by value."""

    def order(group: GroupCompared) -> tuple[Decimal, int, bool, str]:
        by = sum((abs(group.sums[name].change or Decimal(0)) for name in table.totals[:1]), Decimal(0))
        return -by, -group.rows.differing, group.value is not None, group.value or ""

    groups = sorted((_group(table, value, line) for value, line in lines.items()), key=order)
    differing = sum(group.rows.differing > 0 for group in groups)
    return GroupsCompared(column=column, groups=len(groups), differing=differing, most=tuple(groups[:_MOST_GROUPS]))


def _group(table: Table, value: str | None, line: Mapping[str, Any]) -> GroupCompared:
    rows = RowCounts(
        added=line["after"] - line["kept"],
        removed=line["before"] - line["kept"],
        changed=line["kept"] - line["same"],
        unchanged=line["same"],
    )
    sums = {
        name: Sums(before=_plain(line[f"before {name}"]), after=_plain(line[f"after {name}"])) for name in table.totals
    }
    return GroupCompared(value=value, rows=rows, sums=sums)


def _unchanged_sums(table: Table, content: DayContent) -> dict[str, Sums | None]:
    """The sums of a day whose rows approving would not change."""
    sums = {name: content.figure(f"{TOTAL}{name}") for name in table.totals}
    return {
        name: None if value is None else Sums(before=_plain(value), after=_plain(value)) for name, value in sums.items()
    }


def _changed_row(table: Table, withheld: Collection[str], row: Mapping[str, Any]) -> ChangedRow:
    differ = [name for name in table.contract.fields() if row[f"differs {name}"]]
    return ChangedRow(
        day=row[f"after {DAY}"],
        key={name: value_text(row[f"after {name}"]) for name in table.key if name not in withheld},
        cells=tuple(
            Cell(column=name, before=value_text(row[f"before {name}"]), after=value_text(row[f"after {name}"]))
            for name in differ
            if name not in withheld
        ),
        withheld=tuple(name for name in differ if name in withheld),
    )


def _plain(value: Decimal) -> Decimal:
    """``value`` without trailing zeros after the point: ``12.5``, ``1200``."""
    found = value.normalize(EXACT)
    exponent = found.as_tuple().exponent
    return found.quantize(Decimal(1), context=EXACT) if isinstance(exponent, int) and exponent > 0 else found
