"""What raw had read at a state, and rows that arrived between two, as differences of days' counts and checksums."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.lakehouse.named_timelines import ArrivedRows, NamedTimeline, RawRead, TimelineBase
from backfill_assets.lakehouse.records import DayRecord, DayRecords
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days, Presence, expand_tables, reading, steps_of
from backfill_assets.state.positions import RawVersions
from backfill_assets.state.view import View
from backfill_assets.timeline.view import filled_in_records, made_of


def needed_tables(steps: Sequence[Step], tables: Collection[str]) -> list[str]:
    return expand_tables(steps, tables, upstream=True)


def base_of(view: View, tables: Iterable[str]) -> TimelineBase:
    versions = {name: view.versions[name] for name in sorted(tables) if name in view.versions}
    return TimelineBase(sequence=view.sequence, versions=versions)


def raw_reads(view: View, steps: Sequence[Step], tables: Collection[str]) -> tuple[RawRead, ...]:
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
        offsets=boundary.positions,
        landed_files=boundary.landed_files,
        newest_arrival=boundary.newest_arrival,
    )


def arrivals_between(
    storage: Storage, before: Iterable[RawRead], after: Iterable[RawRead]
) -> dict[str, tuple[ArrivedRows, ...]]:
    earlier = {each.table: each for each in before}
    found = {
        each.table: tuple(arrivals(_days_at(storage, earlier.get(each.table)), _days_at(storage, each)))
        for each in after
    }
    return {table: days for table, days in found.items() if days}


def _days_at(storage: Storage, read: RawRead | None) -> Mapping[date, DayRecord]:
    if read is None:
        return {}
    return View(storage, read.sequence, {read.table: read.version}).records([read.table])[read.table]


def arrivals(then: Mapping[date, DayRecord], now: Mapping[date, DayRecord]) -> list[ArrivedRows]:
    """Days with other rows now; deleted ones count below zero, and ``rows`` is None for a foreign write. Pure."""
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


@dataclass(frozen=True)
class Arrived:
    reads: tuple[RawRead, ...] = ()
    since_last: Mapping[str, tuple[ArrivedRows, ...]] = field(default_factory=dict)
    since_moment: Mapping[str, tuple[ArrivedRows, ...]] = field(default_factory=dict)
    waiting: Mapping[str, Sequence[date]] = field(default_factory=dict)
    """Days by table that the timeline reads from main and that main has not built from these rows yet."""

    def recorded_on(self, timeline: NamedTimeline) -> NamedTimeline:
        return timeline.model_copy(update={"reads": self.reads, "arrived": self.since_moment})


NOTHING_ARRIVED = Arrived()


def missing_files(storage: Storage, table: str, days: Iterable[DayRecord]) -> list[str]:
    return storage.missing(f"{table}/{file.path}" for held in days for file in held.files)


def arrived_since(view: View, steps: Sequence[Step], timeline: NamedTimeline) -> Arrived:
    reads = raw_reads(view, steps, timeline.days)
    moment, last = (
        arrivals_between(view.storage, known, reads) if known else {}
        for known in (timeline.moment_reads, timeline.reads or timeline.moment_reads)
    )
    return Arrived(reads, last, moment, waiting_days(view, steps, timeline, last) if last else {})


def waiting_days(
    view: View, steps: Sequence[Step], timeline: NamedTimeline, arrived: Mapping[str, Sequence[ArrivedRows]]
) -> dict[str, list[date]]:
    """Days between raw and ``timeline`` that main has not built from ``arrived`` rows, without those that only a look
    back reaches.
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
        reached = there.obtainable(step, reading(step, moved, filled=filled_in_records([step], held)))
        there.add(step, reached)
        behind = sorted(reached - own - _up_to_date(step, held, found))
        found |= dict.fromkeys([name for name in step.table_names if behind], behind)
        moved |= dict.fromkeys(step.table_names, reached)
    return found


def _up_to_date(step: Step, held: DayRecords, behind: Days) -> set[date]:
    contents = {day: each.content for day, each in held.get(step.name, {}).items() if each.content is not None}
    found: set[date] = set()
    for version in step.versions:
        of_version = {day: each for day, each in contents.items() if each.code_version == version.name}
        found |= made_of(step, of_version, held) - reading(step, behind, version, filled_in_records([step], held))
    return found
