"""Compares days of one table on two sides: counts, sums, groups, examples.

Checksums show equal days; DuckDB joins rows of others. Spark starts for hashes not written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from backfill_assets.days import Cadence, parse_day
from backfill_assets.difference.difference import (
    EXACT,
    Cell,
    ChangedRow,
    Contents,
    DayCompared,
    DayIs,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
)
from backfill_assets.judge.compare import Lines, changed_rows, columns_beside, compare_rows, value_text
from backfill_assets.judge.engine import DAY, engine, rows_of_files
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.records import TOTAL, DayContent, DayRecord, InputRead
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import Metrics, Table
from backfill_assets.model.lineage import personal_columns
from backfill_assets.model.measure import RowHash
from backfill_assets.quality import measures
from backfill_assets.rebuild.lake import Lake, Progress, waiting
from backfill_assets.rebuild.place import NOTHING_LAID, Overlay
from backfill_assets.rebuild.stage import as_stored
from backfill_assets.text import format_are

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend
    from pyspark.sql import DataFrame


FiguresRead = dict[tuple[str, date, str], DayContent]
"""Foreign writes by version."""


def complete(
    lake: Lake,
    table: Table,
    contents: Contents,
    version: int | None,
    overlay: Overlay = NOTHING_LAID,
    read: FiguresRead | None = None,
) -> dict[date, DayContent]:
    """Reads figures not measured, from ``version`` of main or ``overlay``; ``read`` caches them."""
    names, read = measures.compared_metrics(table), {} if read is None else read
    known = {
        day: content
        for day, content in contents.items()
        if content is not None and all(content.figure(name) is not None for name in names)
    }
    keys = {
        day: (table.name, day, content.logical if content else f"version {version}")
        for day, content in contents.items()
        if day not in known
    }
    lacking = {day: contents[day] for day, key in keys.items() if key not in read}
    if lacking:
        found = _read(lake, table, lacking, version, overlay)
        read |= {keys[day]: content for day, content in found.items()}
    return {**known, **{day: read[key] for day, key in keys.items()}}


def _read(lake: Lake, table: Table, lacking: Contents, version: int | None, overlay: Overlay) -> dict[date, DayContent]:
    names = {*measures.compared_metrics(table), *({"rows", "checksum"} if None in lacking.values() else ())}
    read = InputRead(table=table.name, version=version, days=dict.fromkeys(lacking, ""))
    files = overlay.files(lake.storage, read)

    def rows() -> DataFrame:
        return overlay.rows(lake.spark(), lake.storage, read, struct_type(table.contract))

    found = measure_files(lake.storage, table, files, rows, only=names)
    nothing = dict.fromkeys(names, 0)
    return {day: _complete_content(content, found.get(day, nothing)) for day, content in lacking.items()}


def _complete_content(content: DayContent | None, read: Metrics) -> DayContent:
    metrics = {name: as_stored(value) for name, value in read.items() if name not in ("rows", "checksum")}
    if content is None:
        return DayContent(rows=int(str(read["rows"])), checksum=str(read["checksum"]), metrics=metrics)
    measured = {name: value for name, value in content.metrics.items() if value is not None}
    return replace(content, metrics={**metrics, **measured})


# ------------------------------------------------------------------ days on two sides


_SAMPLE_ROWS = 10
_SAMPLED_DAYS = 3
_MOST_GROUPS = 200
NOTHING = DayContent(rows=0, checksum="0")


@dataclass(frozen=True)
class TableComparison:
    lake: Lake
    table: Table
    cadence: Cadence
    days: Sequence[date]
    progress: Progress
    before: Mapping[date, DayRecord]
    after: Mapping[date, DayRecord]
    stay: Mapping[date, DayIs] = field(default_factory=dict)

    def how(self, day: date) -> DayIs:
        """``compared`` if checksums do not tell."""
        if day in self.stay:
            return self.stay[day]
        before, after = self.logicals(day)
        contents = (_content(self.before, day), _content(self.after, day))
        nothing = all(content is not None and content.rows == 0 for content in contents)
        return "equal" if before == after or nothing else "compared"

    def logicals(self, day: date) -> tuple[str, str]:
        absent = DayRecord(day=day)
        after = "" if day in self.stay else self.after.get(day, absent).logical
        return self.before.get(day, absent).logical, after

    def days_as_they_are(self, hows: Mapping[date, DayIs]) -> Mapping[date, DayContent]:
        """Reads sums not measured, except for days not staged. On an equal day, the later side has them."""
        sides = {day: self.after if how == "equal" else self.before for day, how in hows.items() if how != "compared"}
        contents = {day: _content(side, day) for day, side in sides.items()}
        added_up = {day: content for day, content in contents.items() if hows[day] != "not staged" or content is None}
        records = {day: side[day] for day, side in sides.items() if day in side}
        found = {**contents, **complete(self.lake, self.table, added_up, None, Overlay({self.table.name: records}))}
        return {day: content for day, content in found.items() if content is not None}

    def compare(self, known: TableCompared | None = None, only: Collection[str] = ()) -> TableCompared:
        """Skips days whose both sides are as in ``known``. ``only``: columns beside which others are looked for."""
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
        return self._with_rows(found, to_read, [name for name in only if name in self.table.contract.fields()])

    def _unchanged_days(self, hows: Mapping[date, DayIs]) -> Iterator[DayCompared]:
        for day, content in self.days_as_they_are(hows).items():
            yield self._day(day, hows[day], RowCounts(unchanged=content.rows), _unchanged_sums(self.table, content))

    def _with_rows(self, found: TableCompared, days: Sequence[date], only: Sequence[str]) -> TableCompared:
        with waiting(self.progress, f"{self.table.name}: {format_are(len(days), 'day')} compared"), engine() as duckdb:
            sides = self._rows(duckdb, days)
            lines = compare_rows(self.table, *sides)
            of_days = {parse_day(str(day)): _group(self.table, day, line) for day, line in lines.pop(DAY).items()}
            sample = self._sample(duckdb, of_days)
            beside = {column: columns_beside(self.table, *sides, column) for column in only}
        nothing = GroupCompared(value=None, sums={name: Sums() for name in self.table.totals})
        read = []
        for day in days:
            group = of_days.get(day, nothing)
            apart = {column: others.get(day, ()) for column, others in beside.items()}
            read.append(self._day(day, "compared", group.rows, group.sums).model_copy(update={"beside": apart}))
        hidden = self.personal_columns if self.table.groups else frozenset()
        shown = {name: of_groups for name, of_groups in lines.items() if of_groups and name not in hidden}
        groups = tuple(_groups(self.table, name, of_groups) for name, of_groups in shown.items())
        return _with_days(found.model_copy(update={"groups": groups, "sample": sample}), [*found.days, *read])

    @property
    def personal_columns(self) -> frozenset[str]:
        return personal_columns(self.table.name, self.lake.catalog.step)

    def _day(self, day: date, how: DayIs, rows: RowCounts, sums: Mapping[str, Sums | None]) -> DayCompared:
        published, staged = self.logicals(day)
        return DayCompared(day=day, how=how, rows=rows, sums=sums, published=published, staged=staged)

    def _rows(self, duckdb: Backend, days: Sequence[date]) -> tuple[ir.Table, ir.Table]:
        contract = self.table.contract

        def rows(side: Mapping[date, DayRecord]) -> ir.Table:
            files = {day: tuple(file.below(self.table.name) for file in side[day].files) for day in days if day in side}
            return rows_of_files(duckdb, self.lake.storage, contract, files, [RowHash(contract).name])

        return rows(self.before), rows(self.after)

    def _sample(self, duckdb: Backend, days: Mapping[date, GroupCompared]) -> tuple[ChangedRow, ...]:
        changed = {day: group.rows.changed for day, group in days.items() if group.rows.changed}
        fullest = sorted(changed, key=lambda day: (-changed[day], day))[:_SAMPLED_DAYS]
        if not fullest:
            return ()
        rows = changed_rows(self.table, *self._rows(duckdb, fullest), _SAMPLE_ROWS)
        return tuple(_changed_row(self.table, self.personal_columns, row) for row in rows)


def _content(side: Mapping[date, DayRecord], day: date) -> DayContent | None:
    """A foreign write has none until it is read."""
    record = side.get(day)
    if record is None:
        return NOTHING
    return None if record.foreign else record.content or NOTHING


def _read_days(known: TableCompared) -> dict[date, tuple[str, str]]:
    return {day.day: (day.published, day.staged) for day in known.days if day.how == "compared"}


def _with_days(found: TableCompared, days: Sequence[DayCompared]) -> TableCompared:
    return found.model_copy(update={"days": tuple(sorted(days, key=lambda each: each.day))})


def _groups(table: Table, column: str, lines: Lines) -> GroupsCompared:
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
    found = value.normalize(EXACT)
    exponent = found.as_tuple().exponent
    return found.quantize(Decimal(1), context=EXACT) if isinstance(exponent, int) and exponent > 0 else found
