"""What a plan reads and does not rebuild. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.days import DayRange, TableDay, all_days
from backfill_assets.lakehouse import fingerprints
from backfill_assets.model.declaration import AsOf, Step
from backfill_assets.model.graph import days_before
from backfill_assets.plan.records import Ahead, Lookback, Pinned, PlannedBoundary, as_ranges
from backfill_assets.plan.scope import RebuildScope
from backfill_assets.plan.situation import PlanContext
from backfill_assets.state.boundaries import DaysBoundary
from backfill_assets.state.diagnosis import OTHER_CODE, Cause


@dataclass(frozen=True)
class PlanInputs:
    days: Mapping[str, set[date]] = field(default_factory=dict)
    pinned: tuple[Pinned, ...] = ()
    as_of: tuple[Lookback, ...] = ()
    unsound: Mapping[str, Mapping[Cause, list[date]]] = field(default_factory=dict)


def inputs_of(chosen: RebuildScope, situation: PlanContext) -> PlanInputs:
    read = all_days(map(chosen.reads, situation.steps))
    open_days = all_days(_open_days(step, chosen) for step in situation.steps)
    less = (
        (table, days.difference(chosen.rebuilt_days(situation.step_of(table))))
        for table, days in sorted(all_days([read, open_days]).items())
    )
    days = {table: found for table, found in less if found}
    return PlanInputs(
        days=days,
        pinned=tuple(_pin_of(table, found, found & read[table], situation) for table, found in days.items()),
        as_of=tuple(_looking_back(chosen, situation)),
        unsound=_unsound(days, chosen, situation),
    )


def _open_days(step: Step, chosen: RebuildScope) -> dict[str, set[date]]:
    """Days between the state that ``AsOf`` reads and the reading day: rows that come there would be read instead."""
    found: dict[str, set[date]] = {}
    for read in (each for each in step.reads if isinstance(each, AsOf)):
        for day in chosen.rebuilt_days(step):
            counted = read.counted(DayRange.of(day), chosen.filled[read.table])
            found.setdefault(read.table, set()).update(*(DayRange(state, day) for state in counted))
    return found


def _pin_of(table: str, days: set[date], read: set[date], situation: PlanContext) -> Pinned:
    version = situation.observed.versions.get(table)
    absent = {day for day in read if not _is_published(situation, table, day)} if version is not None else ()
    return Pinned(
        table=table,
        version=version,
        days=as_ranges(days),
        files_may_go=situation.files_may_go.get(table),
        in_place=situation.in_place.get(table, ""),
        absent=as_ranges(absent),
    )


def _looking_back(chosen: RebuildScope, situation: PlanContext) -> Iterator[Lookback]:
    for step in situation.steps:
        for read in step.reads if chosen.rebuilt_days(step) else ():
            if isinstance(read, AsOf):
                yield _as_of(step, read, chosen)
            elif read.first < 0:
                back = chosen.reads(step)[read.table]
                built = set(chosen.rebuilt_days(situation.step_of(read.table)))
                there = {day for day in back if day in built or _is_published(situation, read.table, day)}
                yield Lookback(
                    step=step.name,
                    table=read.table,
                    first=read.first,
                    last=read.last,
                    days=as_ranges(there),
                    absent=as_ranges(back - there),
                )


def _as_of(step: Step, read: AsOf, chosen: RebuildScope) -> Lookback:
    held: dict[date, list[date]] = {}
    for day in chosen.rebuilt_days(step):
        for state in read.counted(DayRange.of(day), chosen.filled[read.table]):
            held.setdefault(state, []).append(day)
    states = {str(state): as_ranges(days) for state, days in sorted(held.items())}
    return Lookback(
        step=step.name, table=read.table, first=read.first, last=read.last, days=as_ranges(held), states=states
    )


def _is_published(situation: PlanContext, table: str, day: date) -> bool:
    return situation.observed.logical(TableDay(table, day)) != fingerprints.NEVER_PUBLISHED


def ahead_of(chosen: RebuildScope, situation: PlanContext) -> tuple[Ahead, ...]:
    """Days that a plan which goes newest first rebuilds before their turn."""
    found = []
    for step in situation.steps:
        days = chosen.rebuilt_days(step)
        for read in step.reads if days else ():
            built = chosen.rebuilt_days(situation.step_of(read.table))
            earlier = days_before(step, read, days).intersection(built, chosen.reads(step)[read.table])
            if read.first < 0 and earlier:
                found.append(Ahead(step=step.name, table=read.table, days=as_ranges(earlier)))
    return tuple(found)


def _unsound(
    days: Mapping[str, set[date]], chosen: RebuildScope, situation: PlanContext
) -> dict[str, dict[Cause, list[date]]]:
    """Other code is accepted if the plan rebuilds other days of the table: ``_cut_periods`` reports it."""
    unsound: dict[str, dict[Cause, list[date]]] = {}
    for table, found in days.items():
        expected = {Cause.MISSING}
        expected |= OTHER_CODE if chosen.rebuilt_days(situation.step_of(table)) else set()
        for day in sorted(found):
            status = chosen.statuses[table].get(day, Cause.MISSING)
            if status is not None and status not in expected:
                unsound.setdefault(table, {}).setdefault(status, []).append(day)
    return unsound


def planned_boundaries(found: Iterable[DaysBoundary]) -> tuple[PlannedBoundary, ...]:
    return tuple(
        PlannedBoundary(
            tables=each.tables,
            days=as_ranges(each.days),
            raw=each.boundary.table,
            versions=each.boundary.versions,
            positions=each.boundary.positions,
        )
        for each in found
        if each.boundary.is_streamed
    )
