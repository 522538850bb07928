"""What every day holds at one moment: of main now, at a closed entry of the publication log, or on a timeline.

Only logs are read. The files of a day come from the Delta log of its table; where that was cleaned up, from the
publication that brought the day, which names them in full.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Schema

from backfill_assets.days import DayRange, TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.arrow_dataset import dataset_of_files
from backfill_assets.lakehouse.delta_log import AddedFile, VersionGone, read_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.named_timelines import NamedTimeline, TimelineBase
from backfill_assets.lakehouse.records import DayRecord, DayRecords, DayState, day_record
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import CAMPAIGN, TIMELINES, Timeline
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.pinned import pinned_files, pinned_versions
from backfill_assets.publish.rows import DAY_COLUMNS, day_states, newest_days
from backfill_assets.state.observed import LogView
from backfill_assets.state.reading import PublishedTable, closing_entry

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_NO_VERSION = -1
States = Mapping[date, DayState]


@dataclass(frozen=True)
class View:
    """All tables at their Delta ``versions`` as of the log entry ``sequence``, with the records ``over`` over them."""

    storage: Storage
    sequence: int
    versions: Mapping[str, int]
    over: DayRecords = field(default_factory=dict)
    _known: dict[str, tuple[States, dict[date, DayRecord]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """By table, what was asked before: neither an entry of the log nor a version of a table changes."""

    @classmethod
    def newest(cls, storage: Storage) -> View:
        """As of the last closed entry; empty for a lakehouse without a log, which this does not create."""
        log = PublicationLog(storage)
        head = log.head()
        return cls(storage, head.version, pinned_versions(log, head, head.state.versions))

    @classmethod
    def closed(cls, storage: Storage, publication: str) -> View:
        """All tables as they were when ``publication`` was closed; raises :class:`InvalidRequest` if it was not."""
        entry = closing_entry(storage, publication)
        return cls(storage, int(entry["sequence"]), json.loads(entry["detail"]))

    @classmethod
    def at(cls, storage: Storage, base: TimelineBase) -> View:
        """What the other days of a timeline read through to."""
        return cls(storage, base.sequence, base.versions)

    @classmethod
    def of(cls, storage: Storage, timeline: NamedTimeline) -> View:
        """A timeline: its own days over its base."""
        return cls(storage, timeline.base.sequence, timeline.base.versions, timeline.records)

    @property
    def base(self) -> TimelineBase:
        """What it is without the days over it."""
        return TimelineBase(sequence=self.sequence, versions=self.versions)

    def records(self, tables: Iterable[str]) -> dict[str, dict[date, DayRecord]]:
        """What every day of ``tables`` holds, ascending."""
        below = self._below(list(tables))
        found = {table: {**days, **self.over.get(table, {})} for table, (_, days) in below.items()}
        return {table: {day: days[day] for day in sorted(days)} for table, days in found.items()}

    def observed(self, tables: Iterable[str]) -> LogView:
        """``tables`` as a look at the lakehouse would show them if this were main."""
        below = self._below(list(tables))
        files = {
            table: {day: each.physical for day, each in days.items() if each.files}
            for table, (_, days) in below.items()
        }
        known = {TableDay(table, day): state for table, (states, _) in below.items() for day, state in states.items()}
        view = LogView(known, newest=files, pinned=files, sequence=self.sequence, versions=self.versions)
        return view.over({table: days for table, days in self.over.items() if table in below})

    def files(self, table: str) -> list[AddedFile]:
        """The files of all days of ``table``, relative to it."""
        return [file for record in self.records([table])[table].values() for file in record.files]

    def paths(self, table: str) -> set[str]:
        """Of all files of ``table`` below the days that lie over it, also of those that lie in no day."""
        version = self.versions.get(table)
        try:
            return set() if version is None else set(read_log(self.storage, table, version).active)
        except VersionGone:
            return {file.path for file in self.files(table)}

    def table(self, name: str) -> PublishedTable | None:
        """Its rows for Arrow; None if there are none, and nothing was published to it."""
        version = self.versions.get(name, _NO_VERSION)
        if name in self.over:
            return _TableOfFiles(name, self.storage.uri(name), version, self.storage, self)
        return None if version == _NO_VERSION else PublishedTable(name, self.storage.uri(name), version, self.storage)

    def rows(
        self,
        table: str,
        days: DayRange | None = None,
        chosen: pc.Expression | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table | None:
        """The rows of ``days`` (of all days) that fulfil ``chosen``; files of other days stay closed."""
        published = self.table(table)
        if published is None:
            return None
        conditions = [each for each in (in_days(days), chosen) if each is not None]
        wanted = None
        for condition in conditions:
            wanted = condition if wanted is None else wanted & condition
        return published.dataset().to_table(columns=columns, filter=wanted)

    def schema(self, table: str) -> Schema:
        """Main's columns, and those that only staged days of a timeline or a campaign have."""
        main = MainTable.open(self.storage, table)
        shapes = [] if main is None else [main.handle.schema().to_json()]
        shapes += [each.schema() for each in self._staged(table)]
        fields: dict[str, Mapping[str, Any]] = {}
        for shape in shapes:
            for each in json.loads(shape)["fields"]:
                fields.setdefault(each["name"], each)
        return Schema.from_json(json.dumps({"type": "struct", "fields": list(fields.values())}))

    def _staged(self, table: str) -> list[Timeline]:
        paths = {file.path for record in self.over.get(table, {}).values() for file in record.files}
        staged = {path.split("/", 2)[1]: path for path in paths if path.startswith(f"{TIMELINES}/")}
        found = [Timeline.holding(self.storage, table, staged[name]) for name in sorted(staged)]
        return [each for each in found if (each.is_named or each.name.startswith(CAMPAIGN)) and each.exists()]

    def _states(self, tables: list[str]) -> dict[str, dict[date, DayState]]:
        """The last thing that the log said of each day by this entry."""
        files = PublicationLog(self.storage).files()
        rows = files.rows(DAY_COLUMNS, until=self.sequence, event="published", table=tables).select(DAY_COLUMNS)
        found: dict[str, dict[date, DayState]] = {}
        for state in day_states(newest_days([rows])):
            found.setdefault(state.table, {})[state.day] = state
        return found

    def _below(self, tables: list[str]) -> dict[str, tuple[States, dict[date, DayRecord]]]:
        """What the log says of the days of each of ``tables``, and what they hold, without the days over them."""
        if new := [table for table in tables if table not in self._known]:
            states = self._states(new)
            for table in new:
                of_table = states.get(table, {})
                self._known[table] = of_table, self._records_below(table, of_table)
        return {table: self._known[table] for table in tables}

    def _records_below(self, table: str, states: States) -> dict[date, DayRecord]:
        version = self.versions.get(table)
        if version is None:
            return {}
        try:
            return records_of_version(self.storage, table, version, states)
        except VersionGone:
            return _records(_files_as_published(self.storage, states), states)


@dataclass(frozen=True)
class _TableOfFiles(PublishedTable):
    """A table with days over what is published; ``version`` is that of its base."""

    view: View

    def dataset(self) -> ds.Dataset:
        return dataset_of_files(self.storage, self.table, self.view.files(self.table), self.view.schema(self.table))


def in_days(days: DayRange | None) -> pc.Expression | None:
    return None if days is None else (pc.field("day") >= days.first) & (pc.field("day") <= days.last)


# ------------------------------------------------------------------ records of days


def records_of_version(storage: Storage, table: str, version: int | None, states: States) -> dict[date, DayRecord]:
    """What the days of ``table`` hold by the files of a Delta version, of which the log knows ``states``.

    Raises :class:`VersionGone` if the Delta log does not reach back to it.
    """
    return _records({} if version is None else read_log(storage, table, version).files_by_day(), states)


def main_days(log: PublicationLog, tables: Iterable[str]) -> dict[str, dict[date, DayRecord]]:
    """By table and day, as of the last closed entry; a day that was withdrawn is left out.

    Unlike :meth:`View.records` this needs no history of the log.
    """
    wanted = list(tables)
    head = log.head()
    states = log.day_states(head, wanted)
    found: dict[str, dict[date, DayRecord]] = {}
    for table in wanted:
        known = {day: state for (name, day), state in states.items() if name == table}
        records = _records(pinned_files(log, head, table).files_by_day(), known)
        found[table] = {day: each for day, each in records.items() if each.content is not None or each.files}
    return found


def differing(one: DayRecords, other: DayRecords) -> dict[str, set[date]]:
    """The days of each table that do not hold the same content on both sides."""
    found: dict[str, set[date]] = {}
    for table in {*one, *other}:
        left, right = one.get(table, {}), other.get(table, {})
        found[table] = {day for day in {*left, *right} if _logical(left.get(day)) != _logical(right.get(day))}
    return found


def _logical(record: DayRecord | None) -> str:
    return record.logical if record is not None else fingerprints.NEVER_PUBLISHED


def _records(files: Mapping[date, Iterable[AddedFile]], states: States) -> dict[date, DayRecord]:
    return {day: record_of(day, files.get(day, ()), states.get(day)) for day in sorted({*files, *states})}


def record_of(day: date, files: Iterable[AddedFile], state: DayState | None) -> DayRecord:
    """A day with ``files``, of which the log knows ``state``; others are a foreign write, also if there are none."""
    found = tuple(sorted(files, key=lambda file: file.path))
    physical = fingerprints.physical(file.path for file in found)
    if state is None:
        return day_record(day, found, None)
    if state.physical == physical:
        return day_record(day, found, state.content)
    return DayRecord(day=day, files=found, foreign=physical)


def _files_as_published(storage: Storage, states: States) -> dict[date, list[AddedFile]]:
    """As the publications named them that brought the days."""
    named = {state.publication for state in states.values()}
    # An id that was aborted may have been prepared again: the last one counts.
    prepared = {each.publication.id: each for each in PublicationLog(storage).prepared_of(named)}
    return {
        day: list(prepared[state.publication].target(state.table)[day].values())
        for day, state in states.items()
        if state.publication in prepared
    }
