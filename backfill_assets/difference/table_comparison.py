"""Compares the days of one table on two sides: counts, sums, groups and examples, each side read once.

Checksums show which days hold the same. Of the others each side is read once a table, and once more on the few days
that the examples are taken from: from their files, in this process, or by Spark where these are too large or hold what
has no rendering for Arrow. Nothing is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from backfill_assets.days import Cadence, parse_day
from backfill_assets.difference import examples
from backfill_assets.difference.day_rows import DayFiles
from backfill_assets.difference.from_files import can_compare, columns_beside, compare_days
from backfill_assets.difference.records import (
    COUNTS,
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
from backfill_assets.difference.rows import DAY, changed_rows, compare_rows
from backfill_assets.lakehouse.records import TOTAL, DayContent
from backfill_assets.model.declaration import Table
from backfill_assets.model.lineage import personal_columns
from backfill_assets.quality.arrow_hashes import NotRendered
from backfill_assets.rebuild.lake import Lake, Progress, waiting
from backfill_assets.text import format_are

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


@dataclass(frozen=True)
class TableComparison(ABC):
    """``days`` of ``table`` on two sides; what these are is for the subclass to say."""

    lake: Lake
    table: Table
    cadence: Cadence
    days: Sequence[date]
    progress: Progress

    @abstractmethod
    def how(self, day: date) -> DayIs:
        """``compared`` for a day that has to be read: checksums do not show what would become of it."""

    @abstractmethod
    def logicals(self, day: date) -> tuple[str, str]:
        """The logical fingerprints of a day on both sides."""

    @abstractmethod
    def days_as_they_are(self, hows: Mapping[date, DayIs]) -> Mapping[date, DayContent]:
        """What the days hold that are not ``compared``, with every sum that is shown, as far as that is known."""

    @abstractmethod
    def rows_of(self, day: date) -> int:
        """How many rows a day has, about; Spark divides its work by it."""

    @abstractmethod
    def files(self, days: Sequence[date]) -> tuple[DayFiles, DayFiles]:
        """The files that have the rows of ``days`` before and after."""

    @abstractmethod
    def sides(self, days: Sequence[date]) -> tuple[DataFrame, DataFrame]:
        """The rows of ``days`` before and after."""

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
            parts = self._read(days)
        nothing = GroupCompared(value=None, sums={name: Sums() for name in self.table.totals})
        groups = {day: parts.days.get(day, nothing) for day in days}
        beside = self._beside(days, only)
        read = [
            self._day(day, "compared", group.rows, group.sums).model_copy(update={"beside": beside[day]})
            for day, group in groups.items()
        ]
        self.progress(f"{self.table.name}: looking for examples")
        more = {"groups": parts.groups, "sample": self._sample(read, sample_rows)}
        return _with_days(found.model_copy(update=more), [*found.days, *read])

    @property
    def personal_columns(self) -> frozenset[str]:
        return personal_columns(self.table.name, self.lake.catalog.step)

    def _day(self, day: date, how: DayIs, rows: RowCounts, sums: Mapping[str, Sums | None]) -> DayCompared:
        published, staged = self.logicals(day)
        return DayCompared(day=day, how=how, rows=rows, sums=sums, published=published, staged=staged)

    def _read(self, days: Sequence[date]) -> Parts:
        hidden = self.personal_columns if self.table.groups else frozenset()
        return Parts.of(self.table, self._compared_rows(days), hidden)

    def _compared_rows(self, days: Sequence[date]) -> list[dict[str, Any]]:
        before, after = self.files(days)
        if can_compare(self.lake.storage, before, after):
            with suppress(NotRendered):
                return compare_days(self.lake.storage, self.table, days, before, after, _MOST_GROUPS)
        return self._compared_by_spark(days)

    def _compared_by_spark(self, days: Sequence[date]) -> list[dict[str, Any]]:
        before, after = self.sides(days)
        rows = [self.rows_of(day) for day in days]
        compared = partial(
            compare_rows, self.table, before, after, _MOST_GROUPS, buckets=1 + max(rows, default=0) // _ROWS_OF_A_BUCKET
        )
        with _hash_groups(self.lake.spark(), sum(rows)):
            found = compared().collect()
            if any(row["repeats"] for row in found):
                found = compared(keys_repeat=True).collect()
        return [row.asDict() for row in found]

    def _beside(self, days: Sequence[date], only: Sequence[str]) -> dict[date, dict[str, tuple[str, ...] | None]]:
        """By day and column of ``only``, the columns that differ beside it; None if they cannot be compared."""
        found: dict[date, dict[str, tuple[str, ...] | None]] = {day: dict.fromkeys(only) for day in days}
        if only:
            before, after = self.files(days)
            for day, column in product(days, only):
                sides = (before.get(day, ()), after.get(day, ()))
                with suppress(NotRendered):
                    found[day][column] = columns_beside(self.lake.storage, self.table, day, sides, column)
        return found

    def _sample(self, days: Sequence[DayCompared], most: int) -> tuple[ChangedRow, ...]:
        """From the few days with the most changed rows, so that the others are not read again."""
        fullest = sorted((each for each in days if each.rows.changed), key=lambda each: (-each.rows.changed, each.day))
        if not fullest or most < 1:
            return ()
        withheld = self.personal_columns
        shown = [name for name in self.table.key if name not in withheld]
        rows = self._changed_rows([each.day for each in fullest[:_SAMPLED_DAYS]], withheld, most)
        return tuple(_changed_row(row, shown) for row in rows)

    def _changed_rows(self, days: Sequence[date], withheld: Collection[str], most: int) -> list[dict[str, Any]]:
        files = self.files(days)
        if can_compare(self.lake.storage, *files):
            with suppress(NotRendered):
                return examples.changed_rows(self.lake.storage, self.table, days, *files, withheld, most)
        found = changed_rows(self.table, *self.sides(days), withheld, most).collect()
        return [row.asDict(recursive=True) for row in found]


@dataclass(frozen=True)
class Parts:
    """What was read, by day, and by the groups of each column."""

    days: Mapping[date, GroupCompared]
    groups: tuple[GroupsCompared, ...]

    @classmethod
    def of(cls, table: Table, rows: Sequence[Mapping[str, Any]], hidden: Collection[str]) -> Parts:
        """``hidden`` columns have no groups."""
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
    found = value.normalize(EXACT)
    exponent = found.as_tuple().exponent
    return found.quantize(Decimal(1), context=EXACT) if isinstance(exponent, int) and exponent > 0 else found
