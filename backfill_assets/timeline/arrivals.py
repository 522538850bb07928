"""What raw tables had been read of their sources at a state, and which rows arrived between two states.

Only logs are read: what a day holds is known by count and checksum, and rows that arrive are added to both. So what a
day held before, and what arrived on it since, are together what it holds now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import ArrivedRows, NamedTimeline, PartitionOffset, RawRead, TimelineBase
from backfill_assets.lakehouse.records import DayRecord, DayRecords
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Presence, expand_tables, read_by, reading, steps_of
from backfill_assets.rebuild import decide
from backfill_assets.state.moments import view_closed_by
from backfill_assets.state.positions import RawVersions
from backfill_assets.state.view import View
from backfill_assets.timeline.view import inputs_shown


def needed_tables(steps: Sequence[Step], tables: Collection[str]) -> list[str]:
    """``tables`` and all that they are computed from, in build order. Pure."""
    return expand_tables(steps, tables, upstream=True)


def base_of(view: View, tables: Iterable[str]) -> TimelineBase:
    """``view`` as a timeline keeps it, of ``tables`` alone."""
    versions = {name: view.versions[name] for name in sorted(tables) if name in view.versions}
    return TimelineBase(sequence=view.sequence, versions=versions)


def raw_reads(view: View, steps: Sequence[Step], tables: Collection[str]) -> tuple[RawRead, ...]:
    """What every raw table that ``tables`` are computed from held in ``view``, and how far it had been read."""
    needed = set(needed_tables(steps, tables))
    names = [
        name
        for step in steps
        if step.source is not None
        for name in step.table_names
        if name in needed and name in view.versions
    ]
    held, positions = view.records(names), RawVersions(view.storage)
    return tuple(_raw_read(view, name, held[name].values(), positions) for name in names)


def _raw_read(view: View, table: str, held: Iterable[DayRecord], positions: RawVersions) -> RawRead:
    contents = [each.content for each in held if each.content is not None]
    boundary = positions.at(table, view.versions[table])
    return RawRead(
        table=table,
        version=view.versions[table],
        sequence=view.sequence,
        rows=sum(each.rows for each in contents),
        checksum=str(sum(int(each.checksum) for each in contents)),
        offsets=tuple(
            PartitionOffset(topic=each.topic, partition=each.partition, next_offset=each.next_offset)
            for each in boundary.positions
        ),
        landed_files=boundary.landed_files,
        newest_arrival=boundary.newest_arrival,
    )


def arrivals_between(
    storage: Storage, before: Iterable[RawRead], after: Iterable[RawRead]
) -> dict[str, list[ArrivedRows]]:
    """What arrived on each day of each raw table after the one state and by the other, ascending."""
    earlier = {each.table: each for each in before}
    found = {
        each.table: arrivals(_days_at(storage, earlier.get(each.table)), _days_at(storage, each)) for each in after
    }
    return {table: days for table, days in found.items() if days}


def _days_at(storage: Storage, read: RawRead | None) -> Mapping[date, DayRecord]:
    if read is None:
        return {}
    return View(storage, read.sequence, {read.table: read.version}).records([read.table])[read.table]


def arrivals(then: Mapping[date, DayRecord], now: Mapping[date, DayRecord]) -> list[ArrivedRows]:
    """The days that hold other rows now, with how many more, and the sum of their hashes. Pure.

    Rows that were taken back count below zero. What came to a day with a foreign write is not known.
    """
    found = []
    for day in sorted({*then, *now}):
        before, after = then.get(day, DayRecord(day=day)), now.get(day, DayRecord(day=day))
        if before.logical == after.logical:
            continue
        if before.foreign or after.foreign:
            found.append(ArrivedRows(day=day, rows=None))
            continue
        rows, checksum = (_sums(after)[n] - _sums(before)[n] for n in (0, 1))
        if rows or checksum:
            found.append(ArrivedRows(day=day, rows=rows, checksum=str(checksum)))
    return found


def _sums(held: DayRecord) -> tuple[int, int]:
    return (held.content.rows, int(held.content.checksum)) if held.content else (0, 0)


def add_arrivals(
    known: Mapping[str, Sequence[ArrivedRows]], more: Mapping[str, Sequence[ArrivedRows]]
) -> dict[str, tuple[ArrivedRows, ...]]:
    """What arrived in two times one after the other, together. Pure."""
    found: dict[str, dict[date, ArrivedRows]] = {}
    for table, days in (*known.items(), *more.items()):
        for each in days:
            before = found.setdefault(table, {}).get(each.day)
            found[table][each.day] = each if before is None else _both(before, each)
    kept = {
        table: tuple(days[day] for day in sorted(days) if not days[day].is_nothing) for table, days in found.items()
    }
    return {table: days for table, days in kept.items() if days}


def _both(one: ArrivedRows, other: ArrivedRows) -> ArrivedRows:
    if one.rows is None or other.rows is None:
        return ArrivedRows(day=one.day, rows=None)
    return ArrivedRows(day=one.day, rows=one.rows + other.rows, checksum=str(int(one.checksum) + int(other.checksum)))


@dataclass(frozen=True)
class Arrived:
    """What a forward found at its sources: the state that it read, and what arrived since the one before it."""

    reads: tuple[RawRead, ...]
    since_last: Mapping[str, Sequence[ArrivedRows]]
    waiting: Mapping[str, Sequence[date]]
    """Days of tables that main has not taken these rows into yet, and that the timeline reads through to."""

    def recorded_on(self, timeline: NamedTimeline) -> NamedTimeline:
        """``timeline`` with what was read, and what arrived since its moment."""
        arrived = add_arrivals(timeline.arrived, self.since_last) if timeline.moment_reads else {}
        return timeline.model_copy(update={"reads": self.reads, "arrived": arrived})


NOTHING_ARRIVED = Arrived((), {}, {})


def held_at_moment(storage: Storage, steps: Sequence[Step], timeline: NamedTimeline) -> DayRecords:
    """What the tables held at the moment of ``timeline`` that its days are computed from, and its own tables.

    Raises :class:`InvalidRequest` for a timeline that does not keep which state that was.
    """
    if timeline.moment_base is None:
        raise InvalidRequest(
            f"The timeline {timeline.name} does not keep what its days were computed from.",
            hint="It was not rewound, or by earlier code. backfill timeline rewind TABLES makes one that does.",
        )
    return View.at(storage, timeline.moment_base).records(needed_tables(steps, timeline.days))


def base_at_moment(storage: Storage, timeline: NamedTimeline) -> TimelineBase:
    """Everything as it was at the moment of ``timeline``, for its other days to read through to.

    It keeps what its days are computed from. Of other tables files may be gone: such a table is left out.
    """
    if timeline.moment_base is None:
        raise AssertionError(f"{timeline.name} has no moment.")
    then = timeline.moment_base
    every = view_closed_by(storage, then.sequence)
    others = every.records(every.versions.keys() - then.versions.keys())
    whole = [name for name, held in others.items() if not missing_files(storage, name, held.values())]
    return TimelineBase(sequence=then.sequence, versions={**base_of(every, whole).versions, **then.versions})


def missing_files(storage: Storage, table: str, days: Iterable[DayRecord]) -> list[str]:
    """The files of these days that are gone."""
    return storage.missing(f"{table}/{file.path}" for held in days for file in held.files)


def days_read(steps: Sequence[Step], timeline: NamedTimeline, held: DayRecords) -> DayRecords:
    """Those of the ``held`` days that the days of ``timeline`` are computed from, by any version. Pure."""
    read: dict[str, set[date]] = {}
    for step in steps_of(steps, timeline.days):
        own = {day for name in step.table_names for day in timeline.held(name)}
        for version in step.versions:
            for table, days in read_by(step, own, version).items():
                read.setdefault(table, set()).update(days)
    return {
        table: {day: each for day, each in held.get(table, {}).items() if day in days} for table, days in read.items()
    }


def arrived_since(view: View, steps: Sequence[Step], timeline: NamedTimeline) -> Arrived:
    """What raw holds in ``view``, and what of it arrived since ``timeline`` was made or last went forward."""
    reads = raw_reads(view, steps, timeline.days)
    known = timeline.reads or timeline.moment_reads
    since = arrivals_between(view.storage, known, reads) if known else {}
    return Arrived(reads, since, waiting_days(view, steps, timeline, since) if since else {})


def waiting_days(
    view: View, steps: Sequence[Step], timeline: NamedTimeline, arrived: Mapping[str, Sequence[ArrivedRows]]
) -> dict[str, list[date]]:
    """The days between raw and ``timeline`` that main has not computed from the rows that ``arrived``, by table.

    A look back reaches days that have no inputs of their own yet: these are days to come.
    """
    needed = needed_tables(steps, timeline.days)
    held = view.records(needed)
    moved: dict[str, set[date]] = {table: {each.day for each in days} for table, days in arrived.items()}
    found: dict[str, list[date]] = {}
    there = Presence(held)
    for step in steps_of(steps, needed):
        if step.source is not None:
            there.add(step, moved.get(step.name, ()))
            continue
        own = {day for name in step.table_names for day in timeline.held(name)}
        reached = there.obtainable(step, reading(step, moved))
        there.add(step, reached)
        behind = [day for day in sorted(reached - own) if _is_behind(step, day, held, found)]
        found |= dict.fromkeys([name for name in step.table_names if behind], behind)
        moved |= dict.fromkeys(step.table_names, reached)
    return found


def _is_behind(
    step: Step,
    day: date,
    held: DayRecords,
    behind: Mapping[str, Sequence[date]],
) -> bool:
    """Was the day computed from something else than what its inputs hold now, or from days that were?"""
    day_held = held.get(step.table_names[0], {}).get(day)
    if day_held is None or day_held.content is None:
        return True
    version = next((each for each in step.versions if each.name == day_held.content.code_version), None)
    if version is None or decide.days_reading(step, version, [day], {t: frozenset(d) for t, d in behind.items()}):
        return True
    return inputs_shown(step, version, [day], held)[day].inputs != day_held.content.inputs
