"""A place is where days are put, and what it shows in place of main's days.

Main itself, a campaign, a timeline, an undo: each begins the names of its folders of staged days with its own name, and
lays its days over main. A build asks it what was staged before from just the inputs there are now.
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
    """Records of days, by table and day. All other days are read from main."""

    days: DayRecords = field(default_factory=dict)

    def record(self, table: str, day: date) -> DayRecord | None:
        """None for a day that is main's."""
        return self.days.get(table, {}).get(day)

    def laid(self, table: str, days: Iterable[date]) -> dict[date, DayRecord]:
        """Those of ``days`` that are not main's."""
        own = self.days.get(table, {})
        return {day: own[day] for day in days if day in own}

    def over(self, pin: Pin) -> Pin:
        """``pin`` with the fingerprints and contents of these days in place of main's."""
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
        """The days of ``read`` that read through: what a publication depends on, and does not itself bring."""
        own = self.days.get(read.table, {})
        return read.model_copy(update={"days": {day: logical for day, logical in read.days.items() if day not in own}})

    def day_reads(self, read: InputRead, days: DayRange) -> list[DayRead]:
        """``days`` of ``read`` as the log keeps what a day was computed from: from main, or staged with it."""
        staged = {day for day in days if day in self.days.get(read.table, {})}
        return [
            DayRead(table=read.table, version=version, first=part.first, last=part.last, staged=is_staged)
            for dates, version, is_staged in ((set(days) - staged, read.version, False), (staged, None, True))
            for part in contiguous(dates)
        ]

    def rows(self, spark: SparkSession, storage: Storage, read: InputRead, schema: StructType) -> DataFrame:
        """The rows of the days of ``read``, from main and from the files of the days that lie over it."""
        rows = published_rows(spark, storage, self.from_main(read), schema)
        files = [file for record in self._own(read) for file in record.files]
        return rows.unionByName(rows_of_main_files(spark, storage, read.table, files, schema)) if files else rows

    def files(self, storage: Storage, read: InputRead) -> dict[date, tuple[AddedFile, ...]]:
        """The files that :meth:`rows` reads, by day, as they are named from the root of the lakehouse."""
        through = self.from_main(read)
        main = {} if read.version is None else read_log(storage, read.table, read.version).of_days(through.days)
        found = {**main, **{record.day: record.files for record in self._own(read) if record.files}}
        return {day: tuple(file.below(read.table) for file in files) for day, files in found.items()}

    def with_days(self, table: str, records: Iterable[DayRecord]) -> Overlay:
        """This overlay with further days of ``table``, over those it has."""
        laid = {**self.days.get(table, {}), **{record.day: record for record in records}}
        return Overlay({**self.days, table: laid})

    def with_records(self, records: DayRecords) -> Overlay:
        """This overlay with further days of several tables."""
        return Overlay({**self.days, **{name: {**self.days.get(name, {}), **days} for name, days in records.items()}})

    def without(self, tables: Iterable[str]) -> Overlay:
        """This overlay without the days of ``tables``."""
        gone = set(tables)
        return Overlay({table: held for table, held in self.days.items() if table not in gone})

    def without_days(self, tables: Iterable[str], days: Iterable[date]) -> Overlay:
        """This overlay without ``days`` of ``tables``: these are main's."""
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
"""Staged days that can be used as they are, and the timelines that have their rows."""


@dataclass(frozen=True)
class Place:
    """``owner`` is the name of a campaign or an undo, or the id of a timeline; main has none."""

    owner: str = ""
    overlay: Overlay = NOTHING_LAID
    base: DayRecords | None = None
    """What its other days read through to; None if that is main as it is now."""

    @property
    def is_campaign(self) -> bool:
        return self.owner.startswith(CAMPAIGN)

    def over(self, records: DayRecords) -> Place:
        """This place with further days laid over what is below."""
        return replace(self, overlay=self.overlay.with_records(records))

    def record(self, table: str, day: date) -> DayRecord | None:
        """What it shows of a day; None if that is what main has."""
        laid = self.overlay.record(table, day)
        if laid is not None or self.base is None:
            return laid
        return self.base.get(table, {}).get(day, DayRecord(day=day))

    def filled(self, steps: Iterable[Step], states: Mapping[TableDay, DayState]) -> Filled:
        """The days with rows of what ``steps`` read as of a day; ``states`` are those that main has of it."""

        def shown(table: str) -> Iterator[date]:
            laid = (self.overlay.days.get(table, {}), (self.base or {}).get(table, {}))
            for day in {*(day for name, day in states if name == table), *chain.from_iterable(laid)}:
                record = self.record(table, day)
                content = content_in(states, TableDay(table, day)) if record is None else record.content
                if content is not None and content.rows:
                    yield day

        return {table: sorted(shown(table)) for table in tables_as_of(steps)}

    def seen(self, days: Days) -> Overlay:
        """What lies over main for a build that looks at ``days``."""
        if self.base is None:
            return self.overlay
        through = {table: {day: self.record(table, day) for day in of_table} for table, of_table in days.items()}
        laid = {table: {day: each for day, each in found.items() if each} for table, found in through.items()}
        return self.overlay.with_records(laid)

    def staged(self, storage: Storage, table: str, wanted: Mapping[date, str]) -> Offers:
        """The days of ``table`` that were staged here from what is ``wanted``, an input fingerprint for each.

        For main these are the days that any run has staged.
        """
        return adoptable(timelines_of(storage, table, self.owner), wanted)

    def staged_elsewhere(self, storage: Storage, table: str, wanted: Mapping[date, str]) -> Offers:
        """The same of any timeline that has a name; main takes none of these."""
        if not self.owner or not wanted:
            return {}
        return adoptable([each for each in open_timelines(storage, table) if each.is_named], wanted)


MAIN = Place()
