"""Findings that block a plan or call for care. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.lakehouse.main_table import schema_problems
from backfill_assets.model.current_versions import gone_text, gone_version
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import missing_inputs, reading, tables_as_of
from backfill_assets.plan.closed import closed_findings
from backfill_assets.plan.inputs import PlanInputs
from backfill_assets.plan.records import PlanFinding, PlannedStep, PlanRequest, Scope, as_ranges
from backfill_assets.plan.scope import RebuildScope
from backfill_assets.plan.situation import PlanContext
from backfill_assets.rebuild.decide import AS_PUBLISHED, published_days
from backfill_assets.state.closed import waiting_rows
from backfill_assets.state.diagnosis import Cause, in_a_word
from backfill_assets.state.edited_logic import EditedLogic
from backfill_assets.text import format_ranges

_SOON = timedelta(days=7)
_MOST_RANGES = 3
Severity = Literal["stops", "warns"]


@dataclass(frozen=True)
class Preflight:
    asked: PlanRequest
    chosen: RebuildScope
    steps: tuple[PlannedStep, ...]
    inputs: PlanInputs
    situation: PlanContext

    def findings(self) -> tuple[PlanFinding, ...]:
        found = [finding for check in _CHECKS for finding in check(self)]
        return tuple(sorted(found, key=lambda each: (each.severity, each.kind, each.table, each.days)))

    @property
    def days(self) -> DayRange:
        return DayRange.parse(self.asked.days)

    def planned_days(self) -> Iterator[tuple[Step, list[date]]]:
        for step in self.situation.steps:
            if days := self.chosen.rebuilt_days(step):
                yield step, days


def finding(
    severity: Severity, kind: str, message: str, next_step: str, table: str = "", days: Iterable[date] = ()
) -> PlanFinding:
    return PlanFinding(
        kind=kind, severity=severity, message=message, next_step=next_step, table=table, days=as_ranges(days)
    )


def _days_asked_for(seen: Preflight) -> Iterator[PlanFinding]:
    late = [day for day in seen.days if day >= seen.situation.today]
    early = [day for day in seen.days if day < seen.situation.begins]
    if late:
        message = f"{_days_text(late)} has not ended; today is {seen.situation.today} in UTC."
        yield finding("stops", "days not ended", message, "End the days with yesterday at the latest.", days=late)
    if early:
        message = f"{_days_text(early)} is before {seen.situation.begins}, the first day that can have data."
        yield finding("stops", "days before the beginning", message, "Begin the days there.", days=early)


def _unreadable(seen: Preflight) -> Iterator[PlanFinding]:
    for each in seen.situation.observed.unreadable.values():
        message = f"{each.table} cannot be read, so it and what is made of it is not planned: {each.why}."
        yield finding("warns", "table cannot be read", message, each.next_step, each.table)


def _gone_versions(seen: Preflight) -> Iterator[PlanFinding]:
    """Without a declared current version, it is unknown what is stale."""
    for step in (step for step in seen.situation.steps if step.name in seen.chosen.reasons):
        named = step.name == seen.chosen.target.name and seen.asked.version
        if not named and (version := gone_version(step, seen.situation.observed.switches)):
            message, hint = gone_text(step, version)
            yield finding("stops", "current version not declared", message, hint, step.name)


def _edited_logic(seen: Preflight) -> Iterator[PlanFinding]:
    yield from edited_in_place((step for step in seen.steps if step.days), seen.situation.edited)


def edited_in_place(steps: Iterable[PlannedStep], edited: Sequence[EditedLogic]) -> Iterator[PlanFinding]:
    for step in steps:
        for each in (each for each in edited if each.step == step.name):
            if step.kind == "rebuild" and step.version in ("", AS_PUBLISHED, each.version):
                yield finding("stops", Cause.EDITED_LOGIC.value, f"{each}.", each.next_step, each.step, each.days)


def _closed_days(seen: Preflight) -> Iterator[PlanFinding]:
    """A plan with nothing but closed days is not carried out."""
    situation, nothing_else = seen.situation, not any(seen.planned_days())
    waits = waiting_rows(situation.observed, situation.steps, situation.books) if seen.chosen.closed else {}
    for step in (step for step in situation.steps if step.name in seen.chosen.closed):
        whys = seen.chosen.closed[step.name]
        shut = situation.books.closings_of(step.table_names, whys)
        yield from closed_findings(step.name, whys, shut, waits, nothing_else=nothing_else)


def _source_days(seen: Preflight) -> Iterator[PlanFinding]:
    for step in seen.situation.steps:
        if step.source is None:
            continue
        landed = seen.situation.landed.get(step.name, {})
        planned = seen.chosen.reasons.get(step.name, {})
        # A day whose files were all withdrawn by the source is compared: nothing is missing.
        asked = {day for day, why in planned.items() if why not in (None, Cause.SOURCE_CHANGED)}
        absent = [day for day in planned if day in asked and not getattr(landed.get(day), "files", ())]
        absent = [] if step.source.replaced_whole else absent
        waiting = [day for day in seen.chosen.demanded.get(step.name, ()) if day in landed and landed[day].waiting]
        if absent:
            message = f"Nothing has landed for {step.source.name} on {_days_text(absent)}."
            hint = "Wait for the delivery, or land an empty file if a day really has no rows."
            yield finding("stops", "source days missing", message, hint, step.name, absent)
        if waiting and seen.asked.scope not in (Scope.WHOLE, Scope.SOURCE):
            message = f"Files of {step.source.name} have landed on {_days_text(waiting)} and were not taken in."
            hint = "Plan with --scope whole, or take them in first: the rebuild reads what is taken in."
            yield finding("warns", "source days incomplete", message, hint, step.name, waiting)


def _inputs_published(seen: Preflight) -> Iterator[PlanFinding]:
    there = published_days(seen.situation.observed.states)
    for step, days in seen.planned_days():
        for name in step.table_names:
            there.setdefault(name, set()).update(days)
        there |= {table: set(seen.chosen.filled[table]) for table in tables_as_of([step])}
        absent = {table: found - there.get(table, set()) for table, found in seen.chosen.reads(step).items()}
        suspects = days if tables_as_of([step]) else sorted(reading(step, absent).intersection(days))
        if held := missing_inputs(step, step.version(), suspects, there) if suspects else {}:
            needed = next(iter(held.values()))[0]
            message = f"{step.name} cannot be built on {_days_text(held)}: {needed} was never published."
            hint = "Build the input days first, or plan with --scope whole."
            yield finding("stops", "input days not published", message, hint, step.name, held)


def _inputs_sound(seen: Preflight) -> Iterator[PlanFinding]:
    for table, by_status in seen.inputs.unsound.items():
        for status, days in by_status.items():
            message = f"{table} is read as it is on {_days_text(days)}, which is {in_a_word(status)}."
            hint = "Plan with --scope whole to rebuild it as well, or look at it with backfill status."
            yield finding("warns", "input days not fresh", message, hint, table, days)


def _foreign_writes(seen: Preflight) -> Iterator[PlanFinding]:
    for step in seen.steps:
        if ranges := step.rebuild.get(Cause.FOREIGN_WRITE, ()):
            days = [day for day, why in step.why.items() if why is Cause.FOREIGN_WRITE]
            message = f"A writer that bypassed the publication log changed {step.name} on {', '.join(ranges)}."
            hint = "Find out first who it was. The rebuild replaces these rows; a rollback brings them back."
            yield finding("warns", Cause.FOREIGN_WRITE.value, message, hint, step.name, days)


def _schemas(seen: Preflight) -> Iterator[PlanFinding]:
    for step, _ in seen.planned_days():
        for table in step.tables:
            if table.name in seen.situation.schemas:
                declared = json.loads(seen.situation.declared_schemas[table.name])
                if problems := schema_problems(json.loads(seen.situation.schemas[table.name]), declared):
                    message = f"What would be staged does not fit the table {table.name}: {'; '.join(problems)}."
                    hint = "A new nullable column is taken in; any other change rebuilds the table's whole history."
                    yield finding("stops", "schema", message, hint, table.name)


def _disk_space(seen: Preflight) -> Iterator[PlanFinding]:
    busy = [step for step in seen.steps if step.rebuild]
    unknown = ", ".join(step.name for step in busy if step.estimate.bytes_written is None)
    needed = sum(step.estimate.bytes_written or 0 for step in busy)
    free = seen.situation.machine.free_bytes
    if free is not None and 2 * needed > free:
        severity: Severity = "stops" if needed > free else "warns"
        more = f" and what {unknown} will write, which is unknown," if unknown else ""
        message = f"About {needed / 2**20:,.0f} MiB{more} will be written, and {free / 2**20:,.0f} MiB are free."
        hint = "Make room: what the days hold now is kept for the rollback window."
        yield finding(severity, "disk space", message, hint)


def _under_way(seen: Preflight) -> Iterator[PlanFinding]:
    """No rows would be lost, but the plan's basis will have moved."""
    touched = {name for step, _ in seen.planned_days() for name in step.table_names} | seen.inputs.days.keys()
    for name, writes in seen.situation.observed.writing.items():
        if common := sorted(writes & touched):
            message = f"The publication {name} is under way on {', '.join(common)}."
            yield finding("warns", "publication under way", message, "Plan again when it is closed.", common[0])
    for plan in seen.situation.open_plans:
        for step, days in seen.planned_days():
            if common_days := set(plan.rebuilds.get(step.name, ())) & set(days):
                message = f"{plan.id} is being carried out and rebuilds {step.name} on {_days_text(common_days)}."
                hint = "The plan that publishes first wins these days; the other one is refused and must be made again."
                yield finding("warns", "overlapping plan", message, hint, step.name, common_days)


def _cut_periods(seen: Preflight) -> Iterator[PlanFinding]:
    """Weeks and months with days that this plan rebuilds beside days of other code."""
    for step, days in seen.planned_days():
        if step.cadence is Cadence.DAILY or step.source:
            continue
        for read in step.version().reads:
            source = seen.situation.step_of(read.table)
            rebuilt = set(seen.chosen.rebuilt_days(source))
            mixed = [day for day in days if rebuilt and _other_code(seen, source, step.cadence.period(day), rebuilt)]
            if mixed:
                message = (
                    f"Mixed logic: {step.name} of {_days_text(mixed)} has days that the plan rebuilds by "
                    f"{source.version().name} of {source.name}, and days of other code that stay as they are."
                )
                periods = "weeks" if step.cadence is Cadence.WEEKLY else "months"
                hint = f"Widen --days to whole {periods}."
                if seen.asked.leaves:
                    hint = f"Build the other days of these {periods} on the timeline, too: backfill run TABLE --on."
                yield finding("warns", "cut period", message, hint, step.name, mixed)


def _other_code(seen: Preflight, source: Step, period: DayRange, rebuilt: set[date]) -> bool:
    days = set(period)
    contents = (seen.situation.observed.content(TableDay(source.name, day)) for day in days - rebuilt)
    return bool(days & rebuilt) and any(each and each.code_version != source.version().name for each in contents)


def _retention(seen: Preflight) -> Iterator[PlanFinding]:
    for pinned in seen.inputs.pinned:
        if pinned.files_may_go and pinned.files_may_go < seen.situation.now + _SOON:
            message = f"Files of version {pinned.version} of {pinned.table} may go on {pinned.files_may_go:%Y-%m-%d}."
            hint = "Carry the plan out before that, or make it again."
            yield finding("warns", "retention", message, hint, pinned.table)


_CHECKS = (
    _unreadable,
    _days_asked_for,
    _gone_versions,
    _edited_logic,
    _closed_days,
    _source_days,
    _inputs_published,
    _inputs_sound,
    _foreign_writes,
    _schemas,
    _disk_space,
    _under_way,
    _cut_periods,
    _retention,
)


def _days_text(days: Collection[date]) -> str:
    return format_ranges(days, _MOST_RANGES)
