"""The difference of a campaign: what it has staged, beside what main holds, before anybody approves it.

Days whose staged content is that of main are told from their checksums. Of the others each side is read once a table,
and once more on the few days that the examples are taken from. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from backfill_assets.build.compare_rows import COUNTS, DAY, changed_rows, compared
from backfill_assets.build.compared import (
    Cell,
    ChangedRow,
    DayCompared,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
)
from backfill_assets.build.lake import Lake, Progress
from backfill_assets.build.overlay import Overlay
from backfill_assets.build.shadow import ShadowStep, staged_in
from backfill_assets.datasets import registry
from backfill_assets.datasets.contract import struct_type
from backfill_assets.datasets.dataset import Table
from backfill_assets.datasets.personal import personal_columns
from backfill_assets.days import Cadence
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.observed import Observed, observe
from backfill_assets.lakehouse.publication import DayContent, InputRead, logical_of
from backfill_assets.lakehouse.rows import published_rows
from backfill_assets.lakehouse.timelines import timelines_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLE_ROWS = 10
_SAMPLED_DAYS = 3
_MOST_GROUPS = 200
_TOTAL = "total_"
_ROWS_OF_A_BUCKET = 1_000_000
_MOST_HASHED_ROWS = 20_000_000
_SORTED_FROM = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"


@dataclass(frozen=True)
class ComparedWith:
    """The staged days of all tables beside main as of one entry of the publication log."""

    tables: tuple[TableCompared, ...]
    log_entry: int


def compare(
    lake: Lake, campaign: str, steps: Sequence[ShadowStep], progress: Progress, sample_rows: int = SAMPLE_ROWS
) -> ComparedWith:
    """What publishing everything that ``campaign`` has staged of ``steps`` would change, table by table.

    Spark is only started when some day has to be read.
    """
    names = [table.name for each in steps for table in each.step.tables]
    overlay, observed = staged_in(lake.storage, campaign, names), observe(lake.storage, names)
    found = []
    for each in steps:
        for table in each.step.tables:
            progress(f"{table.name}: comparing what is staged with main")
            beside = _Beside(lake, campaign, table, each.step.cadence, each.days, overlay, observed)
            found.append(beside.compared(sample_rows))
    return ComparedWith(tuple(found), observed.sequence)


@dataclass(frozen=True)
class _Beside:
    """One table: its staged days and those of main."""

    lake: Lake
    campaign: str
    table: Table
    cadence: Cadence
    days: Sequence[date]
    overlay: Overlay
    observed: Observed

    def compared(self, sample_rows: int) -> TableCompared:
        told, to_read = self._from_metadata()
        found = TableCompared(
            table=self.table.name,
            cadence=self.cadence,
            measures=self.table.totals,
            days=tuple(told),
            whole_rows=not self.table.key,
        )
        return self._with_rows(found, to_read, sample_rows) if to_read else found

    def _from_metadata(self) -> tuple[list[DayCompared], list[date]]:
        """The days whose difference is known from checksums, and those that have to be read."""
        staged, failed = self.overlay.days.get(self.table.name, {}), self._failed()
        told: list[DayCompared] = []
        to_read: list[date] = []
        for day in self.days:
            published, logical = self._in_main(day)
            if str(day) not in staged:
                told.append(_as_it_is(self.table, day, "held back" if str(day) in failed else "not staged", published))
            elif _same(staged[str(day)].content, logical):
                told.append(_as_it_is(self.table, day, "equal", published))
            else:
                to_read.append(day)
        return told, to_read

    def _in_main(self, day: date) -> tuple[DayContent | None, str]:
        """What main holds, None if nobody knows it without reading, and its logical fingerprint."""
        key = (self.table.name, str(day))
        state = self.observed.states.get(key)
        physical = self.observed.pinned.get(self.table.name, {}).get(str(day), fingerprints.EMPTY_DAY)
        known = state.content if state is not None and state.physical == physical else None
        return known, logical_of(state, physical)

    def _failed(self) -> set[str]:
        """Days whose newest staging did not pass its gates."""
        newest: dict[str, bool] = {}
        for timeline in timelines_of(self.lake.storage, self.table.name, self.campaign):
            for day, staged in timeline.days().items():
                newest.setdefault(day, staged.verdict is not None and not staged.verdict.passed)
        return {day for day, failed in newest.items() if failed}

    def _with_rows(self, found: TableCompared, days: Sequence[date], sample_rows: int) -> TableCompared:
        parts = self._read(days)
        read = [self._day(day, parts.days.get(str(day))) for day in days]
        together = found.model_copy(
            update={"days": tuple(sorted((*found.days, *read), key=lambda each: each.day)), "groups": parts.groups}
        )
        return together.model_copy(update={"sample": self._sample(read, sample_rows)})

    def _day(self, day: date, found: GroupCompared | None) -> DayCompared:
        zeros = {name: Sums() for name in self.table.totals}
        rows, sums = (found.rows, found.sums) if found else (RowCounts(), zeros)
        return DayCompared(day=day, how="compared", rows=rows, sums=sums)

    def _read(self, days: Sequence[date]) -> _Parts:
        before, after = self._sides(days)
        staged = self.overlay.days[self.table.name]
        rows = [staged[str(day)].content.rows for day in days]
        with _hashed(self.lake.spark(), sum(rows)):
            found = compared(
                self.table, before, after, _MOST_GROUPS, buckets=1 + max(rows, default=0) // _ROWS_OF_A_BUCKET
            ).collect()
        return _Parts.of(self.table, [row.asDict() for row in found])

    def _sides(self, days: Sequence[date]) -> tuple[DataFrame, DataFrame]:
        spark, schema = self.lake.spark(), struct_type(self.table.contract)
        version = self.observed.versions.get(self.table.name)
        read = InputRead(table=self.table.name, version=version, days={str(day): "" for day in days})
        before = published_rows(spark, self.lake.storage, read, schema)
        return before, self.overlay.rows(spark, self.lake.storage, read, schema)

    def _sample(self, days: Sequence[DayCompared], most: int) -> tuple[ChangedRow, ...]:
        """From the few days with the most changed rows, so that the others are not read again."""
        fullest = sorted((each for each in days if each.rows.changed), key=lambda each: (-each.rows.changed, each.day))
        if not fullest or most < 1:
            return ()
        withheld = personal_columns(self.table.name, registry.step)
        before, after = self._sides([each.day for each in fullest[:_SAMPLED_DAYS]])
        shown = [name for name in self.table.key if name not in withheld]
        rows = changed_rows(self.table, before, after, withheld, most).collect()
        return tuple(_changed_row(row.asDict(recursive=True), shown) for row in rows)


@dataclass(frozen=True)
class _Parts:
    """What was read, by day, and by the groups of each column."""

    days: Mapping[str, GroupCompared]
    groups: tuple[GroupsCompared, ...]

    @classmethod
    def of(cls, table: Table, rows: Sequence[Mapping[str, Any]]) -> _Parts:
        hidden = personal_columns(table.name, registry.step) if table.groups else frozenset()
        by_kind: dict[str, list[Mapping[str, Any]]] = {}
        for row in sorted(rows, key=lambda row: int(row["place"])):
            by_kind.setdefault(str(row["kind"]), []).append(row)
        groups = [
            GroupsCompared(
                column=column,
                groups=by_kind[column][0]["groups"],
                differing=by_kind[column][0]["differing"],
                most=tuple(_group(table, row) for row in by_kind[column]),
            )
            for column in table.groups
            if column in by_kind and column not in hidden
        ]
        return cls({str(row["value"]): _group(table, row) for row in by_kind.get(DAY, ())}, tuple(groups))


def _same(staged: DayContent, in_main: str) -> bool:
    """Known without reading; a day that was never published has as many rows as an empty one."""
    return staged.logical == in_main or (staged.rows == 0 and in_main == fingerprints.NEVER_PUBLISHED)


@contextmanager
def _hashed(spark: SparkSession, rows: int) -> Iterator[None]:
    """Spark sorts all rows for more than 128 groups a task, unless it is told that there is room to hash them."""
    if rows > _MOST_HASHED_ROWS:
        yield
        return
    before = spark.conf.get(_SORTED_FROM)
    spark.conf.set(_SORTED_FROM, str(_MOST_HASHED_ROWS))
    try:
        yield
    finally:
        spark.conf.set(_SORTED_FROM, str(before))


def _group(table: Table, row: Mapping[str, Any]) -> GroupCompared:
    return GroupCompared(
        value=row["value"],
        rows=RowCounts(**{name: row[name] for name in COUNTS}),
        sums={
            name: Sums(before=_plain(row[f"before_{name}"]), after=_plain(row[f"after_{name}"]))
            for name in table.totals
        },
    )


def _as_it_is(table: Table, day: date, how: Any, published: DayContent | None) -> DayCompared:
    """A day that approving would not touch."""
    if published is None:
        return DayCompared(day=day, how=how)
    known = {name: published.metrics.get(f"{_TOTAL}{name}") for name in table.totals}
    sums = {name: Decimal(str(value)) for name, value in known.items() if value is not None}
    return DayCompared(
        day=day,
        how=how,
        rows=RowCounts(unchanged=published.rows),
        sums={name: Sums(before=_plain(value), after=_plain(value)) for name, value in sums.items()},
    )


def _changed_row(row: Mapping[str, Any], key: Sequence[str]) -> ChangedRow:
    return ChangedRow(
        day=row["day"],
        key=dict(zip(key, row["key"], strict=True)),
        cells=tuple(Cell(**cell) for cell in row["cells"]),
        withheld=tuple(row["withheld"]),
    )


def _plain(value: Decimal) -> Decimal:
    """Without the zeros that only the type of a column puts behind the point: ``12.5``, ``1200``."""
    found = value.normalize()
    exponent = found.as_tuple().exponent
    return found.quantize(Decimal(1)) if isinstance(exponent, int) and exponent > 0 else found
