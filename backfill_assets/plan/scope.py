"""Which days of which steps a plan covers, and why. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from types import MappingProxyType

from backfill_assets.days import DayRange, TableDay
from backfill_assets.lakehouse.records import is_adopted
from backfill_assets.landing.zone import LandedDay
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import (
    Days,
    Filled,
    Presence,
    read_by,
    reading,
    upstream,
    walk_downstream,
)
from backfill_assets.plan.records import (
    Estimate,
    PlannedStep,
    PlanRequest,
    Recommended,
    Scope,
    SourceFiles,
    as_ranges,
    days_of,
)
from backfill_assets.plan.situation import PlanContext
from backfill_assets.rebuild.decide import published_days
from backfill_assets.state.diagnosis import Cause, gravest, in_a_word
from backfill_assets.state.status import Statuses, day_statuses
from backfill_assets.text import format_ranges

Reasons = Mapping[date, Cause | None]
"""None for a skipped day."""
_NOT_ESTIMATED = Estimate()


@dataclass(frozen=True)
class RebuildScope:
    target: Step
    periods: frozenset[date]
    reasons: Mapping[str, Reasons]
    statuses: Statuses
    needed: Days
    """All inputs of the target's periods, direct or not, by step."""
    demanded: Days
    """Days of ``needed`` that may not be absent; days of a look back may."""
    filled: Filled = field(default_factory=dict)
    """Days with rows of tables read by ``AsOf``, after the plan."""
    closed: Mapping[str, Mapping[date, Cause]] = field(default_factory=dict)
    """Days that are left out because they are closed, and why they would be built, by step."""
    _reads: dict[str, dict[str, set[date]]] = field(default_factory=dict)

    @cached_property
    def _rebuilt_by_step(self) -> dict[str, list[date]]:
        return {
            name: sorted(day for day, why in found.items() if why is not None) for name, found in self.reasons.items()
        }

    def rebuilt_days(self, step: Step) -> list[date]:
        return self._rebuilt_by_step.get(step.name, [])

    def reads(self, step: Step) -> Mapping[str, set[date]]:
        if step.name not in self._reads:
            self._reads[step.name] = read_by(step, self.rebuilt_days(step), filled=self.filled)
        return self._reads[step.name]


def choose(asked: PlanRequest, situation: PlanContext) -> RebuildScope:
    """``situation`` has the requested version as the target's current one."""
    target = situation.step_of(asked.target)
    periods = frozenset(target.cadence.starts(DayRange.parse(asked.days))).difference(days_of(asked.leaves))
    needed = upstream(situation.steps, target, periods)
    demanded = upstream(situation.steps, target, periods, exactly=True)
    given = {target.name: set(periods)}
    if asked.scope in (Scope.WHOLE, Scope.SOURCE):
        given |= _obtainable(situation, needed, demanded)
    statuses = day_statuses(situation.steps, situation.observed, _reach(situation, given, needed))
    reasoning = _Reasoning(asked, situation, target, given, statuses)
    reasons = {name: found for name, found in reasoning.by_step().items() if found}
    filled, closed = _filled(situation, reasons), reasoning.closed
    return RebuildScope(target, periods, reasons, statuses, needed, demanded, filled, closed)


def _filled(situation: PlanContext, reasons: Mapping[str, Reasons]) -> Filled:
    """Days with rows and days to build; for what is landed whole, only days on which it has landed."""
    found = {}
    for table, days in situation.observed.filled(situation.steps).items():
        step = situation.step_of(table)
        built = {day for day, why in reasons.get(step.name, {}).items() if why is not None}
        for raw in (situation.step_of(read.table) for read in step.reads):
            if raw.source and raw.source.replaced_whole:
                landed = situation.landed.get(raw.name, {})
                built = {day for day in built if day in landed and landed[day].files}
        found[table] = sorted(built.union(days))
    return found


def _reach(situation: PlanContext, given: Days, needed: Days) -> DayRange:
    """Days that could be built or read, from ends of ranges alone. Rebuilding needs ``given``, recommending a scope all
    ``needed``.
    """

    def visit(step: Step, own: set[date], readers: set[date]) -> set[date]:
        days = own | readers
        return {step.cadence.start(min(days)), step.cadence.period(max(days)).last} if days else set()

    ends = walk_downstream(situation.steps, given, visit)
    built = [(step, ends[step.name]) for step in situation.steps if step.name in ends]
    read = (day for step, days in built for found in read_by(step, days).values() for day in found)
    above = (day for days in needed.values() if days for day in (min(days), max(days)))
    everything = {day for _, days in built for day in days}.union(read, above)
    return DayRange(min(everything), max(everything))


def _obtainable(situation: PlanContext, needed: Days, demanded: Days) -> dict[str, set[date]]:
    """The demanded days, and other needed days that are published, have landed or can be built."""
    there, found = Presence(published_days(situation.observed.states)), {}
    for step in situation.steps:
        days = set(needed.get(step.name, ()))
        landed = days.intersection(situation.landed.get(step.name, ())) if step.source else set()
        if days:
            found[step.name] = landed.union(there.obtainable(step, days), demanded.get(step.name, ()))
            there.add(step, found[step.name])
    return found


@dataclass(frozen=True)
class _Reasoning:
    asked: PlanRequest
    situation: PlanContext
    target: Step
    given: Days
    statuses: Statuses
    rebuilt: dict[str, set[date]] = field(default_factory=dict)
    closed: dict[str, dict[date, Cause]] = field(default_factory=dict)

    def by_step(self) -> dict[str, Reasons]:
        there = Presence(published_days(self.situation.observed.states))
        found: dict[str, Reasons] = {}

        def visit(step: Step, own: set[date], readers: set[date]) -> set[date]:
            reached = there.obtainable(step, self.situation.begun_periods(step, readers))
            there.add(step, own | reached)
            found[step.name] = self.reasons(step, own | reached)
            again = {day for day, why in found[step.name].items() if why is not None}
            self.rebuilt.update(dict.fromkeys(step.table_names, again))
            return reached | again | (own if step is self.target else set())

        walk_downstream(self.situation.steps, self.given, visit, self.reading)
        return found

    def reading(self, step: Step, changed: Days) -> set[date]:
        return reading(step, changed, filled=self.situation.observed.filled([step]))

    def reasons(self, step: Step, days: set[date]) -> Reasons:
        if step is self.target and self.asked.scope is Scope.DOWNSTREAM:
            return {}
        if step.source:
            return {day: self.waiting(step, day) for day in days}
        if step.external:
            return dict.fromkeys(days)
        worst = {day: worst_status(step, day, self.statuses) for day in days}
        again = self.reading(step, self.rebuilt) if None in worst.values() else set()
        named = self.asked.where and step is self.target
        otherwise = Cause.ASKED_FOR if self.asked.force or named else None

        def fresh(day: date) -> Cause | None:
            if is_adopted(self.situation.observed.states, step.table_names, day):
                asked = day in self.given.get(step.name, ()) and (step is self.target or self.asked.force)
                return Cause.ADOPTED if asked else None
            return Cause.INPUT_REBUILT if day in again else otherwise

        return self.without_closed(step, {day: status or fresh(day) for day, status in worst.items()})

    def without_closed(self, step: Step, reasons: Reasons) -> Reasons:
        """Closed days stay as they are, and so do their readers."""
        shut = self.situation.books.closings_of(step.table_names, reasons)
        if left := {day: why for day, why in reasons.items() if day in shut and why is not None}:
            self.closed[step.name] = left
        return {day: None if day in left else why for day, why in reasons.items()}

    def waiting(self, step: Step, day: date) -> Cause | None:
        absent = Cause.MISSING if self.situation.observed.content(TableDay(step.name, day)) is None else None
        return _why_landed(self.situation.landed.get(step.name, {}).get(day)) or absent


def _why_landed(landed: LandedDay | None) -> Cause | None:
    if landed is None:
        return None
    if landed.changed or landed.gone:
        return Cause.SOURCE_CHANGED
    return Cause.LANDED if landed.waiting else None


def worst_status(step: Step, day: date, statuses: Statuses) -> Cause | None:
    return gravest(statuses[name].get(day, Cause.MISSING) for name in step.table_names)


def planned_step(
    step: Step,
    reasons: Reasons,
    estimate: Estimate = _NOT_ESTIMATED,
    landed: Mapping[date, LandedDay] = MappingProxyType({}),
) -> PlannedStep:
    by_reason: dict[Cause | None, list[date]] = {}
    for day, why in reasons.items():
        by_reason.setdefault(why, []).append(day)
    return PlannedStep(
        tables=step.table_names,
        version=step.current,
        cadence=step.cadence,
        kind="take in" if step.source else "rebuild",
        rebuild={why: as_ranges(by_reason[why]) for why in Cause if why in by_reason},
        skipped=as_ranges(by_reason.get(None, ())),
        estimate=estimate,
        source_files={
            day: SourceFiles(changed=len(found.changed), gone=len(found.gone), new=len(found.waiting))
            for day in sorted(reasons)
            if (found := landed.get(day)) is not None and (found.changed or found.gone)
        },
    )


def recommend(chosen: RebuildScope, situation: PlanContext) -> Recommended | None:
    """Returns None without changes. A gap in a look back is no change: reference data has gaps."""
    target, steps = chosen.target, situation.steps
    built = {step.name: set(chosen.rebuilt_days(step)) for step in steps if step is not target}
    places = [
        *((Scope.WHOLE, step, chosen.needed, chosen.demanded) for step in steps),
        (Scope.ONWARDS, target, {target.name: chosen.periods}, {target.name: chosen.periods}),
        *((Scope.DOWNSTREAM, step, built, built) for step in steps),
    ]
    for scope, step, days, demanded in places:
        if changed := _changed_days(step, days.get(step.name, ()), demanded.get(step.name, ()), chosen, situation):
            again = scope is Scope.WHOLE and Cause.SOURCE_CHANGED in changed.values()
            return Recommended(scope=Scope.SOURCE if again else scope, because=_because(step, changed))
    return None


def _changed_days(
    step: Step, days: Collection[date], demanded: Collection[date], chosen: RebuildScope, situation: PlanContext
) -> dict[date, Cause]:
    found: dict[date, Cause] = {}
    for day in sorted(days):
        status = gravest(chosen.statuses[name].get(day) for name in step.table_names)
        if why := _why_landed(situation.landed.get(step.name, {}).get(day)):
            found[day] = why
        elif status is not None and (status is not Cause.MISSING or day in demanded):
            found[day] = status
    return found


def _because(step: Step, changed: dict[date, Cause]) -> str:
    what = min(changed.values(), key=lambda status: status is not Cause.SOURCE_CHANGED)
    days = (day for day, status in changed.items() if status is what)
    return f"{step.name} is {in_a_word(what)} on {format_ranges(days, 1)}"
