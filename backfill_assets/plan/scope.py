"""Which days of which steps a plan is about, and why each of them is rebuilt or skipped. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property

from backfill_assets.days import DayRange, TableDay
from backfill_assets.model.declaration import Step
from backfill_assets.plan.graph import obtainable, read_by, reading, upstream
from backfill_assets.plan.records import PlanRequest, Recommended, Scope, Why
from backfill_assets.plan.situation import PlanContext
from backfill_assets.plan.status import DayStatus, Statuses
from backfill_assets.text import format_ranges

Reasons = Mapping[date, Why | None]
"""Why each day is rebuilt; None for one that is skipped."""
_WHY = {
    DayStatus.MISSING: Why.MISSING,
    DayStatus.INPUT_CHANGED: Why.INPUT_CHANGED,
    DayStatus.CODE_CHANGED: Why.CODE_CHANGED,
    DayStatus.FOREIGN_WRITE: Why.FOREIGN_WRITE,
}
_ORDER = list(DayStatus)


@dataclass(frozen=True)
class RebuildScope:
    """The target's periods, and what is decided of each day of each step, in build order."""

    target: Step
    periods: frozenset[date]
    reasons: Mapping[str, Reasons]
    """By step."""
    statuses: Statuses
    """Of every day that is rebuilt, skipped or read."""
    _reads: dict[str, dict[str, set[date]]] = field(default_factory=dict)

    @cached_property
    def _rebuilt(self) -> dict[str, list[date]]:
        return {
            name: sorted(day for day, why in found.items() if why is not None) for name, found in self.reasons.items()
        }

    def rebuilt(self, step: Step) -> list[date]:
        return self._rebuilt.get(step.name, [])

    def reads(self, step: Step) -> Mapping[str, set[date]]:
        """The days of every table that the step's rebuilt days are computed from."""
        if step.name not in self._reads:
            self._reads[step.name] = read_by(step, self.rebuilt(step))
        return self._reads[step.name]


def choose(asked: PlanRequest, situation: PlanContext) -> RebuildScope:
    """``situation`` already has the version that was asked for as the target's current one."""
    target = situation.step_of(asked.target)
    periods = frozenset(target.cadence.starts(DayRange.parse(asked.days)))
    given = _given(asked, situation, target, periods)
    statuses = situation.statuses(_reach(situation, given))
    reasons = _DownstreamWalk(asked, situation, target, given, statuses).walk()
    return RebuildScope(target, periods, {name: found for name, found in reasons.items() if found}, statuses)


def _reach(situation: PlanContext, given: Mapping[str, set[date]]) -> DayRange:
    """From the first to the last day that could be built or read; computed from the ends of ranges alone."""
    ends: dict[str, tuple[date, date]] = {}
    read_ends: list[date] = []
    for step in situation.steps:
        reads = () if step.source else step.version().reads
        days = list(given.get(step.name, ()))
        for read in reads:
            if read.table in ends:
                first, last = ends[read.table]
                days += [first - timedelta(days=read.last), last - timedelta(days=read.first)]
        if days:
            built = step.cadence.start(min(days)), step.cadence.period(max(days)).last
            ends |= dict.fromkeys((table.name for table in step.tables), built)
            read_ends += [built[0] + timedelta(days=read.first) for read in reads]
    everything = [*read_ends, *(day for pair in ends.values() for day in pair)]
    return DayRange(min(everything), max(everything))


def build_order(steps: Sequence[Step]) -> list[Step]:
    """Each step after all that it reads; steps that could change places come by name."""
    by_table = {table.name: step for step in steps for table in step.tables}
    depth: dict[str, int] = {}
    for step in steps:
        reads = () if step.source else step.version().reads
        depth[step.name] = 1 + max((depth[by_table[read.table].name] for read in reads), default=-1)
    return sorted(steps, key=lambda step: (depth[step.name], step.name))


def _given(asked: PlanRequest, situation: PlanContext, target: Step, periods: frozenset[date]) -> dict[str, set[date]]:
    """The days that the plan starts from: the target's and, for the whole pipeline, those that they are computed from.

    Of a look back, only days that are published or can be built.
    """
    given = {target.name: set(periods)}
    if asked.scope is not Scope.WHOLE:
        return given
    needed = upstream(situation.steps, target, periods)
    demanded = upstream(situation.steps, target, periods, exactly=True)
    published = situation.published()
    for step in situation.steps:
        days = needed.get(step.name, set())
        if step.source:
            landed = situation.landed.get(step.name, {})
            there = {day for day in days if day in landed or TableDay(step.name, day) in published}
        else:
            there = obtainable(step, days, published)
        given.setdefault(step.name, set()).update(there | demanded.get(step.name, set()))
        published |= {TableDay(table.name, day) for table in step.tables for day in given[step.name]}
    return given


@dataclass
class _DownstreamWalk:
    """Walks downstream step by step, from the days that are rebuilt to those computed from them."""

    asked: PlanRequest
    situation: PlanContext
    target: Step
    given: Mapping[str, set[date]]
    statuses: Statuses
    spread: dict[str, set[date]] = field(default_factory=dict)
    """The days that the closure goes on from: the target's and what is computed from them, and what is rebuilt."""
    rebuilt: dict[str, set[date]] = field(default_factory=dict)

    def walk(self) -> dict[str, Reasons]:
        published = self.situation.published()
        found: dict[str, Reasons] = {}
        for step in self.situation.steps:
            given = self.given.get(step.name, set())
            around = self.situation.begun(step, reading(step, self.spread))
            reached = obtainable(step, around, published) if around else set()
            if not given | reached:
                continue
            published |= {TableDay(table.name, day) for table in step.tables for day in given | reached}
            reasons = self.reasons(step, given | reached)
            found[step.name] = reasons
            again = {day for day, why in reasons.items() if why is not None}
            spread = (given if step is self.target else set()) | reached | again
            self.rebuilt |= {table.name: again for table in step.tables}
            self.spread |= {table.name: spread for table in step.tables}
        return found

    def reasons(self, step: Step, days: set[date]) -> Reasons:
        if step is self.target and self.asked.scope is Scope.DOWNSTREAM:
            return {}
        if step.source:
            return {day: self.waiting(step, day) for day in days}
        worst = {day: self.worst(step, day) for day in days}
        fresh = {day for day, status in worst.items() if status is DayStatus.FRESH}
        again = reading(step, self.rebuilt) if fresh else set()
        otherwise = Why.ASKED_FOR if self.asked.force else None
        return {
            day: _WHY[status] if day not in fresh else (Why.INPUT_REBUILT if day in again else otherwise)
            for day, status in worst.items()
        }

    def worst(self, step: Step, day: date) -> DayStatus:
        """Tables that are built together are as stale as the worst of them."""
        found = [self.statuses[table.name].get(day, DayStatus.MISSING) for table in step.tables]
        return found[0] if len(found) == 1 else max(found, key=_ORDER.index)

    def waiting(self, step: Step, day: date) -> Why | None:
        """Why a raw day has something to ingest; None otherwise: raw is appended to, never rebuilt."""
        landed = self.situation.landed.get(step.name, {}).get(day)
        if landed and landed.waiting:
            return Why.LANDED
        return Why.MISSING if self.situation.content(step.name, day) is None else None


_FINE = (DayStatus.FRESH, DayStatus.MISSING)


def recommend(chosen: RebuildScope, situation: PlanContext) -> Recommended | None:
    """The scope that fits the changes; None without any. A gap in a look back is no change: reference data has gaps."""
    needed = upstream(situation.steps, chosen.target, chosen.periods)
    demanded = upstream(situation.steps, chosen.target, chosen.periods, exactly=True)
    for step in situation.steps:
        changed = _changed(step, needed.get(step.name, ()), demanded.get(step.name, set()), chosen, situation)
        if changed:
            return Recommended(scope=Scope.WHOLE, because=_because(step, changed))
    own = _changed(chosen.target, chosen.periods, set(chosen.periods), chosen, situation)
    if own:
        return Recommended(scope=Scope.ONWARDS, because=_because(chosen.target, own))
    for step in situation.steps:
        below = [] if step is chosen.target else chosen.rebuilt(step)
        stale = _changed(step, below, set(below), chosen, situation)
        if stale:
            return Recommended(scope=Scope.DOWNSTREAM, because=_because(step, stale))
    return None


def _changed(
    step: Step, days: Iterable[date], demanded: set[date], chosen: RebuildScope, situation: PlanContext
) -> dict[date, str]:
    found = {}
    landed = situation.landed.get(step.name, {})
    for day in sorted(days):
        status = max((chosen.statuses[table.name].get(day, DayStatus.FRESH) for table in step.tables), key=_severity)
        if day in landed and landed[day].waiting:
            found[day] = "landed and not taken in"
        elif status not in _FINE or (status is DayStatus.MISSING and day in demanded):
            found[day] = status.value
    return found


def _severity(status: DayStatus) -> int:
    return list(DayStatus).index(status)


def _because(step: Step, changed: dict[date, str]) -> str:
    what = next(iter(changed.values()))
    return f"{step.name} is {what} on {format_ranges((day for day, status in changed.items() if status == what), 1)}"
