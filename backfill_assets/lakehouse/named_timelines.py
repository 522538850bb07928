"""Named timelines: days of tables that differ from main, kept until deleted or expired.

Other days are main's at the timeline's base. Each change writes a whole revision under the next number: a name has one
holder. What a kept timeline names is not reclaimed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from operator import not_

from pydantic import Field

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest, LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse.document import Series
from backfill_assets.lakehouse.records import DayRecord, DayRecords, PartitionPosition, Record
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import NAMED, open_timelines
from backfill_assets.text import suggest_or_list

_FOLDER = "_named_timelines"
_OPENED = "_opened_timelines"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,59}")
_RESERVED = ("main", "campaign-", "plan-", NAMED)
RECOMPUTED = "recomputed"
"""In place of a state: a publication's days, computed again."""
LONGEST_NAME = 60


class TimelineBase(Record):
    sequence: int = -1
    versions: Mapping[str, int] = Field(default_factory=dict)


class TimelineVersion(Record):
    step: str
    version: str
    days: str = ""
    fresh: bool = False


class RawRead(Record):
    table: str
    version: int
    sequence: int
    rows: int
    checksum: str
    offsets: tuple[PartitionPosition, ...] = ()
    landed_files: int | None = 0
    newest_arrival: date | None = None


class ArrivedRows(Record):
    day: date
    rows: int | None
    checksum: str = "0"


class NamedTimeline(Record):
    id: str
    name: str
    made_at: datetime
    by: str = ""
    base: TimelineBase
    moment_base: TimelineBase | None = None
    """Published then, of its tables and all that they are computed from."""
    change: str = "created"
    changed_at: datetime
    moment: str = ""
    targets: tuple[str, ...] = ()
    days: Mapping[str, tuple[DayRecord, ...]] = Field(default_factory=dict)
    versions: Mapping[str, str] = Field(default_factory=dict)
    held_back: tuple[str, ...] = ()
    read_up_to: tuple[str, ...] = ()
    moment_reads: tuple[RawRead, ...] = ()
    """``read_up_to`` of every raw table below."""
    reads: tuple[RawRead, ...] = ()
    arrived: Mapping[str, tuple[ArrivedRows, ...]] = Field(default_factory=dict)
    keep_until: datetime | None = None
    revision: int = 0
    deleted: bool = False
    went_to: str = ""
    came_from: str = Field(default="", exclude_if=not_)
    """The former name, and the revision renamed."""
    of_version: TimelineVersion | None = None

    def is_kept(self, now: datetime) -> bool:
        return not self.deleted and (self.keep_until is None or now < self.keep_until)

    @property
    def bases(self) -> tuple[TimelineBase, ...]:
        return (self.base,) if self.moment_base is None else (self.base, self.moment_base)

    @property
    def count_of_days(self) -> int:
        return sum(map(len, self.days.values()))

    @property
    def size(self) -> int:
        return sum(file.size for held in self.days.values() for each in held for file in each.files)

    def days_of(self, tables: Iterable[str]) -> set[date]:
        return {each.day for table in tables for each in self.days.get(table, ())}

    @property
    def records(self) -> DayRecords:
        return {table: self.held(table) for table in self.days}

    def held(self, table: str) -> dict[date, DayRecord]:
        return {each.day: each for each in self.days.get(table, ())}

    def with_days(self, days: Mapping[str, Mapping[date, DayRecord]]) -> NamedTimeline:
        both = {table: {**self.held(table), **days.get(table, {})} for table in {*self.days, *days}}
        ordered = {table: tuple(both[table][day] for day in sorted(both[table])) for table in sorted(both)}
        return self.model_copy(update={"days": {table: held for table, held in ordered.items() if held}})


def new_timeline_id(now: datetime) -> str:
    return f"{NAMED}{now:%Y%m%dt%H%M%S}-{clock.token(4)}"


def require_timeline_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name in ("main", RECOMPUTED) or name.startswith(_RESERVED[1:]):
        raise InvalidRequest(
            f"{name!r} cannot name a timeline.",
            hint="Use lower-case letters, digits and hyphens, and begin with a letter: fx-again.",
        )


def create_timeline(storage: Storage, timeline: NamedTimeline) -> NamedTimeline:
    last = require_free_name(storage, timeline.name, timeline.changed_at)
    try:
        return _write(storage, timeline.model_copy(update={"revision": last + 1}))
    except PublicationRefused as error:  # Another one was faster.
        raise _taken(timeline.name) from error


def require_free_name(storage: Storage, name: str, now: datetime) -> int:
    """The name's last revision, -1 for a new one. Raises :class:`InvalidRequest` if taken, reserved or malformed."""
    require_timeline_name(name)
    holder = _newest(storage, name)
    if holder is not None and holder.is_kept(now):
        raise _taken(name, holder)
    return holder.revision if holder is not None else -1


def change_timeline(storage: Storage, timeline: NamedTimeline, change: str, now: datetime) -> NamedTimeline:
    """Raises :class:`PublicationRefused` if another process has changed it."""
    values = {"revision": timeline.revision + 1, "change": change, "changed_at": now}
    return _write(storage, timeline.model_copy(update=values))


def rename_timeline(storage: Storage, timeline: NamedTimeline, name: str, now: datetime) -> NamedTimeline:
    """Raises :class:`InvalidRequest` for a taken name.

    For a moment it has both; after a death, repeating ends the old one.
    """
    if name == timeline.name:
        raise InvalidRequest(f"The timeline is called {name!r} already.", hint="Choose another name.")
    require_timeline_name(name)
    came_from = f"{timeline.name}/{timeline.revision}"
    values = {"name": name, "change": f"renamed from {timeline.name}", "changed_at": now, "came_from": came_from}
    wanted = timeline.model_copy(update=values)
    renamed = _renamed_already(storage, wanted) or create_timeline(storage, wanted)
    ended = timeline.model_copy(update={"went_to": f"{name}/{renamed.revision}"})
    try:
        _end(storage, ended, f"renamed to {name}", now)
    except PublicationRefused:
        # Another process may have finished the same renaming, and others have taken the name since.
        if _revisions(storage, timeline.name).at(timeline.revision + 1).went_to == ended.went_to:
            return renamed
        _end(storage, renamed, f"{timeline.name} was changed meanwhile", now)
        raise
    return renamed


def _renamed_already(storage: Storage, wanted: NamedTimeline) -> NamedTimeline | None:
    """By an unfinished renaming. An earlier revision's may be taken back, until it is made one's own; after a later
    one's this comes too late.
    """
    found = _newest(storage, wanted.name)
    alike = found and found.model_copy(update={"came_from": wanted.came_from})
    if found is None or alike != wanted.model_copy(update={"changed_at": found.changed_at, "revision": found.revision}):
        return None
    if found.came_from == wanted.came_from:
        return found
    if _revision_in(found.came_from) > wanted.revision:
        raise _changed_meanwhile(wanted.name)
    return _write(storage, wanted.model_copy(update={"revision": found.revision + 1}))


def _revision_in(came_from: str) -> int:
    return int(came_from.rpartition("/")[2] or -1)


def keep_timeline(storage: Storage, timeline: NamedTimeline, days: int | None, now: datetime) -> NamedTimeline:
    """Without ``days`` until it is deleted. Raises :class:`InvalidRequest` past the calendar's end."""
    try:
        until = None if days is None else now + timedelta(days=days)
    except OverflowError:
        raise InvalidRequest(
            f"A timeline cannot be kept for {days:,} days: the calendar ends before.",
            hint="Leave --for out, and it is kept until it is deleted.",
        ) from None
    change = f"kept until {until:%Y-%m-%d}" if until else "kept until it is deleted"
    return change_timeline(storage, timeline.model_copy(update={"keep_until": until}), change, now)


def delete_timeline(storage: Storage, timeline: NamedTimeline, now: datetime) -> None:
    """Writes ``deleted`` last: after a death the command can be repeated."""
    for table in timeline.days:
        for staged in open_timelines(storage, table):
            if staged.name.startswith(f"{timeline.id}-"):
                staged.close()
    for file in storage.files(opened_folder(timeline), recursive=True):
        storage.delete(file.path)
    storage.delete_empty_folder(opened_folder(timeline))
    _end(storage, timeline, "deleted", now)


def _end(storage: Storage, timeline: NamedTimeline, change: str, now: datetime) -> None:
    change_timeline(storage, timeline.model_copy(update={"deleted": True}), change, now)


def opened_folder(timeline: NamedTimeline) -> str:
    return f"{_OPENED}/{timeline.id}"


def find_timeline(storage: Storage, name: str, now: datetime) -> NamedTimeline:
    """Raises :class:`InvalidRequest` with the nearest name."""
    if (found := timeline_called(storage, name, now)) is not None:
        return found
    known = suggest_or_list(name, [each.name for each in kept_timelines(storage, now)], "Timelines")
    raise InvalidRequest(f"There is no timeline {name!r}.", hint=known)


def timeline_called(storage: Storage, name: str, now: datetime) -> NamedTimeline | None:
    if name.startswith(NAMED):
        return next((each for each in kept_timelines(storage, now) if each.id == name), None)
    found = _newest(storage, name) if _NAME.fullmatch(name) else None
    return found if found is not None and found.is_kept(now) else None


def kept_timelines(storage: Storage, now: datetime) -> list[NamedTimeline]:
    """Raises :class:`LakehouseUnusable` for an unreadable one: its needs are unknown."""
    kept, unreadable = readable_timelines(storage, now)
    if unreadable:
        raise unreadable[0]
    return kept


def readable_timelines(storage: Storage, now: datetime) -> tuple[list[NamedTimeline], list[LakehouseUnusable]]:
    found: list[NamedTimeline] = []
    unreadable: list[LakehouseUnusable] = []
    for name in filter(_NAME.fullmatch, sorted(storage.folders(_FOLDER))):
        try:
            newest = _newest(storage, name)
        except LakehouseUnusable as error:
            unreadable.append(error)
            continue
        found += [newest] if newest is not None and newest.is_kept(now) else []
    return found, unreadable


def files_of_timelines(timelines: Iterable[NamedTimeline], table: str) -> set[str]:
    return {file.path for each in timelines for held in each.days.get(table, ()) for file in held.files}


def _revisions(storage: Storage, name: str) -> Series[NamedTimeline]:
    return Series(storage, f"{_FOLDER}/{name}", NamedTimeline)


def _newest(storage: Storage, name: str) -> NamedTimeline | None:
    revisions = _revisions(storage, name)
    return revisions.value(newest) if (newest := revisions.newest()) else None


def _write(storage: Storage, timeline: NamedTimeline) -> NamedTimeline:
    if not _revisions(storage, timeline.name).put(timeline.revision, timeline):
        raise _changed_meanwhile(timeline.name)
    return timeline


def _changed_meanwhile(name: str) -> PublicationRefused:
    return PublicationRefused(
        f"The timeline {name} was changed by another process meanwhile.",
        hint="What was staged on it is kept: run the command again.",
    )


def _taken(name: str, holder: NamedTimeline | None = None) -> InvalidRequest:
    done = f": {holder.change} at {holder.changed_at:%Y-%m-%d %H:%M} UTC" if holder else ""
    return InvalidRequest(
        f"There is a timeline {name!r} already{done}.",
        hint=f"If that is what you asked for, it was done: backfill timeline show {name}. Else choose another name, or "
        f"forget that one: backfill timeline delete {name}",
    )
