"""Reads the days that a campaign has staged or puts back in place of main's, and all other days from main."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange, TableDay, contiguous
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.records import DayContent, DayRead, DayState, InputRead
from backfill_assets.lakehouse.rows import published_rows, rows_of_main_files, staged_rows
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.publication.publisher import Pin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NOT_PUBLISHED = -1


@dataclass(frozen=True)
class OverlaidDay:
    """A staged day whose gates passed, and where its rows are."""

    timeline: Timeline | None
    """None for a day without rows."""
    content: DayContent


@dataclass(frozen=True)
class DayBefore:
    """A day that is going to be what it was before, read from its own files or from an earlier version of main."""

    content: DayContent | None
    """None for a day that is going to be withdrawn, and for one with a foreign write."""
    version: int | None = None
    """The version of main that has the rows; None if there are none."""
    files: tuple[AddedFile, ...] = ()
    """The files that have the rows, as main names them, where the publication log says which these are."""
    foreign: str = ""
    """The physical fingerprint of a day with a foreign write."""

    @property
    def logical(self) -> str:
        if self.content is not None:
            return self.content.logical
        return fingerprints.foreign(self.foreign) if self.foreign else fingerprints.NEVER_PUBLISHED


@dataclass(frozen=True)
class Overlay:
    """Staged days, and days that are put back, by table and day. Without any, everything is read from main."""

    days: Mapping[str, Mapping[date, OverlaidDay]] = field(default_factory=dict)
    before: Mapping[str, Mapping[date, DayBefore]] = field(default_factory=dict)

    def over(self, pin: Pin) -> Pin:
        """``pin`` as the campaign sees it: overlaid days have the fingerprint and the content that was staged."""
        inputs = {table: self._read(read) for table, read in pin.inputs.items()}
        contents = [
            *(
                (TableDay(table, day), staged.content)
                for table, days in self.days.items()
                for day, staged in days.items()
            ),
            *(
                (TableDay(table, day), held.content)
                for table, days in self.before.items()
                for day, held in days.items()
            ),
        ]
        states = {
            key: DayState(*key, publication="", sequence=_NOT_PUBLISHED, physical="", content=content)
            for key, content in contents
        }
        return replace(pin, inputs=inputs, states={**pin.states, **states})

    def from_main(self, read: InputRead) -> InputRead:
        """The days of ``read`` that read through: what a publication depends on, and does not itself bring."""
        own = self._logicals(read.table)
        return read.model_copy(update={"days": {day: logical for day, logical in read.days.items() if day not in own}})

    def day_reads(self, read: InputRead, days: DayRange) -> list[DayRead]:
        """``days`` of ``read`` as the log keeps what a day was computed from: from main, or staged with it."""
        own = self._logicals(read.table).keys()
        staged = {day for day in days if day in own}
        return [
            DayRead(table=read.table, version=version, first=part.first, last=part.last, staged=is_staged)
            for dates, version, is_staged in ((set(days) - staged, read.version, False), (staged, None, True))
            for part in contiguous(dates)
        ]

    def rows(self, spark: SparkSession, storage: Storage, read: InputRead, schema: StructType) -> DataFrame:
        """The rows of the days of ``read``, from main and from wherever the others were staged."""
        read_rows = published_rows(spark, storage, self.from_main(read), schema)
        for version, days in self._earlier(read).items():
            earlier = read.model_copy(update={"version": version, "days": dict.fromkeys(days, "")})
            read_rows = read_rows.unionByName(published_rows(spark, storage, earlier, schema))
        if files := self._put_back(read):
            read_rows = read_rows.unionByName(rows_of_main_files(spark, storage, read.table, files, schema))
        for timeline, days in self._staged(read):
            read_rows = read_rows.unionByName(staged_rows(spark, timeline, days).select(*schema.names))
        return read_rows

    def files(self, storage: Storage, read: InputRead) -> dict[date, tuple[AddedFile, ...]]:
        """The files that :meth:`rows` reads, by day, as they are named from the root of the lakehouse."""
        read_through = self.from_main(read)
        found = _below(read.table, _files_of_main(storage, read_through, read_through.days))
        for version, days in self._earlier(read).items():
            earlier = read.model_copy(update={"version": version})
            found |= _below(read.table, _files_of_main(storage, earlier, days))
        for day, held in self.before.get(read.table, {}).items():
            if day in read.days and held.files:
                found |= _below(read.table, {day: held.files})
        for timeline, days in self._staged(read):
            for file in timeline.files(days):
                day = date.fromisoformat(file.day)
                found[day] = (*found.get(day, ()), file.below(timeline.path))
        return found

    def _read(self, read: InputRead) -> InputRead:
        own = self._logicals(read.table)
        return read.model_copy(update={"days": {day: own.get(day, logical) for day, logical in read.days.items()}})

    def _logicals(self, table: str) -> dict[date, str]:
        put_back = {day: held.logical for day, held in self.before.get(table, {}).items()}
        return put_back | {day: staged.content.logical for day, staged in self.days.get(table, {}).items()}

    def _staged(self, read: InputRead) -> list[tuple[Timeline, list[date]]]:
        by_timeline: dict[str, tuple[Timeline, list[date]]] = {}
        for day, staged in self.days.get(read.table, {}).items():
            if day in read.days and staged.timeline is not None and staged.content.rows:
                by_timeline.setdefault(staged.timeline.name, (staged.timeline, []))[1].append(day)
        return list(by_timeline.values())

    def _put_back(self, read: InputRead) -> list[AddedFile]:
        before = self.before.get(read.table, {})
        return [file for day, held in before.items() if day in read.days for file in held.files]

    def _earlier(self, read: InputRead) -> dict[int, list[date]]:
        by_version: dict[int, list[date]] = {}
        for day, held in self.before.get(read.table, {}).items():
            if day in read.days and held.version is not None:
                by_version.setdefault(held.version, []).append(day)
        return by_version

    def with_days(self, table: str, days: Iterable[tuple[date, OverlaidDay]]) -> Overlay:
        """This overlay with further days of ``table``, over those it has."""
        return replace(self, days={**self.days, table: {**self.days.get(table, {}), **dict(days)}})

    def without_days(self, tables: Collection[str], days: Collection[date]) -> Overlay:
        """This overlay without ``days`` of ``tables``: they are not staged."""
        left = {
            table: {day: held for day, held in staged.items() if table not in tables or day not in days}
            for table, staged in self.days.items()
        }
        return replace(self, days=left)

    def putting_back(self, table: str, days: Iterable[tuple[date, DayBefore]]) -> Overlay:
        """This overlay with days of ``table`` that are put back."""
        return replace(self, before={**self.before, table: {**self.before.get(table, {}), **dict(days)}})

    def without(self, tables: Iterable[str]) -> Overlay:
        """This overlay without the days of ``tables``: these are read from main."""
        gone = set(tables)
        days = {table: held for table, held in self.days.items() if table not in gone}
        before = {table: held for table, held in self.before.items() if table not in gone}
        return replace(self, days=days, before=before)


def _files_of_main(storage: Storage, read: InputRead, days: Iterable[date]) -> Mapping[date, tuple[AddedFile, ...]]:
    return {} if read.version is None else read_log(storage, read.table, read.version).of_days(days)


def _below(table: str, files: Mapping[date, Iterable[AddedFile]]) -> dict[date, tuple[AddedFile, ...]]:
    return {day: tuple(file.below(table) for file in some) for day, some in files.items()}


NOTHING_STAGED = Overlay()
