"""What a decision does about each day and cause; and first builds, which no incident records. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from backfill_assets.days import TableDay
from backfill_assets.state.diagnosis import Action, Cause
from backfill_assets.upkeep.findings import WrongDay
from backfill_assets.upkeep.for_people import ManualAction
from backfill_assets.upkeep.incidents import Incident, RepairAttempt
from backfill_assets.upkeep.repair import Repair, RepairDecision
from backfill_assets.upkeep.trouble import StaleDay

What = tuple[TableDay, Cause]


@dataclass(frozen=True)
class Wanted:
    launched: Mapping[What, Sequence[tuple[Repair, StaleDay]]]
    later: frozenset[What]
    left_to: Mapping[What, str]
    people: Mapping[What, ManualAction]
    with_others: Mapping[TableDay, str] = field(default_factory=dict)

    @classmethod
    def of(cls, decision: RepairDecision, under_way: Iterable[RepairAttempt] = ()) -> Wanted:
        def what(trouble: StaleDay) -> What:
            return trouble.key, trouble.cause

        launched: dict[What, list[tuple[Repair, StaleDay]]] = {}
        for repair in decision.launch:
            for trouble in repair.troubles:
                launched.setdefault(what(trouble), []).append((repair, trouble))
        people = {
            (TableDay(action.table, day), action.diagnosis.cause): action
            for action in decision.for_people
            if action.diagnosis
            for day in action.days
        }
        left_to = {what(each): plan for each, plan in decision.left_to.items()}
        repairs: list[Repair | RepairAttempt] = [*decision.launch, *under_way]
        built = {TableDay(table, day): each.id for each in repairs for table, days in each.days.items() for day in days}
        return cls(launched, frozenset(map(what, decision.later)), left_to, people, built)

    @property
    def acted_on(self) -> set[What]:
        return {*self.launched, *self.later, *self.left_to, *self.people}

    def attempts(self, found: Iterable[WrongDay], now: datetime) -> list[RepairAttempt]:
        repairs: dict[str, tuple[Repair, list[StaleDay]]] = {}
        for each in found:
            for repair, trouble in self.launched.get(each.what, ()):
                repairs.setdefault(repair.id, (repair, []))[1].append(trouble)
        return [attempt_of(repair, troubles, now) for repair, troubles in repairs.values()]

    def rebuilt_by(self, found: Sequence[WrongDay]) -> str:
        if plan := next((self.left_to[each.what] for each in found if each.what in self.left_to), ""):
            return plan
        if any(each.what in self.acted_on or each.diagnosis.helps is not Action.REBUILD for each in found):
            return ""
        return next((self.with_others[each.key] for each in found if each.key in self.with_others), "")

    def person(self, found: Sequence[WrongDay]) -> ManualAction | None:
        if any(each.what in self.launched or each.what in self.later for each in found):
            return None
        return next((action for each in found if (action := self.people.get(each.what))), None)


def attempt_of(repair: Repair, troubles: Sequence[StaleDay], now: datetime) -> RepairAttempt:
    return RepairAttempt(
        id=repair.id,
        at=now,
        title=repair.title,
        description=repair.description,
        days=repair.days,
        force=repair.force,
        restores=repair.restores,
        evidence={each.day: each.evidence for each in troubles},
        core_seconds=repair.core_seconds,
    )


def unrecorded(decision: RepairDecision, incidents: Sequence[Incident], now: datetime) -> list[RepairAttempt]:
    """First builds, which are no fault; the same days have the same id and are launched once."""
    known = {each.id for incident in incidents for each in (*incident.attempts, *incident.following)}
    return [attempt_of(each, each.troubles, now) for each in decision.launch if each.id not in known]


def first_builds(decision: RepairDecision, now: datetime) -> list[RepairAttempt]:
    growing = {each.key for each in decision.findings if each.growing}
    builds = (each for each in decision.launch if growing.issuperset(trouble.key for trouble in each.troubles))
    return [attempt_of(each, each.troubles, now) for each in builds]


def with_failed_builds(decision: RepairDecision, ended: Iterable[str]) -> RepairDecision:
    over = {trouble.key for each in decision.launch if each.id in set(ended) for trouble in each.troubles}
    found = tuple(replace(each, growing=False) if each.key in over else each for each in decision.findings)
    return replace(decision, findings=found) if over else decision
