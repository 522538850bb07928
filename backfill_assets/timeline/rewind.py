"""Rewinding: a timeline whose days are what they were at a moment. Files are named, and no row is read or copied."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.named_timelines import (
    HeldDay,
    NamedTimeline,
    TimelineBase,
    new_timeline_id,
)
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import expand_tables, steps_of, walk_downstream
from backfill_assets.published.boundaries import boundary_line
from backfill_assets.published.history import PublicationRecord, history
from backfill_assets.published.moments import HeldDays, Moment, differing, held_days
from backfill_assets.published.positions import read_boundaries, snapshot_of
from backfill_assets.published.snapshot import Snapshot
from backfill_assets.text import format_count
from backfill_assets.timeline.arrivals import base_of, needed_tables, raw_reads


@dataclass(frozen=True)
class RewindRequest:
    """``tables`` and what is computed from them go back; of ``days`` if they are given, else of all that differ."""

    name: str
    tables: Sequence[str]
    days: DayRange | None = None
    by: str = ""
    keep_until: datetime | None = None


def new_timeline(storage: Storage, name: str, by: str, now: datetime, keep_until: datetime | None) -> NamedTimeline:
    """A timeline without days of its own: all of them read through to what is published now."""
    base = Snapshot.newest(storage)
    return NamedTimeline(
        id=new_timeline_id(now),
        name=name,
        made_at=now,
        by=by,
        base=TimelineBase(sequence=base.sequence, versions=base.versions),
        changed_at=now,
        keep_until=keep_until,
    )


def copied_timeline(timeline: NamedTimeline, name: str, by: str, now: datetime) -> NamedTimeline:
    """Another timeline of the same days: what is done on it leaves ``timeline`` as it is. No file is copied."""
    values = {"id": new_timeline_id(now), "name": name, "made_at": now, "changed_at": now, "by": by, "revision": 0}
    return timeline.model_copy(update={**values, "change": f"copied from {timeline.name}", "standby": None})


def differing_from_main(storage: Storage, timeline: NamedTimeline) -> dict[str, set[date]]:
    """The timeline's own days, by table, that hold something else than what is published now."""
    main = held_days(Snapshot.newest(storage), timeline.days)
    own = {table: timeline.held(table) for table in timeline.days}
    found = differing(own, main)
    return {table: found[table] & own[table].keys() for table in own}


def rewound_timeline(
    storage: Storage, steps: Sequence[Step], asked: RewindRequest, moment: Moment, now: datetime
) -> NamedTimeline:
    """The timeline that ``asked`` describes, which is not written yet.

    Raises :class:`InvalidRequest` for a raw table, which is only ever appended to, and when nothing of the days was
    ever published; :class:`PublicationRefused` when files of the moment are gone, with the earliest moment of each
    table that can be had.
    """
    _refuse_raw(steps, asked.tables)
    concerned = steps_of(steps, expand_tables(steps, asked.tables, downstream=True))
    tables = [name for step in concerned for name in step.table_names]
    timeline = new_timeline(storage, asked.name, asked.by, now, asked.keep_until)
    then = held_days(moment.snapshot, tables)
    since = held_days(Snapshot(storage, timeline.base.sequence, timeline.base.versions), tables)
    days = days_to_rewind(steps, asked, then, since)
    if not days:
        raise InvalidRequest(
            f"Nothing of {', '.join(asked.tables)} differs from {moment.text}: there is nothing to rewind.",
            hint="backfill rewind --list shows the moments worth going to; --days A..B takes days that are equal too.",
        )
    held = {
        table: {day: then.get(table, {}).get(day, HeldDay(day=day)) for day in found} for table, found in days.items()
    }
    require_files(storage, held, moment.text)
    reads = {table: found for table, found in days.items() if table in moment.snapshot.versions}
    needed = needed_tables(steps, days)
    return timeline.with_days(held).model_copy(
        update={
            "change": f"rewound to {moment.text}",
            "moment": moment.text,
            "targets": tuple(asked.tables),
            "moment_base": base_of(moment.snapshot, needed),
            "moment_reads": raw_reads(moment.snapshot, steps, days),
            "read_up_to": tuple(map(boundary_line, read_boundaries(moment.snapshot, reads))),
        }
    )


def days_to_rewind(
    steps: Sequence[Step], asked: RewindRequest, then: HeldDays, since: HeldDays
) -> dict[str, set[date]]:
    """The days of each table that go back: those of the tables asked for, and the periods that are computed from them.

    ``then`` and ``since`` are what the days held at the moment, and hold now. Pure.
    """
    differ = differing(then, since)
    known = {table: {*then.get(table, {}), *since.get(table, {})} for table in differ}
    given = {
        name: _asked_days(step, name, asked.days, known, differ)
        for step in steps_of(steps, asked.tables)
        for name in step.table_names
    }
    tables = set(known)

    def visit(step: Step, own: set[date], readers: set[date]) -> set[date]:
        there = {day for name in step.table_names for day in known.get(name, ())}
        return (own | readers) & there if not tables.isdisjoint(step.table_names) else set()

    return {table: days for table, days in walk_downstream(steps, given, visit).items() if days and table in tables}


def _asked_days(
    step: Step, table: str, days: DayRange | None, known: Mapping[str, set[date]], differ: Mapping[str, set[date]]
) -> set[date]:
    if days is None:
        return set(differ.get(table, ()))
    return set(step.cadence.starts(days)) & known.get(table, set())


def _refuse_raw(steps: Sequence[Step], tables: Collection[str]) -> None:
    for step in steps_of(steps, tables):
        if step.source is not None:
            raise InvalidRequest(
                f"{step.name} is not rewound: raw is only ever appended to.",
                hint="Rewind what is computed from it. Going forward takes the rows that arrived since from raw, once.",
            )


def require_files(storage: Storage, held: HeldDays, moment: str) -> None:
    """Raise :class:`PublicationRefused` for files that are gone, with the earliest moment of each table."""
    gone = {table: _missing(storage, table, days.values()) for table, days in held.items()}
    lost = {table: len(paths) for table, paths in gone.items() if paths}
    if not lost:
        return
    earliest = {table: earliest_moment(storage, table) for table in lost}
    named = "; ".join(
        f"{table}: {format_count(count, 'file')} gone, "
        + (
            f"the earliest moment is {at.publication} ({at.closed_at:%Y-%m-%d %H:%M:%S} UTC)"
            if at
            else "no moment is left"
        )
        for table, count in lost.items()
        for at in [earliest[table]]
    )
    raise PublicationRefused(
        f"What was published at {moment} is not kept any more. {named}. Nothing was changed.",
        hint="Choose a later moment: backfill rewind TABLES --list shows them. Or rebuild the days.",
    )


def _missing(storage: Storage, table: str, days: Iterable[HeldDay]) -> list[str]:
    return storage.missing(f"{table}/{file.path}" for held in days for file in held.files)


def earliest_moment(storage: Storage, table: str) -> PublicationRecord | None:
    """The oldest publication of ``table`` whose state still has all of its files; None if there is none.

    Files go oldest first, so that the search is by halves.
    """
    records = [each for each in history(storage, table) if each.outcome == "done"][::-1]
    low, high = 0, len(records)
    while low < high:
        middle = (low + high) // 2
        held = held_days(snapshot_of(storage, records[middle].publication), [table])
        low, high = (middle + 1, high) if _missing(storage, table, held[table].values()) else (low, middle)
    return records[low] if low < len(records) else None


def kept_for(days: int | None, now: datetime) -> datetime | None:
    """Until when a timeline is kept that is declared to live for so many days; None for one without an age.

    Raises :class:`InvalidRequest` for a day that the calendar has not.
    """
    try:
        return None if days is None else now + timedelta(days=days)
    except OverflowError:
        raise InvalidRequest(
            f"A timeline cannot be kept for {days:,} days: the calendar ends before.",
            hint="Leave --keep-for out, and it is kept until it is deleted.",
        ) from None
