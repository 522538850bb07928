"""Gathers what a plan is computed from: the lakehouse's logs, the landing zone's names, and this machine."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import campaign_journal
from backfill_assets.lakehouse.plans import kept_plan, open_plan_ids
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandedDay, LandingZone, landed_days
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.contract_columns import struct_type
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import upstream
from backfill_assets.plan.records import Plan, Scope
from backfill_assets.plan.situation import Machine, PlanContext
from backfill_assets.published.standing import files_may_go, free_bytes, observe_tables
from backfill_assets.rebuild.changed_files import compare_days
from backfill_assets.settings import Settings

_TIMED_CAMPAIGNS = 5
"""Whose times a new plan goes by: some 15 small files are read of each."""


def observe_context(
    settings: Settings,
    catalog: Catalog,
    target: str,
    days: DayRange,
    pinned: Mapping[str, int] | None = None,
    *,
    read_files: bool = False,
) -> PlanContext:
    """Everything about the chain of tables that ``target`` is in; ``pinned`` are the versions a plan already names.

    With ``read_files`` the content of landed files is compared with what raw has read of them, not only their names.
    """
    storage, now = Storage(str(settings.lakehouse)), datetime.now(UTC).replace(microsecond=0)
    step, dataset = catalog.step(target), catalog.dataset_of(target)
    declared = catalog.steps_with(dataset.name)
    standing = observe_tables(storage, [table.name for step in declared for table in step.tables])
    steps = standing.observed.with_current(declared)
    versions = standing.observed.versions if pinned is None else pinned
    return PlanContext(
        steps=steps,
        observed=standing.observed,
        begins=dataset.first_day,
        today=now.date(),
        bytes=standing.bytes,
        schemas=standing.schemas,
        declared_schemas=declared_schemas(steps, standing.schemas),
        landed=_landed_days(settings, storage, steps, step, days, read_files=read_files),
        files_may_go=files_may_go(storage, versions, settings.rollback_window_days, now),
        journals=campaign_journal.newest(storage, _TIMED_CAMPAIGNS),
        open_plans=open_plans(storage),
        machine=Machine(os.cpu_count() or 1, settings.core_hour_price, free_bytes(storage)),
        rollback_window_days=settings.rollback_window_days,
        now=now,
    )


def open_plans(storage: Storage) -> list[Plan]:
    """Without one that was removed or changed while it is open, or kept by other code: it holds up nothing else."""
    found = []
    for id in open_plan_ids(storage):
        with suppress(InvalidRequest):
            found.append(Plan.from_json(kept_plan(storage, id), id=id))
    return found


def declared_schemas(steps: Iterable[Step], tables: Container[str]) -> dict[str, str]:
    """The schema that the contract of each of ``tables`` declares, as Delta's JSON."""
    declared = [table for step in steps for table in step.tables if table.name in tables]
    return {table.name: struct_type(table.contract).json() for table in declared}


def observe_context_of(settings: Settings, catalog: Catalog, plan: Plan) -> PlanContext:
    """What there is now of all that ``plan`` is about, with the versions that it pinned."""
    versions = {each.table: each.version for each in plan.pinned if each.version is not None}
    days, refreshes = DayRange.parse(plan.asked.days), plan.asked.scope is Scope.SOURCE
    return observe_context(settings, catalog, plan.asked.target, days, versions, read_files=refreshes)


def _landed_days(
    settings: Settings, storage: Storage, steps: Sequence[Step], step: Step, days: DayRange, *, read_files: bool
) -> dict[str, dict[date, LandedDay]]:
    """The arrival days that could matter: those behind the target's days."""
    starts = step.cadence.starts(days)
    every_version = [replace(step, current=version.name) for version in step.versions] or [step]
    needed: dict[str, set[date]] = {step.name: set(starts)}
    for each in every_version:
        for name, found in upstream(steps, each, starts).items():
            needed.setdefault(name, set()).update(found)
    zone = LandingZone(settings.landing)
    listed = {
        each.name: landed_days(zone, storage, each.source.name, each.name, needed.get(each.name, set()))
        for each in steps
        if each.source
    }
    if not read_files:
        return listed
    return {table: compare_days(zone, storage, table, found) for table, found in listed.items()}
