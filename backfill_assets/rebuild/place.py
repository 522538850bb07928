"""A place is where days are staged, and which days it shows instead of main's: main, a campaign, a timeline, an undo.
Each prefixes its timelines with its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import chain
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange, TableDay, contiguous
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.records import DayRead, DayRecord, DayRecords, DayState, InputRead, content_in
from backfill_assets.lakehouse.rows import published_rows, rows_of_main_files
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import (
    CAMPAIGN,
    StagedDay,
    Timeline,
    adoptable,
    open_timelines,
    timelines_of,
)
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days, Filled, tables_as_of
from backfill_assets.publish.publisher import Pin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NOT_PUBLISHED = -1


@dataclass(frozen=True)
class Overlay:
    """Days that are read instead of main's."""

    days: DayRecords = field(default_factory=dict)

    def record(self, table: str, day: date) -> DayRecord | None:
        return self.days.get(table, {}).get(day)

    def laid(self, table: str, days: Iterable[date]) -> dict[date, DayRecord]:
        own = self.days.get(table, {})
        return {day: own[day] for day in days if day in own}

    def over(self, pin: Pin) -> Pin:
        inputs = {table: self._read(read) for table, read in pin.inputs.items()}
        states = {
            TableDay(table, day): DayState(
                table, day, publication="", sequence=_NOT_PUBLISHED, physical="", content=record.content
            )
            for table, days in self.days.items()
            for day, record in days.items()
        }
        return replace(pin, inputs=inputs, states={**pin.states, **states})

    def from_main(self, read: InputRead) -> InputRead:
        """The days of ``read`` that come from main: what a publication depends on without bringing it."""
        own = self.days.get(read.table, {})
        return read.model_copy(update={"days": {day: logical for day, logical in read.days.items() if day not in own}})

    def day_reads(self, read: InputRead, days: DayRange) -> list[DayRead]:
        staged = {day for day in days if day in self.days.get(read.table, {})}
        return [
            DayRead(table=read.table, version=version, first=part.first, last=part.last, staged=is_staged)
            for dates, version, is_staged in ((set(days) - staged, read.version, False), (staged, None, True))
            for part in contiguous(dates)
        ]

    def rows(self, spark: SparkSession, storage: Storage, read: InputRead, schema: StructType) -> DataFrame:
        rows = published_rows(spark, storage, self.from_main(read), schema)
        files = [file for record in self._own(read) for file in record.files]
        return rows.unionByName(rows_of_main_files(spark, storage, read.table, files, schema)) if files else rows

    def files(self, storage: Storage, read: InputRead) -> dict[date, tuple[AddedFile, ...]]:
        through = self.from_main(read)
        main = {} if read.version is None else read_log(storage, read.table, read.version).of_days(through.days)
        found = {**main, **{record.day: record.files for record in self._own(read) if record.files}}
        return {day: tuple(file.below(read.table) for file in files) for day, files in found.items()}

    def with_days(self, table: str, records: Iterable[DayRecord]) -> Overlay:
        laid = {**self.days.get(table, {}), **{record.day: record for record in records}}
        return Overlay({**self.days, table: laid})

    def with_records(self, records: DayRecords) -> Overlay:
        return Overlay({**self.days, **{name: {**self.days.get(name, {}), **days} for name, days in records.items()}})

    def without(self, tables: Iterable[str]) -> Overlay:
        gone = set(tables)
        return Overlay({table: held for table, held in self.days.items() if table not in gone})

    def without_days(self, tables: Iterable[str], days: Iterable[date]) -> Overlay:
        """These are main's again."""
        named, gone = set(tables), set(days)
        left = {
            table: {day: record for day, record in held.items() if table not in named or day not in gone}
            for table, held in self.days.items()
        }
        return Overlay(left)

    def _read(self, read: InputRead) -> InputRead:
        own = self.days.get(read.table, {})
        logicals = {day: own[day].logical if day in own else logical for day, logical in read.days.items()}
        return read.model_copy(update={"days": logicals})

    def _own(self, read: InputRead) -> Sequence[DayRecord]:
        return [record for day, record in self.days.get(read.table, {}).items() if day in read.days]


NOTHING_LAID = Overlay()


# ------------------------------------------------------------------ days laid over main

Offers = Mapping[date, tuple[Timeline, StagedDay]]
"""Reusable staged days and their timelines."""


@dataclass(frozen=True)
class Place:
    """``owner`` is a campaign, an undo or the id of a timeline; empty for main."""

    owner: str = ""
    overlay: Overlay = NOTHING_LAID
    base: DayRecords | None = None
    """Shown where nothing is laid over it; None for main as it is now."""

    @property
    def is_campaign(self) -> bool:
        return self.owner.startswith(CAMPAIGN)

    def over(self, records: DayRecords) -> Place:
        return replace(self, overlay=self.overlay.with_records(records))

    def record(self, table: str, day: date) -> DayRecord | None:
        laid = self.overlay.record(table, day)
        if laid is not None or self.base is None:
            return laid
        return self.base.get(table, {}).get(day, DayRecord(day=day))

    def filled(self, steps: Iterable[Step], states: Mapping[TableDay, DayState]) -> Filled:
        """Days with rows of what ``steps`` read as of a day."""

        def shown(table: str) -> Iterator[date]:
            laid = (self.overlay.days.get(table, {}), (self.base or {}).get(table, {}))
            for day in {*(day for name, day in states if name == table), *chain.from_iterable(laid)}:
                record = self.record(table, day)
                content = content_in(states, TableDay(table, day)) if record is None else record.content
                if content is not None and content.rows:
                    yield day

        return {table: sorted(shown(table)) for table in tables_as_of(steps)}

    def seen(self, days: Days) -> Overlay:
        if self.base is None:
            return self.overlay
        through = {table: {day: self.record(table, day) for day in of_table} for table, of_table in days.items()}
        laid = {table: {day: each for day, each in found.items() if each} for table, found in through.items()}
        return self.overlay.with_records(laid)

    def staged(self, storage: Storage, table: str, wanted: Mapping[date, str]) -> Offers:
        """Days that were staged here from the ``wanted`` input fingerprints; on main, by any run."""
        return adoptable(timelines_of(storage, table, self.owner), wanted)

    def staged_elsewhere(self, storage: Storage, table: str, wanted: Mapping[date, str]) -> Offers:
        """Like :meth:`staged`, from named timelines; nothing for main."""
        if not self.owner or not wanted:
            return {}
        return adoptable([each for each in open_timelines(storage, table) if each.is_named], wanted)


MAIN = Place()
