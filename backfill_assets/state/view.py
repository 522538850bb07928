"""What every day holds at one moment: main now, a closed log entry, or a timeline.

A day's files come from the table's Delta log, or if that was cleaned up, from the publication that brought it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Schema

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.arrow_dataset import dataset_of_files
from backfill_assets.lakehouse.delta_log import AddedFile, LogState, VersionGone, newest_version, read_log
from backfill_assets.lakehouse.lost_file import file_lost
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.named_timelines import NamedTimeline, TimelineBase
from backfill_assets.lakehouse.records import DayRecord, DayRecords, DayState, day_record
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import CAMPAIGN, TIMELINES, Timeline
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.past import brought_days, closed_entries
from backfill_assets.publish.pinned import pinned_versions
from backfill_assets.publish.unreadable import Unreadable, read_or_say
from backfill_assets.state.observed import LogView
from backfill_assets.state.reading import PublishedTable, closing_entry

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_NO_VERSION = -1
States = Mapping[date, DayState]


@dataclass(frozen=True)
class View:
    """All tables at their Delta ``versions`` as of log entry ``sequence``, with the days of ``timeline`` in place of
    theirs.
    """

    storage: Storage
    sequence: int
    versions: Mapping[str, int]
    name: str = field(default="", compare=False)
    """As people say it: main, a timeline, a publication, a version, a time."""
    timeline: NamedTimeline | None = None
    _known: dict[str, tuple[States, dict[date, DayRecord]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Entries of the log and versions of a table never change."""

    @classmethod
    def newest(cls, storage: Storage) -> View:
        """The last closed entry's view; creates no lakehouse."""
        log = PublicationLog(storage)
        head = log.head()
        return cls(storage, head.version, pinned_versions(log, head, head.state.versions), "main")

    @classmethod
    def closed(cls, storage: Storage, publication: str) -> View:
        """When ``publication`` was closed; raises :class:`InvalidRequest` if it was not."""
        entry = closing_entry(storage, publication)
        return cls(storage, entry.sequence, entry.versions, f"publication {publication}")

    @classmethod
    def at(cls, storage: Storage, base: TimelineBase) -> View:
        """What a timeline reads through to."""
        return cls(storage, base.sequence, base.versions, f"log entry {base.sequence}")

    @classmethod
    def of(cls, storage: Storage, timeline: NamedTimeline) -> View:
        return cls(storage, timeline.base.sequence, timeline.base.versions, timeline.name, timeline)

    @property
    def base(self) -> TimelineBase:
        return TimelineBase(sequence=self.sequence, versions=self.versions)

    @cached_property
    def over(self) -> DayRecords:
        return self.timeline.records if self.timeline else {}

    @property
    def tables(self) -> list[str]:
        return sorted({*self.over, *self.versions})

    def records(self, tables: Iterable[str]) -> dict[str, dict[date, DayRecord]]:
        below = self._below(sorted(set(tables)))
        found = {table: {**days, **self.over.get(table, {})} for table, (_, days) in below.items()}
        return {table: {day: days[day] for day in sorted(days)} for table, days in found.items()}

    def held(self, table: str) -> dict[date, DayRecord]:
        """Every day of ``table``, ascending; raises :class:`InvalidRequest` if there is none."""
        held = self.records([table])[table]
        if not held:
            raise InvalidRequest(
                f"{self.name} has no days of {table}.", hint=f"It has: {', '.join(self.tables) or 'nothing'}."
            )
        return held

    def observed(self, tables: Iterable[str]) -> LogView:
        """``tables`` as if this were main."""
        below = self._below(sorted(set(tables)))
        files = {
            table: {day: each.physical for day, each in days.items() if each.files}
            for table, (_, days) in below.items()
        }
        known = {TableDay(table, day): state for table, (states, _) in below.items() for day, state in states.items()}
        view = LogView(known, newest=files, pinned=files, sequence=self.sequence, versions=self.versions)
        return view.over({table: days for table, days in self.over.items() if table in below})

    def files(self, table: str) -> list[AddedFile]:
        return [file for record in self.records([table])[table].values() for file in record.files]

    def paths(self, table: str) -> set[str]:
        """Files below ``over``, also those that lie in no day."""
        version = self.versions.get(table)
        try:
            return set() if version is None else set(read_log(self.storage, table, version).active)
        except VersionGone:
            return {file.path for file in self.files(table)}

    def table(self, name: str) -> PublishedTable | None:
        version = self.versions.get(name, _NO_VERSION)
        if name in self.over:
            return _TableOfFiles(name, self.storage.uri(name), version, self.storage, self)
        return None if version == _NO_VERSION else PublishedTable(name, self.storage.uri(name), version, self.storage)

    def dataset(self, table: str) -> ds.Dataset:
        """Lazy: a filter on ``day`` opens only the files of those days. Raises what :meth:`held` raises."""
        files = [file for held in self.held(table).values() for file in held.files]
        return dataset_of_files(self.storage, table, files, self.schema(table))

    def rows(
        self,
        table: str,
        days: DayRange | None = None,
        chosen: pc.Expression | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table | None:
        """Rows of ``days`` (None: all) that fulfil ``chosen``; other days' files stay closed. Raises
        :class:`~backfill_assets.lakehouse.lost_file.FileLost` for a day.
        """
        published = self.table(table)
        if published is None:
            return None
        conditions = [each for each in (in_days(days), chosen) if each is not None]
        wanted = None
        for condition in conditions:
            wanted = condition if wanted is None else wanted & condition
        try:
            return published.dataset().to_table(columns=columns, filter=wanted)
        except (OSError, pa.ArrowException) as error:
            raise file_lost(error) or error from error

    def schema(self, table: str) -> Schema:
        """Main's columns, then those that only staged days have."""
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
        found: dict[str, dict[date, DayState]] = {}
        for (table, day), state in PublicationLog(self.storage).states_at(self.sequence, tables).items():
            found.setdefault(table, {})[day] = state
        return found

    def _below(self, tables: list[str]) -> dict[str, tuple[States, dict[date, DayRecord]]]:
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
        found = read_or_say(self.storage, table, version, lambda: read_log(self.storage, table, version).files_by_day())
        if isinstance(found, Unreadable) and found.kind is not VersionGone:
            raise found.error
        files = _files_as_published(self.storage, states) if isinstance(found, Unreadable) else found
        return _records(files, states)


@dataclass(frozen=True)
class _TableOfFiles(PublishedTable):
    view: View

    def dataset(self) -> ds.Dataset:
        return dataset_of_files(self.storage, self.table, self.view.files(self.table), self.view.schema(self.table))


def in_days(days: DayRange | None) -> pc.Expression | None:
    return None if days is None else (pc.field("day") >= days.first) & (pc.field("day") <= days.last)


# ------------------------------------------------------------------ records of days


def records_seen(observed: LogView, table: str, files: Mapping[str, LogState]) -> dict[date, DayRecord]:
    """``files`` are those that ``observed`` has of main, or those that it reads."""
    states = {day: state for (name, day), state in observed.states.items() if name == table}
    return _records(files[table].files_by_day(), states)


def differing(one: DayRecords, other: DayRecords) -> dict[str, set[date]]:
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
    """Files that the log's ``state`` does not have, or a lack of files, are a foreign write."""
    found = tuple(sorted(files, key=lambda file: file.path))
    physical = fingerprints.physical(file.path for file in found)
    if state is None:
        return day_record(day, found, None)
    if state.physical == physical:
        return day_record(day, found, state.content)
    return DayRecord(day=day, files=found, foreign=physical)


def _files_as_published(storage: Storage, states: States) -> dict[date, list[AddedFile]]:
    named = {state.publication for state in states.values()}
    # An id that was aborted may have been prepared again: the last one counts.
    prepared = {each.publication.id: each for each in PublicationLog(storage).prepared_of(named)}
    return {
        day: list(prepared[state.publication].target(state.table)[day].values())
        for day, state in states.items()
        if state.publication in prepared
    }


# ------------------------------------------------------------------ moments to go back to, as people name them

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOST_DIGITS = 18
BEFORE = "^"
"""``PUBLICATION^`` is the state just before it, as in git."""


def parse_time(text: str) -> datetime | None:
    """In UTC; None if it is no time, as ``20170601t1200``. Without a fraction it is the end of its second: publications
    are shown to the second.
    """
    if not _DATE.match(text):
        return None
    try:
        at = datetime.fromisoformat(text)
        at = at if "." in text or "," in text else at.replace(microsecond=999_999)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # in UTC, the year can be one that Python has not
        return None


def is_version(text: str) -> bool:
    """``²`` is a digit for Python and no version, and neither are a thousand digits."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def find_moment(storage: Storage, text: str, table: str) -> View:
    """The state that ``text`` names: a publication, a Delta version of ``table``, or a time.

    ``PUBLICATION^`` is the state just before it was closed. Raises :class:`InvalidRequest` for an unknown publication
    or version, and for a time before the first publication.
    """
    if text.endswith(BEFORE):
        return moment_before(storage, text.removesuffix(BEFORE))
    if is_version(text):
        return _view_with(storage, table, int(text))
    if (at := parse_time(text)) is not None:
        return _view_at(storage, at)
    return View.closed(storage, text)


def moment_before(storage: Storage, publication: str) -> View:
    """Raises :class:`InvalidRequest` for the first publication."""
    closed = closing_entry(storage, publication).sequence
    try:
        return view_closed_by(storage, closed - 1, f"before publication {publication}")
    except LookupError:
        raise InvalidRequest(
            f"Nothing was published before {publication}.", hint="backfill history lists the publications."
        ) from None


def view_closed_by(storage: Storage, sequence: int | None, name: str = "", at: datetime | None = None) -> View:
    """After the last publication that was closed by log entry ``sequence``, and by ``at``. Raises
    :class:`LookupError` if there is none.
    """
    files = PublicationLog(storage).files()
    ends = closed_entries(files.between("at", high=at), until=sequence)
    found = next((each for each in ends if at is None or each.at <= at), None)
    if found is None:
        raise LookupError("Nothing was published by then.")
    entry = next(closed_entries(files, maps=True, sequence=found.sequence))
    return View(storage, entry.sequence, entry.versions, name or f"publication {entry.publication}")


def _view_at(storage: Storage, at: datetime) -> View:
    name = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    try:
        return view_closed_by(storage, None, name, at)
    except LookupError:
        raise InvalidRequest(
            f"Nothing was published by {name}.", hint="backfill history lists the publications."
        ) from None


def _view_with(storage: Storage, table: str, version: int) -> View:
    newest = newest_version(storage, table)
    if newest is None or version > newest:
        has = "nothing was published to it" if newest is None else f"its newest version is {newest}"
        raise InvalidRequest(f"{table} has no version {version}: {has}.", hint="backfill history lists the versions.")
    brought = brought_days(PublicationLog(storage).files(), [table])
    last = next((each for each in brought if each.table_version <= version), None)
    if last is None:
        raise InvalidRequest(
            f"Nothing was published to {table} by version {version}.", hint="backfill history lists the versions."
        )
    found = View.closed(storage, last.publication)
    name = f"version {version} of {table}"
    return View(storage, last.sequence, {**found.versions, table: version}, name)
