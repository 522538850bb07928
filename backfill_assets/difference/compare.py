"""Finds the difference of a campaign before it is approved: what it has staged, beside what main holds.

Checksums show which staged days have the content of main. Of the others each side is read once a table, and once more
on the few days that the examples are taken from. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from backfill_assets.datasets import registry
from backfill_assets.days import Cadence, parse_day
from backfill_assets.difference.counts import complete
from backfill_assets.difference.records import (
    COUNTS,
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
from backfill_assets.difference.rows import DAY, changed_rows, compare_rows
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import newest_version, read_log
from backfill_assets.lakehouse.records import TOTAL, DayContent, DayState, InputRead, logical_of
from backfill_assets.lakehouse.rows import published_rows
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract_columns import struct_type
from backfill_assets.model.declaration import Table
from backfill_assets.model.personal import personal_columns
from backfill_assets.published.observed import LogView, observe
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.overlay import OverlaidDay
from backfill_assets.rebuild.shadow import ShadowStep, StagedDays
from backfill_assets.rebuild.waiting import waiting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLE_ROWS = 10
_SAMPLED_DAYS = 3
_MOST_GROUPS = 200
NOTHING = DayContent(rows=0, checksum="0")
"""What a day holds that was never published."""
_ROWS_OF_A_BUCKET = 1_000_000
_MOST_HASHED_ROWS = 20_000_000
_SORTED_FROM = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"


def compare(
    lake: Lake,
    steps: Sequence[ShadowStep],
    staged: StagedDays,
    progress: Progress,
    sample_rows: int = SAMPLE_ROWS,
    *,
    known: Sequence[TableCompared] = (),
) -> tuple[list[TableCompared], int]:
    """What publishing ``staged`` of ``steps`` would change, table by table, as of which entry of the publication log.

    ``known`` are comparisons from before: a table is not read again if both sides of its days are as they were. Spark
    is only started when some day has to be read.
    """
    observed = observe(lake.storage, [table.name for each in steps for table in each.step.tables])
    before = {table.table: table for table in known}
    found = []
    for each in steps:
        for table in each.step.tables:
            main = _Main.of(lake.storage, table.name, observed)
            beside = _TableComparison(lake, table, each.step.cadence, each.days, staged, main, progress)
            found.append(beside.compare(sample_rows, before.get(table.name)))
    return found, observed.sequence


@dataclass(frozen=True)
class _Main:
    """One table of main: the files it has now, as compare-and-swap compares them, and what the log knows of its days.

    While a publication of it is under way, as of the last closed entry.
    """

    version: int | None
    physical: Mapping[date, str]
    states: Mapping[date, DayState]

    @classmethod
    def of(cls, storage: Storage, table: str, observed: LogView) -> _Main:
        under_way = any(table in tables for tables in observed.writing.values())
        version = observed.versions.get(table) if under_way else newest_version(storage, table)
        files = {} if version is None else read_log(storage, table, version).by_day()
        states = {day: state for (name, day), state in observed.states.items() if name == table}
        return cls(version, {day: fingerprints.physical(paths) for day, paths in files.items()}, states)

    def content(self, day: date) -> DayContent | None:
        """What a day holds; None for a foreign write, whose content is unknown until it is read."""
        state, physical = self.states.get(day), self.physical.get(day, fingerprints.EMPTY_DAY)
        if state is not None and state.content is not None and state.physical == physical:
            return state.content
        return None if day in self.physical else NOTHING

    def logical(self, day: date) -> str:
        return logical_of(self.states.get(day), self.physical.get(day, fingerprints.EMPTY_DAY))


@dataclass(frozen=True)
class _TableComparison:
    """One table: its staged days and those of main."""

    lake: Lake
    table: Table
    cadence: Cadence
    days: Sequence[date]
    held: StagedDays
    main: _Main
    progress: Progress

    def compare(self, sample_rows: int, known: TableCompared | None) -> TableCompared:
        hows = {day: self._how(day) for day in self.days}
        to_read = [day for day, how in hows.items() if how == "compared"]
        found = TableCompared(
            table=self.table.name,
            cadence=self.cadence,
            measures=self.table.totals,
            days=tuple(self._days_as_they_are(hows)),
            whole_rows=not self.table.key,
        )
        if not to_read:
            return found
        fingerprints_now = {day: self._fingerprints(day) for day in to_read}
        if known is not None and known.measures == found.measures and _read_days(known) == fingerprints_now:
            return _with_days(known, [*found.days, *(day for day in known.days if day.how == "compared")])
        self.progress(f"{self.table.name}: comparing what is staged with main")
        return self._with_rows(found, to_read, sample_rows)

    @property
    def staged(self) -> Mapping[date, OverlaidDay]:
        return self.held.overlay.days.get(self.table.name, {})

    def _fingerprints(self, day: date) -> tuple[str, str]:
        staged = self.staged.get(day)
        return self.main.logical(day), staged.content.logical if staged else ""

    def _how(self, day: date) -> DayIs:
        """``compare_rows`` for a day that has to be read: checksums do not show what would become of it."""
        if (staged := self.staged.get(day)) is not None:
            return "equal" if _same(staged.content, self.main.logical(day)) else "compared"
        return "held back" if day in self.held.failed.get(self.table.name, ()) else "not staged"

    def _days_as_they_are(self, hows: Mapping[date, DayIs]) -> Iterator[DayCompared]:
        """Days that would stay as they are. What is added up of them and was not measured is read from main."""
        # The rows of an equal day are the same, and their sums were measured when they were staged.
        held = {
            day: self.staged[day].content if how == "equal" else self.main.content(day)
            for day, how in hows.items()
            if how != "compared"
        }
        added_up = {day: content for day, content in held.items() if hows[day] != "not staged" or content is None}
        for day, content in {**held, **complete(self.lake, self.table, added_up, self.main.version)}.items():
            if content is not None:
                yield self._day(day, hows[day], RowCounts(unchanged=content.rows), _unchanged_sums(self.table, content))

    def _with_rows(self, found: TableCompared, days: Sequence[date], sample_rows: int) -> TableCompared:
        with waiting(self.progress, f"{self.table.name}: Spark compares {len(days)} day(s)"):
            parts = self._read(days)
        nothing = GroupCompared(value=None, sums={name: Sums() for name in self.table.totals})
        groups = {day: parts.days.get(day, nothing) for day in days}
        read = [self._day(day, "compared", group.rows, group.sums) for day, group in groups.items()]
        self.progress(f"{self.table.name}: looking for examples")
        more = {"groups": parts.groups, "sample": self._sample(read, sample_rows)}
        return _with_days(found.model_copy(update=more), [*found.days, *read])

    def _day(self, day: date, how: DayIs, rows: RowCounts, sums: Mapping[str, Sums | None]) -> DayCompared:
        published, staged = self._fingerprints(day)
        return DayCompared(day=day, how=how, rows=rows, sums=sums, published=published, staged=staged)

    def _read(self, days: Sequence[date]) -> _Parts:
        before, after = self._sides(days)
        rows = [self.staged[day].content.rows for day in days]
        with _hash_groups(self.lake.spark(), sum(rows)):
            found = compare_rows(
                self.table, before, after, _MOST_GROUPS, buckets=1 + max(rows, default=0) // _ROWS_OF_A_BUCKET
            ).collect()
        return _Parts.of(self.table, [row.asDict() for row in found])

    def _sides(self, days: Sequence[date]) -> tuple[DataFrame, DataFrame]:
        spark, schema = self.lake.spark(), struct_type(self.table.contract)
        read = InputRead(table=self.table.name, version=self.main.version, days=dict.fromkeys(days, ""))
        before = published_rows(spark, self.lake.storage, read, schema)
        return before, self.held.overlay.rows(spark, self.lake.storage, read, schema)

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

    days: Mapping[date, GroupCompared]
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
        return cls({parse_day(row["value"]): _group(table, row) for row in by_kind.get(DAY, ())}, tuple(groups))


def _read_days(known: TableCompared) -> dict[date, tuple[str, str]]:
    return {day.day: (day.published, day.staged) for day in known.days if day.how == "compared"}


def _with_days(found: TableCompared, days: Sequence[DayCompared]) -> TableCompared:
    return found.model_copy(update={"days": tuple(sorted(days, key=lambda each: each.day))})


def _same(staged: DayContent, in_main: str) -> bool:
    """Are both sides equal by checksum? A day that was never published equals an empty one."""
    return staged.logical == in_main or (staged.rows == 0 and in_main == fingerprints.NEVER_PUBLISHED)


@contextmanager
def _hash_groups(spark: SparkSession, rows: int) -> Iterator[None]:
    """Let Spark hash its groups while there is room; by default it sorts all rows for more than 128 groups a task."""
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


def _unchanged_sums(table: Table, content: DayContent) -> dict[str, Sums | None]:
    """The sums of a day whose rows approving would not change."""
    sums = {name: content.figure(f"{TOTAL}{name}") for name in table.totals}
    return {
        name: None if value is None else Sums(before=_plain(value), after=_plain(value)) for name, value in sums.items()
    }


def _changed_row(row: Mapping[str, Any], key: Sequence[str]) -> ChangedRow:
    return ChangedRow(
        day=row["day"],
        key=dict(zip(key, row["key"], strict=True)),
        cells=tuple(Cell(**cell) for cell in row["cells"]),
        withheld=tuple(row["withheld"]),
    )


def _plain(value: Decimal) -> Decimal:
    """``value`` without trailing zeros after the point: ``12.5``, ``1200``."""
    found = value.normalize()
    exponent = found.as_tuple().exponent
    return found.quantize(Decimal(1)) if isinstance(exponent, int) and exponent > 0 else found
