"""Moments to go back to: which state of the lakehouse a text names, and what each day held then, file by file.

Only logs are read. The files of a day come from the Delta log of its table; where that was cleaned up, from the
publication that brought the day, which names them in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

import pyarrow as pa

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile, VersionGone, read_log
from backfill_assets.lakehouse.records import DayRecord, DayRecords, DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publication_log.files import among, equal
from backfill_assets.publication_log.log import PublicationLog, utc_now
from backfill_assets.publication_log.pinned import pinned_files
from backfill_assets.publication_log.rows import DAY_COLUMNS, day_states, newest_days
from backfill_assets.published.observed import LogView
from backfill_assets.published.positions import snapshot_at, snapshot_of, snapshot_with
from backfill_assets.published.reading import anything_published
from backfill_assets.published.snapshot import Snapshot

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOST_DIGITS = 18
BEFORE = "^"
"""After a publication: the state just before it, as in git."""


@dataclass(frozen=True)
class Moment:
    """A state of the lakehouse, and the words for it."""

    snapshot: Snapshot
    text: str


def parse_time(text: str) -> datetime | None:
    """``text`` as a moment in UTC; None if it is none, and for the beginning of an id, ``20170601t1200``.

    A time without a fraction is the end of its second: as such it is shown when a publication was closed.
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
    """Whether ``text`` can be the number of a Delta version: ``²`` is a digit and none, and so are a thousand."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def find_moment(storage: Storage, text: str, table: str) -> Moment:
    """The state that ``text`` names: a publication, a Delta version of ``table``, or a time.

    ``PUBLICATION^`` is the state just before it was closed. Raises :class:`InvalidRequest` for a publication or a
    version that there is none of, and for a time before the first publication.
    """
    if text.endswith(BEFORE):
        return moment_before(storage, text.removesuffix(BEFORE))
    if is_version(text):
        return Moment(snapshot_with(storage, table, int(text)), f"version {text} of {table}")
    if (at := parse_time(text)) is not None:
        return Moment(snapshot_at(storage, at), f"{at:%Y-%m-%d %H:%M:%S} UTC")
    return Moment(snapshot_of(storage, text), f"publication {text}")


def moment_before(storage: Storage, publication: str) -> Moment:
    """The state just before ``publication`` was closed; raises :class:`InvalidRequest` for the first one."""
    closed = snapshot_of(storage, publication).sequence
    rows = PublicationLog(storage, utc_now).files().between("sequence", high=closed - 1).read(["event", "sequence"])
    found = [number for number in equal(rows, event="closed").column("sequence").to_pylist() if number < closed]
    if not found:
        raise InvalidRequest(
            f"Nothing was published before {publication}.", hint="backfill history lists the publications."
        )
    return Moment(snapshot_closed_by(storage, max(found)), f"before publication {publication}")


def snapshot_closed_by(storage: Storage, sequence: int) -> Snapshot:
    """All tables as the entry ``sequence`` of the publication log left them, which closed a publication."""
    files = PublicationLog(storage, utc_now).files().between("sequence", sequence, sequence)
    rows = equal(files.read(["event", "sequence", "publication"]), event="closed").to_pylist()
    return snapshot_of(storage, next(row["publication"] for row in rows if row["sequence"] == sequence))


def records_at(snapshot: Snapshot, tables: Iterable[str]) -> DayRecords:
    """What every day of ``tables`` held in ``snapshot``."""
    wanted = list(tables)
    states = _states(snapshot, wanted)
    return {table: _records_of(snapshot, table, states.get(table, {})) for table in wanted}


def files_then(snapshot: Snapshot, table: str) -> set[str]:
    """The paths, below ``table``, of all files that it had in ``snapshot``."""
    version = snapshot.versions.get(table)
    if version is None:
        return set()
    try:
        return set(read_log(snapshot.storage, table, version).active)
    except VersionGone:
        by_day = _files_as_published(snapshot.storage, _states(snapshot, [table]).get(table, {}))
        return {file.path for files in by_day.values() for file in files}


def _states(snapshot: Snapshot, tables: list[str]) -> dict[str, dict[date, DayState]]:
    """The last thing that the log said of each day by the snapshot's entry."""
    if not anything_published(snapshot.storage):
        return {}
    files = PublicationLog(snapshot.storage, utc_now).files().between("sequence", high=snapshot.sequence)
    rows = equal(files.holding("table", tables).read([*DAY_COLUMNS, "event"]), event="published")
    within = [each <= snapshot.sequence for each in rows.column("sequence").to_pylist()]
    until = rows.filter(pa.array(within, pa.bool_()))
    rows = among(until, "table", tables).select(DAY_COLUMNS)
    found: dict[str, dict[date, DayState]] = {}
    for state in day_states(newest_days([rows])):
        found.setdefault(state.table, {})[state.day] = state
    return found


def _records_of(snapshot: Snapshot, table: str, states: Mapping[date, DayState]) -> dict[date, DayRecord]:
    version = snapshot.versions.get(table)
    if version is None:
        return {}
    try:
        return records_of_version(snapshot.storage, table, version, states)
    except VersionGone:
        return _records_of_files(_files_as_published(snapshot.storage, states), states)


def records_of_version(
    storage: Storage, table: str, version: int | None, states: Mapping[date, DayState]
) -> dict[date, DayRecord]:
    """What the days of ``table`` hold by the files of a Delta version, of which the log knows ``states``, ascending.

    Raises :class:`VersionGone` if the Delta log does not reach back to it.
    """
    return _records_of_files({} if version is None else _files_by_day(storage, table, version), states)


def _records_of_files(
    files: Mapping[date, Iterable[AddedFile]], states: Mapping[date, DayState]
) -> dict[date, DayRecord]:
    return {day: record_of(day, files.get(day, ()), states.get(day)) for day in sorted({*files, *states})}


def _files_by_day(storage: Storage, table: str, version: int) -> dict[date, list[AddedFile]]:
    state = read_log(storage, table, version)
    return {day: [state.active[path] for path in paths] for day, paths in state.by_day().items()}


def _files_as_published(storage: Storage, states: Mapping[date, DayState]) -> dict[date, list[AddedFile]]:
    """As the publications named them that brought the days."""
    named = {state.publication for state in states.values()}
    # An id that was aborted may have been prepared again: the last one counts.
    prepared = {each.publication.id: each for each in PublicationLog(storage, utc_now).prepared_of(named)}
    return {
        day: list(prepared[state.publication].target(state.table)[day].values())
        for day, state in states.items()
        if state.publication in prepared
    }


def differing(one: DayRecords, other: DayRecords) -> dict[str, set[date]]:
    """The days of each table that do not hold the same content on both sides."""
    found: dict[str, set[date]] = {}
    for table in {*one, *other}:
        left, right = one.get(table, {}), other.get(table, {})
        days = {day for day in {*left, *right} if _logical(left.get(day)) != _logical(right.get(day))}
        found[table] = days
    return found


def _logical(held: DayRecord | None) -> str:
    return held.logical if held is not None else fingerprints.NEVER_PUBLISHED


def observe_at(snapshot: Snapshot, tables: Iterable[str]) -> LogView:
    """``tables`` as they were in ``snapshot``: what a look at the lakehouse would have seen then."""
    wanted = list(tables)
    states = _states(snapshot, wanted)
    files = {table: _physicals(snapshot, table, states.get(table, {})) for table in wanted}
    return LogView(
        states={TableDay(table, day): state for table, days in states.items() for day, state in days.items()},
        newest=files,
        pinned=files,
        sequence=snapshot.sequence,
        versions=snapshot.versions,
    )


def _physicals(snapshot: Snapshot, table: str, states: Mapping[date, DayState]) -> dict[date, str]:
    version = snapshot.versions.get(table)
    if version is None:
        return {}
    try:
        paths: Mapping[date, Iterable[str]] = read_log(snapshot.storage, table, version).by_day()
    except VersionGone:
        named = _files_as_published(snapshot.storage, states)
        paths = {day: [file.path for file in files] for day, files in named.items() if files}
    return {day: fingerprints.physical(found) for day, found in paths.items()}


# ------------------------------------------------------------------ now, without the history of the log


def main_days(log: PublicationLog, tables: Iterable[str]) -> dict[str, dict[date, DayRecord]]:
    """By table and day, as of the last closed entry; a day that was withdrawn is left out."""
    wanted = list(tables)
    head = log.head()
    states = log.day_states(head, wanted)
    found: dict[str, dict[date, DayRecord]] = {}
    for table in wanted:
        active = pinned_files(log, head, table)
        files = {day: [active.active[path] for path in paths] for day, paths in active.by_day().items()}
        known = {day: state for (name, day), state in states.items() if name == table}
        held = {day: record_of(day, files.get(day, ()), known.get(day)) for day in sorted({*files, *known})}
        found[table] = {day: each for day, each in held.items() if each.content is not None or each.files}
    return found


def record_of(day: date, files: Iterable[AddedFile], state: DayState | None) -> DayRecord:
    """A day with ``files``, of which the log knows ``state``."""
    found = tuple(sorted(files, key=lambda file: file.path))
    physical = fingerprints.physical(file.path for file in found)
    if state is not None and state.physical == physical:
        return DayRecord(day=day, content=state.content, files=found)
    return DayRecord(day=day, files=found, foreign=physical if found else "")
