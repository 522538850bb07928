"""What a plan was computed from, and what of that has moved: then the plan is refused. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.landing.zone import LandedDay
from backfill_assets.model.graph import step_by_table
from backfill_assets.plan.records import Fingerprints, Plan, PlanFingerprint, PlannedStep, as_ranges, days_of
from backfill_assets.plan.situation import PlanContext
from backfill_assets.text import format_count

_TAKES_IN = "takes in"


@dataclass(frozen=True)
class MovedTable:
    table: str
    role: str
    days: tuple[date, ...]
    version_was: int | None
    version: int | None

    def __str__(self) -> str:
        ranges = ", ".join(as_ranges(self.days)[:6])
        versions = "" if self.version_was == self.version else f" (version {self.version_was} -> {self.version})"
        return (
            f"{self.table}: {format_count(len(self.days), 'day')} that the plan {self.role} moved: {ranges}{versions}"
        )


@dataclass(frozen=True)
class PlanDrift:
    tables: tuple[MovedTable, ...] = ()
    code: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables or self.code)

    def lines(self) -> list[str]:
        return [*map(str, self.tables), *self.code]

    @property
    def days(self) -> frozenset[TableDay]:
        """Leaves out days of the landing zone."""
        moved = (each for each in self.tables if each.role != _TAKES_IN)
        return frozenset(TableDay(each.table, day) for each in moved for day in each.days)

    def without(self, days: Collection[TableDay]) -> PlanDrift:
        left = [
            replace(each, days=tuple(day for day in each.days if TableDay(each.table, day) not in days))
            for each in self.tables
            if each.role != _TAKES_IN
        ]
        landed = [each for each in self.tables if each.role == _TAKES_IN]
        return replace(self, tables=(*(each for each in left if each.days), *landed))


def drift_since(plan: Plan, now: PlanContext) -> PlanDrift:
    """Days that the plan writes or reads whose content moved since it was made, and steps with other code now.
    Compaction and identical rebuilds move nothing.
    """
    ordered = now.with_version(plan.asked.target, plan.asked.version)
    read = {pinned.table: set(days_of(pinned.days)) for pinned in plan.pinned}
    found = basis_of(plan.steps, read, ordered)
    was = plan.basis
    tables = [
        MovedTable(table, role, days, was.versions.get(table), found.versions.get(table))
        for role, before, after in (
            ("rebuilds", was.written, found.written),
            ("reads", was.read, found.read),
            (_TAKES_IN, was.landed, found.landed),
        )
        for table, days in _different(before, after)
    ]
    code = [
        f"{step}: the plan was made for {version}, and the code has {found.code.get(step, 'no such step')} now"
        for step, version in was.code.items()
        if found.code.get(step) != version
    ]
    return PlanDrift(tuple(tables), tuple(code))


def basis_of(
    steps: Sequence[PlannedStep], read: Mapping[str, Iterable[date]], situation: PlanContext
) -> PlanFingerprint:
    built = {step.name: step.all_days for step in steps if step.kind == "rebuild"}
    written = {
        table: {str(day): _content_hash(table, day, situation) for day in built[step.name]}
        for step in steps
        if step.name in built
        for table in step.tables
    }
    known = step_by_table(situation.steps)
    return PlanFingerprint(
        sequence=situation.observed.sequence,
        versions={
            table: version
            for table, version in situation.observed.versions.items()
            if table in written or table in read or any(table in step.tables for step in steps)
        },
        written=written,
        read={
            table: {str(day): _short(situation.observed.logical(TableDay(table, day))) for day in sorted(read[table])}
            for table in read
        },
        code={
            step.name: known[step.name].version().name for step in steps if step.name in built and step.name in known
        },
        landed={step.name: _landed_hashes(step, situation) for step in steps if step.kind == "take in"},
    )


def _content_hash(table: str, day: date, situation: PlanContext) -> str:
    content = situation.observed.content(TableDay(table, day))
    made_of = f"{content.code_version} {content.parameters} {content.inputs}" if content else ""
    return _short(f"{situation.observed.logical(TableDay(table, day))} {made_of}")


def _landed_hashes(step: PlannedStep, situation: PlanContext) -> dict[str, str]:
    landed = situation.landed.get(step.name, {})
    found = {day: landed.get(day, LandedDay(())) for day in step.all_days}
    return {str(day): _short("\n".join(filter(None, (*of.waiting, of.contents)))) for day, of in found.items()}


def _different(before: Fingerprints, after: Fingerprints) -> list[tuple[str, tuple[date, ...]]]:
    found = []
    for table in sorted(before.keys() | after.keys()):
        was, now = before.get(table, {}), after.get(table, {})
        days = [day for day in was.keys() | now.keys() if was.get(day) != now.get(day)]
        if days:
            found.append((table, tuple(sorted(map(date.fromisoformat, days)))))
    return found


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
