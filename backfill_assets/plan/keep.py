"""Reads what a plan needs; makes, keeps and re-checks plans."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime

from backfill_assets import clock
from backfill_assets.days import DayRange, TableDay, all_days
from backfill_assets.errors import InvalidRequest
from backfill_assets.external.files import bytes_of_others
from backfill_assets.external.observe import observe_tables, read_in_place, tables_of_others
from backfill_assets.lakehouse import campaign_journal
from backfill_assets.lakehouse.campaign_reports import ByPerson
from backfill_assets.lakehouse.plans import keep_plan, kept_plan, planners
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandedDay, LandingZone, landed_days
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import expand_tables, steps_of, upstream
from backfill_assets.model.row_filter import read_filter
from backfill_assets.plan.basis import PlanDrift, drift_since
from backfill_assets.plan.inputs import planned_boundaries
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import Plan, PlannedStep, PlanRequest, Scope, days_of
from backfill_assets.plan.situation import Machine, PlanContext
from backfill_assets.publish.closed_days import closed_text
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.changed_files import compare_days
from backfill_assets.rebuild.outcome import UNKNOWN, Person
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.settings import Settings
from backfill_assets.state.boundaries import merge_tables
from backfill_assets.state.campaigns import NewestEntries, plans_under_way
from backfill_assets.state.damage import files_may_go, free_bytes
from backfill_assets.state.edited_logic import contents_of, edited_logic
from backfill_assets.state.observed import LogView, gc_paused, observe_each, schemas_read
from backfill_assets.state.positions import read_boundaries
from backfill_assets.state.stream_positions import moved_by_streams
from backfill_assets.state.view import View

_TIMED_CAMPAIGNS = 5
"""Each timed campaign costs reading some 15 small files."""


def observe_context(
    settings: Settings,
    catalog: Catalog,
    target: str,
    days: DayRange,
    pinned: Mapping[str, int] | None = None,
    *,
    read_files: bool = False,
) -> PlanContext:
    """``pinned``: versions that a plan already names.

    ``read_files``: compare landed content with raw, not only names.
    """
    storage, now = Storage(str(settings.lakehouse)), clock.now().replace(microsecond=0)
    step, dataset = catalog.step(target), catalog.dataset_of(target)
    declared = catalog.steps_with(dataset.name)
    observed = observe_each(storage, [table.name for step in declared for table in step.tables])
    observed.require_decided(declared, [target])
    steps = observed.readable(observed.with_current(declared))
    schemas = schemas_read(storage, observed)
    known = observed.versions if pinned is None else pinned
    versions = {table: version for table, version in known.items() if table not in observed.unreadable}
    return PlanContext(
        steps=steps,
        observed=observed,
        begins=dataset.first_day,
        now=now,
        bytes={**observed.bytes, **bytes_of_others(steps, observed.states)},
        schemas=schemas,
        declared_schemas=declared_schemas(steps, schemas),
        landed=_landed_days(settings, storage, steps, step, days, read_files=read_files),
        files_may_go=files_may_go(storage, versions, settings.rollback_window_days, now),
        in_place=read_in_place(storage, steps, versions),
        journals=campaign_journal.newest(storage, _TIMED_CAMPAIGNS),
        open_plans=open_plans(storage),
        edited=edited_logic(storage, steps, contents_of(observed.states)),
        machine=Machine(os.cpu_count() or 1, settings.core_hour_price, free_bytes(storage)),
        rollback_window_days=settings.rollback_window_days,
    )


def open_plans(storage: Storage, newest: NewestEntries | None = None) -> list[Plan]:
    """Skips plans that are missing, changed or of other code: they must not block everything else."""
    found = []
    for id in plans_under_way(PublicationLog(storage), newest):
        with suppress(InvalidRequest):
            found.append(Plan.from_json(kept_plan(storage, id), id=id))
    return found


def declared_schemas(steps: Iterable[Step], tables: Container[str]) -> dict[str, str]:
    """Schemas of the contracts, as Delta's JSON."""
    declared = [table for step in steps for table in step.tables if table.name in tables]
    return {table.name: struct_type(table.contract).json() for table in declared}


def observe_context_of(settings: Settings, catalog: Catalog, plan: Plan) -> PlanContext:
    versions = {each.table: each.version for each in plan.pinned if each.version is not None}
    days, refreshes = DayRange.parse(plan.asked.days), plan.asked.scope is Scope.SOURCE
    return observe_context(settings, catalog, plan.asked.target, days, versions, read_files=refreshes)


def _landed_days(
    settings: Settings, storage: Storage, steps: Sequence[Step], step: Step, days: DayRange, *, read_files: bool
) -> dict[str, dict[date, LandedDay]]:
    starts = step.cadence.starts(days)
    every_version = [replace(step, current=version.name) for version in step.versions] or [step]
    needed = all_days([{step.name: starts}, *(upstream(steps, each, starts) for each in every_version)])
    zone = LandingZone(settings.landing)
    listed = {
        each.name: landed_days(zone, storage, each.source, each.name, needed.get(each.name, set()))
        for each in steps
        if each.source
    }
    if not read_files:
        return listed
    sources = {each.name: each.source for each in steps if each.source}
    return {table: compare_days(zone, storage, sources[table], table, found) for table, found in listed.items()}


def rebuilt_steps(plan: Plan) -> list[PlannedStep]:
    return [each for each in plan.steps if each.kind == "rebuild" and each.days]


def shadow_steps(catalog: Catalog, plan: Plan, days: Mapping[str, tuple[date, ...]] | None = None) -> list[StepRequest]:
    """Steps to stage, in the versions that the plan names. ``days``: by step; default all."""
    steps = rebuilt_steps(plan)
    chosen = {each.name: each.days for each in steps} if days is None else days
    found = [(catalog.step(each.name), each.version) for each in steps if each.name in chosen]
    asked = plan.asked
    only = read_filter(asked.where, catalog.table(asked.target)) if asked.where else None
    return [
        StepRequest(
            step,
            chosen[step.name],
            version,
            newest_first=asked.newest_first,
            only=only if asked.target in step.table_names else None,
        )
        for step, version in found
    ]


def plan_and_keep(
    settings: Settings, catalog: Catalog, asked: PlanRequest, by: Person = UNKNOWN
) -> tuple[Plan, datetime]:
    """Keeps the plan, and its planner ``by`` if known. Raises like :func:`plan_as_of_now`."""
    storage = Storage(str(settings.lakehouse))
    _look_at_tables_of_others(settings, storage, catalog, asked.target)
    made, now = plan_as_of_now(settings, catalog, asked)
    if by:
        planners(storage).create(made.id, ByPerson(who=by.name, known_by=by.known_by))
    keep_plan(storage, made.id, made.to_json())
    return made, now


def _look_at_tables_of_others(settings: Settings, storage: Storage, catalog: Catalog, target: str) -> None:
    """Publishes what moved in tables of others that ``target`` reads: the plan includes it."""
    above = expand_tables(catalog.steps, [target], upstream=True) if target in catalog.table_names else []
    if others := tables_of_others(steps_of(catalog.steps, above), catalog.datasets):
        observe_tables(Publisher(storage, retention_days=settings.rollback_window_days), others)


def planned_by(storage: Storage, id: str) -> Person:
    """The person who made it first; may be unknown."""
    return Person.of(planners(storage).get(id) or ByPerson())


def plan_as_of_now(settings: Settings, catalog: Catalog, asked: PlanRequest) -> tuple[Plan, datetime]:
    """The plan and the time of planning; writes nothing, starts no Spark.

    Raises :class:`InvalidRequest` for an unknown table or version, invalid days, and expectations of what rebuilt
    tables lack.
    """
    catalog.table(asked.target)
    storage = Storage(str(settings.lakehouse))
    days = DayRange.parse(asked.days)
    with gc_paused():
        situation = observe_context(settings, catalog, asked.target, days, read_files=asked.scope is Scope.SOURCE)
        made = with_boundaries(storage, make_plan(asked, situation), situation.observed)
    return made, situation.now


def with_boundaries(storage: Storage, made: Plan, observed: LogView) -> Plan:
    view = View(storage, observed.sequence, observed.versions)
    read = {each.table: days_of(each.days) for each in made.pinned}
    found = planned_boundaries(merge_tables(read_boundaries(view, read)))
    return made.model_copy(update={"boundaries": found}) if found else made


def plan_as_kept(settings: Settings, id: str) -> Plan:
    """Raises :class:`InvalidRequest` if no plan is kept under ``id``."""
    return Plan.from_json(kept_plan(Storage(str(settings.lakehouse)), id), id=id)


def days_of_open_plans(storage: Storage, newest: NewestEntries | None = None) -> dict[TableDay, str]:
    """Ids of open plans by the days that they rebuild; unreadable plans are skipped."""
    return {
        TableDay(table, day): plan.id
        for plan in open_plans(storage, newest)
        for step in rebuilt_steps(plan)
        for table in step.tables
        for day in step.days
    }


def look_again(settings: Settings, catalog: Catalog, id: str) -> tuple[Plan, PlanDrift, datetime]:
    """Returns the drift and the time of looking."""
    found = plan_as_kept(settings, id)
    now = observe_context_of(settings, catalog, found)
    return found, _drift(settings, found, now), now.now


def require_carried_out(settings: Settings, catalog: Catalog, plan: Plan, *, started: bool) -> None:
    """Raise :class:`InvalidRequest` if a finding stops ``plan``, or its basis has moved.

    Once ``started``, drift does not matter: moved days are staged again.
    """
    stops = [finding for finding in plan.findings if finding.severity == "stops"]
    if stops:
        raise InvalidRequest(f"{plan.id} cannot be run: {stops[0].message}", hint=stops[0].next_step)
    if started:
        return
    _look_at_tables_of_others(settings, Storage(str(settings.lakehouse)), catalog, plan.asked.target)
    now = observe_context_of(settings, catalog, plan)
    require_open_days(plan, now)
    if moved := _drift(settings, plan, now):
        raise InvalidRequest(
            f"What {plan.id} was computed from has moved: {'; '.join(moved.lines()[:3])}.",
            hint=f"Plan again: {plan.command()}",
        )


def require_open_days(plan: Plan, now: PlanContext) -> None:
    """Raise :class:`InvalidRequest` if days of ``plan`` were closed since it was made."""
    for step in rebuilt_steps(plan):
        if closed := now.books.closings_of(step.tables, step.days):
            said = closed_text({TableDay(step.name, day): closing for day, closing in closed.items()})
            raise InvalidRequest(
                f"{said}, and {plan.id} would rebuild it.", hint=f"Plan again, without it: {plan.command()}"
            )


def _drift(settings: Settings, plan: Plan, now: PlanContext) -> PlanDrift:
    """Days that only a stream has extended are left out: no plan would hold longer than a batch. Foreign writes always
    count.
    """
    moved = drift_since(plan, now)
    known = {each for each in moved.days if not now.observed.is_foreign(each)}
    streamed = moved_by_streams(Storage(str(settings.lakehouse)), plan.basis.sequence, known)
    return moved.without(streamed)
