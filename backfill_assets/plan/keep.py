"""Makes plans and keeps them, checks kept plans again, and says what blocks carrying one out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.plans import keep_plan, keep_planner, kept_plan, kept_planner
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.plan.basis import PlanDrift, drift_since
from backfill_assets.plan.boundaries import planned_boundaries
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.observe import observe_context, observe_context_of, open_plans
from backfill_assets.plan.records import NO_TERMS, Plan, PlanRequest, PlanTerms, Scope, days_of
from backfill_assets.plan.shadow_steps import rebuilt_steps
from backfill_assets.plan.situation import PlanContext
from backfill_assets.published.boundaries import merge_tables
from backfill_assets.published.observed import LogView
from backfill_assets.published.positions import read_boundaries
from backfill_assets.published.snapshot import Snapshot
from backfill_assets.published.standing import gc_paused
from backfill_assets.published.stream_positions import moved_by_streams
from backfill_assets.rebuild.person import UNKNOWN, Person
from backfill_assets.settings import Settings


def plan_and_keep(
    settings: Settings,
    catalog: Catalog,
    asked: PlanRequest,
    expected: Sequence[str] = (),
    *,
    terms: PlanTerms = NO_TERMS,
    by: Person = UNKNOWN,
) -> tuple[Plan, datetime]:
    """Plan as :func:`plan_as_of_now`, and keep the plan under its id; ``by`` is kept beside it, if it is known."""
    made, now = plan_as_of_now(settings, catalog, asked, expected, terms)
    storage = Storage(str(settings.lakehouse))
    if by:
        keep_planner(storage, made.id, by.to_report())
    keep_plan(storage, made.id, made.to_json())
    return made, now


def planned_by(storage: Storage, id: str) -> Person:
    """The person who made the plan ``id`` first; unknown if that was not recorded."""
    return Person.of(kept_planner(storage, id))


def plan_as_of_now(
    settings: Settings,
    catalog: Catalog,
    asked: PlanRequest,
    expected: Sequence[str] = (),
    terms: PlanTerms = NO_TERMS,
) -> tuple[Plan, datetime]:
    """The plan of what is asked for, with the moment it was computed at. Nothing is written.

    ``expected`` are expectations as people write them. Raises :class:`InvalidRequest` for an unknown table, days that
    are none, and expectations that cannot be read. Starts no Spark.
    """
    catalog.table(asked.target)
    storage = Storage(str(settings.lakehouse))
    expectations, days = [Expectation.parse(text) for text in expected], DayRange.parse(asked.days)
    with gc_paused():
        situation = observe_context(settings, catalog, asked.target, days, read_files=asked.scope is Scope.SOURCE)
        made = with_boundaries(storage, make_plan(asked, situation, expectations, terms), situation.observed)
    return made, situation.now


def with_boundaries(storage: Storage, made: Plan, observed: LogView) -> Plan:
    """``made`` with up to where topics had been read for the days that it reads; as it is if there is no stream."""
    snapshot = Snapshot(storage, observed.sequence, observed.versions)
    read = {each.table: days_of(each.days) for each in made.pinned}
    found = planned_boundaries(merge_tables(read_boundaries(snapshot, read)))
    return made.model_copy(update={"boundaries": found}) if found else made


def plan_as_kept(settings: Settings, id: str) -> Plan:
    """Raises :class:`InvalidRequest` when no plan of that ``id`` is kept."""
    return Plan.from_json(kept_plan(Storage(str(settings.lakehouse)), id), id=id)


def days_of_open_plans(storage: Storage) -> dict[TableDay, str]:
    """Each day that a plan under way rebuilds, with the plan; without plans that cannot be read any more."""
    return {
        TableDay(table, day): plan.id
        for plan in open_plans(storage)
        for step in rebuilt_steps(plan)
        for table in step.tables
        for day in step.days
    }


def look_again(settings: Settings, catalog: Catalog, id: str) -> tuple[Plan, PlanDrift, datetime]:
    """A plan as it was made, what of its basis has moved since, and the moment of looking."""
    found = plan_as_kept(settings, id)
    now = observe_context_of(settings, catalog, found)
    return found, _drift(settings, found, now), now.now


def require_carried_out(settings: Settings, catalog: Catalog, plan: Plan, *, started: bool) -> None:
    """Raise :class:`InvalidRequest` if ``plan`` cannot be carried out.

    A finding stops it, or what it was computed from has moved; once it is ``started``, what moves is staged again.
    """
    stops = [finding for finding in plan.findings if finding.severity == "stops"]
    if stops:
        raise InvalidRequest(f"{plan.id} cannot be run: {stops[0].message}", hint=stops[0].next_step)
    if started:
        return
    moved = _drift(settings, plan, observe_context_of(settings, catalog, plan))
    if moved:
        raise InvalidRequest(
            f"What {plan.id} was computed from has moved: {'; '.join(moved.lines()[:3])}.",
            hint=f"Plan again: {plan.command(*map(str, plan.expectations))}",
        )


def _drift(settings: Settings, plan: Plan, now: PlanContext) -> PlanDrift:
    """What moved, but for the days that a stream alone has brought rows to.

    A stream keeps the version of each day that it extends, and what is carried out reads its rows too: beside one, no
    plan would hold for longer than a batch. A day that was written past the protocol counts in any case.
    """
    moved = drift_since(plan, now)
    known = {each for each in moved.days if not now.is_foreign(each.table, each.day)}
    streamed = moved_by_streams(Storage(str(settings.lakehouse)), plan.basis.sequence, known)
    return moved.without(streamed)
