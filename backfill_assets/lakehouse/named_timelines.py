"""Timelines with a name: days of tables that differ from main, kept until they are deleted or their age is reached.

A day of such a timeline names the files that have its rows, as main would name them; all other days read through to
main as it was at the timeline's base. Each change writes a whole revision in the folder of the name, under the next
number: two writers never overwrite each other, a name has one holder, and a reader sees one state. Nothing that a kept
timeline names is reclaimed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta

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
LONGEST_NAME = 60


class TimelineBase(Record):
    """What the other days read through to: every table at its version, as of one entry of the publication log."""

    sequence: int = -1
    versions: Mapping[str, int] = Field(default_factory=dict)


class TimelineVersion(Record):
    """The version of a step that a timeline is of: its days hold what main would if it were the current one."""

    step: str
    version: str
    days: str = ""
    """The days that it is to have, as ``A..B``; empty for all that main has."""
    fresh: bool = False
    """Whether every night brings it up to date."""


class RawRead(Record):
    """What a raw table held as of one entry of the publication log, and how far its sources had been read."""

    table: str
    version: int
    sequence: int
    rows: int
    checksum: str
    offsets: tuple[PartitionPosition, ...] = ()
    landed_files: int | None = 0
    """None if that is not known any more."""
    newest_arrival: date | None = None
    """The newest day on which one of the landed files arrived."""


class ArrivedRows(Record):
    """The rows that arrived on a day of a raw table between two states, and the sum of their hashes."""

    day: date
    rows: int | None
    """None for a day with a foreign write, of which that is not known."""
    checksum: str = "0"


class NamedTimeline(Record):
    """One revision of a timeline. ``days`` are by table, ascending."""

    id: str
    name: str
    made_at: datetime
    by: str = ""
    base: TimelineBase
    moment_base: TimelineBase | None = None
    """What was published at its moment of its tables, and of all that they are computed from."""
    change: str = "created"
    """What this revision did, in a few words."""
    changed_at: datetime
    moment: str = ""
    """What its days were rewound to; empty if they were not."""
    targets: tuple[str, ...] = ()
    """The tables that it was rewound for; what is computed from them came along."""
    days: Mapping[str, tuple[DayRecord, ...]] = Field(default_factory=dict)
    versions: Mapping[str, str] = Field(default_factory=dict)
    """The version of the logic that each step went forward with."""
    held_back: tuple[str, ...] = ()
    """Days that did not go forward, and why."""
    read_up_to: tuple[str, ...] = ()
    """The source positions of its moment, a line each."""
    moment_reads: tuple[RawRead, ...] = ()
    """The same of every raw table that its days are computed from, for programs."""
    reads: tuple[RawRead, ...] = ()
    """What raw held when it last went forward; empty before it did."""
    arrived: Mapping[str, tuple[ArrivedRows, ...]] = Field(default_factory=dict)
    """What arrived since its moment and up to ``reads``, by raw table and day."""
    keep_until: datetime | None = None
    revision: int = 0
    deleted: bool = False
    went_to: str = ""
    """The name and the revision under which it goes on, if this is the end of a name that it had."""
    of_version: TimelineVersion | None = None

    def is_kept(self, now: datetime) -> bool:
        return not self.deleted and (self.keep_until is None or now < self.keep_until)

    @property
    def bases(self) -> tuple[TimelineBase, ...]:
        """All published states whose files it needs."""
        return (self.base,) if self.moment_base is None else (self.base, self.moment_base)

    @property
    def count_of_days(self) -> int:
        return sum(map(len, self.days.values()))

    @property
    def size(self) -> int:
        """Bytes of the files that it names, those that it shares with others among them."""
        return sum(file.size for held in self.days.values() for each in held for file in each.files)

    def days_of(self, tables: Iterable[str]) -> set[date]:
        """The days that it has of any of ``tables``."""
        return {each.day for table in tables for each in self.days.get(table, ())}

    @property
    def records(self) -> DayRecords:
        return {table: self.held(table) for table in self.days}

    def held(self, table: str) -> dict[date, DayRecord]:
        return {each.day: each for each in self.days.get(table, ())}

    def with_days(self, days: Mapping[str, Mapping[date, DayRecord]]) -> NamedTimeline:
        """This timeline with further days, over those it has."""
        both = {table: {**self.held(table), **days.get(table, {})} for table in {*self.days, *days}}
        ordered = {table: tuple(both[table][day] for day in sorted(both[table])) for table in sorted(both)}
        return self.model_copy(update={"days": {table: held for table, held in ordered.items() if held}})


def new_timeline_id(now: datetime) -> str:
    """It begins the names of the folders that the timeline's days are staged in."""
    return f"{NAMED}{now:%Y%m%dt%H%M%S}-{clock.token(4)}"


def require_timeline_name(name: str) -> None:
    """Raise :class:`InvalidRequest` for a name that could be taken for something else."""
    if not _NAME.fullmatch(name) or name == "main" or name.startswith(_RESERVED[1:]):
        raise InvalidRequest(
            f"{name!r} cannot name a timeline.",
            hint="Use lower-case letters, digits and hyphens, and begin with a letter: fx-again.",
        )


def create_timeline(storage: Storage, timeline: NamedTimeline) -> NamedTimeline:
    """Write the first revision; raises :class:`InvalidRequest` if the name is taken."""
    last = require_free_name(storage, timeline.name, timeline.changed_at)
    try:
        return _write(storage, timeline.model_copy(update={"revision": last + 1}))
    except PublicationRefused as error:  # Another one was faster.
        raise _taken(timeline.name) from error


def require_free_name(storage: Storage, name: str, now: datetime) -> int:
    """The number of the last revision that had the name, -1 for a new one.

    Raises :class:`InvalidRequest` if a kept timeline has it, or if none can have it.
    """
    require_timeline_name(name)
    holder = _newest(storage, name)
    if holder is not None and holder.is_kept(now):
        raise _taken(name, holder)
    return holder.revision if holder is not None else -1


def change_timeline(storage: Storage, timeline: NamedTimeline, change: str, now: datetime) -> NamedTimeline:
    """Write ``timeline`` as the revision after the one that it was read at.

    Raises :class:`PublicationRefused` if another process has changed it since.
    """
    values = {"revision": timeline.revision + 1, "change": change, "changed_at": now}
    return _write(storage, timeline.model_copy(update=values))


def rename_timeline(storage: Storage, timeline: NamedTimeline, name: str, now: datetime) -> NamedTimeline:
    """Raises :class:`InvalidRequest` for a name that is taken, or is its own.

    It has both names for a moment. After a process that died then, the same again ends the old one.
    """
    if name == timeline.name:
        raise InvalidRequest(f"The timeline is called {name!r} already.", hint="Choose another name.")
    require_timeline_name(name)
    values = {"name": name, "change": f"renamed from {timeline.name}", "changed_at": now}
    wanted, renamed = timeline.model_copy(update=values), _newest(storage, name)
    if renamed is None or renamed != wanted.model_copy(
        update={"changed_at": renamed.changed_at, "revision": renamed.revision}
    ):
        renamed = create_timeline(storage, wanted)
    ended = timeline.model_copy(update={"went_to": f"{name}/{renamed.revision}"})
    try:
        _end(storage, ended, f"renamed to {name}", now)
    except PublicationRefused:
        # Another process may have brought the same renaming to its end, and others have taken the name since.
        if _revisions(storage, timeline.name).at(timeline.revision + 1).went_to == ended.went_to:
            return renamed
        _end(storage, renamed, f"{timeline.name} was changed meanwhile", now)
        raise
    return renamed


def keep_timeline(storage: Storage, timeline: NamedTimeline, days: int | None, now: datetime) -> NamedTimeline:
    """Keep it for so many days from now, or until it is deleted.

    Raises :class:`InvalidRequest` for a day that the calendar has not.
    """
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
    """Forget it: its name is free, and maintenance reclaims what nothing else names. Others keep what they share.

    That it is deleted is written after all else is gone: if the process dies before, the command is typed again.
    """
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
    """Where the plain Delta tables of its revisions are: logs that name its files."""
    return f"{_OPENED}/{timeline.id}"


def find_timeline(storage: Storage, name: str, now: datetime) -> NamedTimeline:
    """The newest revision of the timeline ``name``; raises :class:`InvalidRequest` with the nearest name."""
    if (found := timeline_called(storage, name, now)) is not None:
        return found
    known = suggest_or_list(name, [each.name for each in kept_timelines(storage, now)], "Timelines")
    raise InvalidRequest(f"There is no timeline {name!r}.", hint=known)


def timeline_called(storage: Storage, name: str, now: datetime) -> NamedTimeline | None:
    """The kept timeline of that name, or id; None if there is none. Raises if it cannot be read."""
    if name.startswith(NAMED):
        return next((each for each in kept_timelines(storage, now) if each.id == name), None)
    found = _newest(storage, name) if _NAME.fullmatch(name) else None
    return found if found is not None and found.is_kept(now) else None


def kept_timelines(storage: Storage, now: datetime) -> list[NamedTimeline]:
    """The newest revision of every timeline that is kept, by name.

    Raises :class:`LakehouseUnusable` if there is one that cannot be read: what it needs is not known.
    """
    kept, unreadable = readable_timelines(storage, now)
    if unreadable:
        raise unreadable[0]
    return kept


def readable_timelines(storage: Storage, now: datetime) -> tuple[list[NamedTimeline], list[LakehouseUnusable]]:
    """The newest revision of every timeline that is kept, by name, and why others cannot be read."""
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
    """Paths, below ``table``, of all files that ``timelines`` name."""
    return {file.path for each in timelines for held in each.days.get(table, ()) for file in held.files}


def _revisions(storage: Storage, name: str) -> Series[NamedTimeline]:
    return Series(storage, f"{_FOLDER}/{name}", NamedTimeline)


def _newest(storage: Storage, name: str) -> NamedTimeline | None:
    """The last one that had the name; it may be deleted, or its age be reached."""
    revisions = _revisions(storage, name)
    return revisions.value(newest) if (newest := revisions.newest()) else None


def _write(storage: Storage, timeline: NamedTimeline) -> NamedTimeline:
    if not _revisions(storage, timeline.name).put(timeline.revision, timeline):
        raise PublicationRefused(
            f"The timeline {timeline.name} was changed by another process meanwhile.",
            hint="What was staged on it is kept: run the command again.",
        )
    return timeline


def _taken(name: str, holder: NamedTimeline | None = None) -> InvalidRequest:
    """What was done last to its ``holder`` says whether it is what the command that is typed again has made."""
    done = f": {holder.change} at {holder.changed_at:%Y-%m-%d %H:%M} UTC" if holder else ""
    return InvalidRequest(
        f"There is a timeline {name!r} already{done}.",
        hint=f"If that is what you asked for, it was done: backfill timeline show {name}. Else choose another name, or "
        f"forget that one: backfill timeline delete {name}",
    )
