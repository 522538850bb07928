"""Moments to go back to: which state of the lakehouse a text names, and what each day held then, file by file.

Only logs are read. The files of a day come from the Delta log of its table; where that was cleaned up, from the
publication that brought the day, which names them in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile, VersionGone, read_log
from backfill_assets.lakehouse.named_timelines import HeldDay
from backfill_assets.lakehouse.records import DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publication_log.log import PublicationLog
from backfill_assets.publication_log.pinned import pinned_files
from backfill_assets.publication_log.rows import DAY_COLUMNS, day_states, newest_days
from backfill_assets.published.observed import LogView
from backfill_assets.published.positions import snapshot_at, snapshot_of, snapshot_with
from backfill_assets.published.snapshot import Snapshot

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOST_DIGITS = 18
BEFORE = "^"
"""After a publication: the state just before it, as in git."""
HeldDays = Mapping[str, Mapping[date, HeldDay]]
"""What days hold, by table and day."""


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
    found = PublicationLog(storage).files().rows([], until=closed - 1, event="closed").column("sequence").to_pylist()
    if not found:
        raise InvalidRequest(
            f"Nothing was published before {publication}.", hint="backfill history lists the publications."
        )
    return Moment(snapshot_closed_by(storage, max(found)), f"before publication {publication}")


def snapshot_closed_by(storage: Storage, sequence: int) -> Snapshot:
    """All tables as the entry ``sequence`` of the publication log left them, which closed a publication."""
    rows = PublicationLog(storage).files().rows(["publication"], sequence=sequence, event="closed")
    return snapshot_of(storage, rows.column("publication").to_pylist()[0])


def held_days(snapshot: Snapshot, tables: Iterable[str]) -> HeldDays:
    """What every day of ``tables`` held in ``snapshot``."""
    wanted = list(tables)
    states = _states(snapshot, wanted)
    return {table: _held_days(snapshot, table, states.get(table, {})) for table in wanted}


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
    files = PublicationLog(snapshot.storage).files()
    rows = files.rows(DAY_COLUMNS, until=snapshot.sequence, event="published", table=tables)
    found: dict[str, dict[date, DayState]] = {}
    for state in day_states(newest_days([rows.select(DAY_COLUMNS)])):
        found.setdefault(state.table, {})[state.day] = state
    return found


def _held_days(snapshot: Snapshot, table: str, states: Mapping[date, DayState]) -> dict[date, HeldDay]:
    version = snapshot.versions.get(table)
    if version is None:
        return {}
    try:
        by_day = _files_by_day(snapshot.storage, table, version)
    except VersionGone:
        by_day = _files_as_published(snapshot.storage, states)
    held = {day: held_day(day, by_day.get(day, ()), states.get(day)) for day in {*by_day, *states}}
    return {day: held[day] for day in sorted(held)}


def _files_by_day(storage: Storage, table: str, version: int) -> dict[date, list[AddedFile]]:
    state = read_log(storage, table, version)
    return {day: [state.active[path] for path in paths] for day, paths in state.by_day().items()}


def _files_as_published(storage: Storage, states: Mapping[date, DayState]) -> dict[date, list[AddedFile]]:
    """As the publications named them that brought the days."""
    named = {state.publication for state in states.values()}
    # An id that was aborted may have been prepared again: the last one counts.
    prepared = {each.publication.id: each for each in PublicationLog(storage).prepared_of(named)}
    return {
        day: list(prepared[state.publication].target(state.table)[day].values())
        for day, state in states.items()
        if state.publication in prepared
    }


def differing(one: HeldDays, other: HeldDays) -> dict[str, set[date]]:
    """The days of each table that do not hold the same content on both sides."""
    found: dict[str, set[date]] = {}
    for table in {*one, *other}:
        left, right = one.get(table, {}), other.get(table, {})
        days = {day for day in {*left, *right} if _logical(left.get(day)) != _logical(right.get(day))}
        found[table] = days
    return found


def _logical(held: HeldDay | None) -> str:
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


def main_days(log: PublicationLog, tables: Iterable[str]) -> dict[str, dict[date, HeldDay]]:
    """By table and day, as of the last closed entry; a day that was withdrawn is left out."""
    wanted = list(tables)
    head = log.head()
    states = log.day_states(head, wanted)
    found: dict[str, dict[date, HeldDay]] = {}
    for table in wanted:
        active = pinned_files(log, head, table)
        files = {day: [active.active[path] for path in paths] for day, paths in active.by_day().items()}
        known = {day: state for (name, day), state in states.items() if name == table}
        held = {day: held_day(day, files.get(day, ()), known.get(day)) for day in sorted({*files, *known})}
        found[table] = {day: each for day, each in held.items() if each.content is not None or each.files}
    return found


def held_day(day: date, files: Iterable[AddedFile], state: DayState | None) -> HeldDay:
    """A day with ``files``, of which the log knows ``state``."""
    found = tuple(sorted(files, key=lambda file: file.path))
    physical = fingerprints.physical(file.path for file in found)
    if state is not None and state.physical == physical:
        return HeldDay(day=day, content=state.content, files=found)
    return HeldDay(day=day, files=found, foreign=physical if found else "")
