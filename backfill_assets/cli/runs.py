"""Runs of tables in the foreground: planned from logs, then built step by step, on main or on a timeline."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cache
from typing import TYPE_CHECKING

from backfill_assets.cli.foreground import foreground_builder, report_progress, report_step, run_info
from backfill_assets.cli.group import Interrupted
from backfill_assets.cli.output import say_answer
from backfill_assets.cli.wiring import current_catalog, open_publisher, open_storage
from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from backfill_assets.answers.run import StepRan
    from backfill_assets.plan.records import PlannedStep
    from backfill_assets.plan.table_run import RunPlan, RunRequest
    from backfill_assets.rebuild.builder import Builder
    from backfill_assets.rebuild.outcome import RunInfo
    from backfill_assets.settings import Settings
    from backfill_assets.timeline.run_on import TimelineRun
    from backfill_assets.timeline.view import ObservedTimeline

_RUN_AGAIN = "  -> Run the same command again: days that were staged are used as they are."


def plan_on_main(settings: Settings, asked: RunRequest) -> RunPlan:
    """From the logs and from the names of landed files."""
    from backfill_assets.landing.zone import LandedSource, LandingZone, landed_source
    from backfill_assets.plan.table_run import RunContext, plan_run
    from backfill_assets.published.observed import observe
    from backfill_assets.published.rolled_back import rollbacks

    for table in asked.tables:
        current_catalog().table(table)
    storage, zone = open_storage(settings), LandingZone(settings.landing)

    @cache
    def landed_for(table: str) -> LandedSource:
        source = current_catalog().step(table).source
        return landed_source(zone, storage, source.name, table) if source else LandedSource()

    observed = observe(storage, current_catalog().table_names)
    steps = observed.with_current(current_catalog().steps)
    today = datetime.now(UTC).date()
    return plan_run(asked, RunContext(steps, observed, today, landed_for, lambda: rollbacks(storage)))


def run_on_main(plan: RunPlan, builder: Builder, *, verify: bool = False) -> list[StepRan]:
    """What does not read a table that failed is built all the same; the first error is raised at the end.

    What was built before an error is shown.
    """
    ran: list[StepRan] = []
    failures: list[BackfillError] = []
    try:
        _build(plan, builder, ran, failures, verify=verify)
    except LakehouseUnusable as error:
        failures.insert(0, error)
    if failures:
        _say_ran(ran)
        raise failures[0]
    return ran


def _build(plan: RunPlan, builder: Builder, ran: list[StepRan], failures: list[BackfillError], *, verify: bool) -> None:

    info, absent = run_info("backfill run"), set[str]()
    for each in plan.steps:
        step = current_catalog().step(each.name)
        if lacks := sorted({read.table for read in step.reads} & absent):
            report_step(f"{each.name}: left out, it reads {', '.join(lacks)}")
            absent.update(step.table_names)
            continue
        report_step(f"{each.name}: {format_count(len(each.all_days), each.cadence.noun)} ...")
        try:
            ran.append(_build_step(each, builder, info, force=plan.asked.force, verify=verify))
        except KeyboardInterrupt:
            raise _interruption(each.name, ran) from None
        except LakehouseUnusable:
            raise
        except BackfillError as error:
            failures.append(error)
            absent.update(step.table_names)
            if each is not plan.steps[-1]:
                first_line, *_ = error.message.splitlines()
                report_step(f"{each.name}: failed, the tables that do not read it go on: {first_line}")
        else:
            report_step(str(ran[-1]))


def _build_step(each: PlannedStep, builder: Builder, info: RunInfo, *, force: bool, verify: bool) -> StepRan:
    from backfill_assets.answers.run import StepRan
    from backfill_assets.plan.records import days_of

    started = time.monotonic()
    result = builder.build(
        current_catalog().step(each.name),
        each.all_days,
        run=info,
        version=each.version or None,
        force=force,
        later=days_of([*each.later, *each.earlier]),
        verify=verify,
        progress=report_progress,
    )
    return StepRan.of(each.name, result, time.monotonic() - started)


def _interruption(step: str, ran: Sequence[StepRan]) -> Interrupted:
    before = f" Published before: {', '.join(each.step for each in ran)}." if ran else ""
    return Interrupted(f"Interrupted while {step} was built: nothing of it was published.{before}\n{_RUN_AGAIN}")


def _say_ran(ran: Sequence[StepRan]) -> None:
    from backfill_assets.answers.run import ran_answer

    if ran:
        say_answer(ran_answer(ran, {}))


def stale_readers_of(settings: Settings, ran: Sequence[StepRan]) -> Mapping[str, Sequence[date]]:
    """The published days that read what was published now, and were not built with it."""
    from backfill_assets.published.observed import observe
    from backfill_assets.published.readers import stale_readers

    built = {table: days for step in ran for table, days in step.built.items() if days}
    readers = [step for step in current_catalog().steps if any(read.table in built for read in step.reads)]
    names = [name for step in readers for name in step.table_names]
    if not names:
        return {}
    tables = {*names, *(read.table for step in readers for read in step.reads)}
    return stale_readers(readers, observe(open_storage(settings), tables), built, {})


# ------------------------------------------------------------------ on a timeline


@dataclass(frozen=True)
class PlanOnTimeline:
    """What a run builds on a timeline. ``left_out`` are the raw tables upstream: these are shared."""

    place: ObservedTimeline
    plan: RunPlan
    left_out: tuple[str, ...]


def plan_on_timeline(settings: Settings, asked: RunRequest, name: str) -> PlanOnTimeline:
    """Decided as a run on main is, by the statuses of days as they are on the timeline.

    Raises :class:`InvalidRequest` for raw tables, and for the timeline of a campaign.
    """
    from backfill_assets.plan.table_run import RunContext, plan_run
    from backfill_assets.timeline.run_on import refuse_raw
    from backfill_assets.timeline.view import observe_timeline, refuse_campaign

    refuse_campaign(name)
    steps = [current_catalog().step(table) for table in asked.tables]
    publisher = open_publisher(settings)
    place = observe_timeline(publisher, current_catalog().table_names, name)
    for step in steps:
        refuse_raw(step, name)
    context = RunContext(place.view.with_current(current_catalog().steps), place.view, publisher.now().date())
    plan = plan_run(asked, context)
    raw = {step.name for step in current_catalog().steps if step.source is not None}
    kept = tuple(each for each in plan.steps if each.name not in raw)
    left_out = tuple(each.name for each in plan.steps if each.name in raw)
    return PlanOnTimeline(place, replace(plan, steps=kept, not_taken_in=()), left_out)


def run_on_timeline(settings: Settings, planned: PlanOnTimeline) -> TimelineRun:
    """Build what is planned on the timeline; Spark starts when a day has to be computed."""
    from backfill_assets.plan.records import days_of
    from backfill_assets.timeline.run_on import StepRequest, run_on

    place, plan, catalog = planned.place.timeline, planned.plan, current_catalog()
    asked = [
        StepRequest(
            catalog.step(each.name), each.all_days, each.version, frozenset(days_of([*each.later, *each.earlier]))
        )
        for each in plan.steps
    ]
    report_step(f"On {place.name}: {', '.join(each.name for each in plan.steps)} ...")
    with ExitStack() as stack:
        lake = foreground_builder(settings, stack).lake
        try:
            return run_on(
                lake,
                place,
                asked,
                run_info("backfill run --on"),
                report_progress,
                force=plan.asked.force,
                report=lambda done: report_step(str(done)),
            )
        except KeyboardInterrupt:
            raise Interrupted(
                f"Interrupted while days were built: the timeline {place.name} stays as it is.\n{_RUN_AGAIN}"
            ) from None
