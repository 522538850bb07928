"""What commands share that work on a timeline: ``--on NAME`` for runs, statuses and traces."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from backfill_assets.cli.foreground import foreground_builder, report_progress, report_step, run_info
from backfill_assets.cli.group import Interrupted
from backfill_assets.cli.wiring import open_publisher

if TYPE_CHECKING:
    from backfill_assets.plan.table_run import RunPlan, RunRequest
    from backfill_assets.settings import Settings
    from backfill_assets.timeline.observed import ObservedTimeline
    from backfill_assets.timeline.run_on import TimelineRun


def observe_timeline(settings: Settings, name: str) -> ObservedTimeline:
    """Every table as the timeline ``name`` has it."""
    from backfill_assets.datasets import registry
    from backfill_assets.timeline import observed

    tables = [table.name for table in registry.tables()]
    return observed.observe_timeline(open_publisher(settings), tables, name)


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
    from backfill_assets.datasets import registry
    from backfill_assets.plan.table_run import RunContext, plan_run
    from backfill_assets.timeline.places import refuse_campaign
    from backfill_assets.timeline.run_on import refuse_raw

    refuse_campaign(name)
    steps = [registry.step(table) for table in asked.tables]
    place = observe_timeline(settings, name)
    for step in steps:
        refuse_raw(step, name)
    today = open_publisher(settings).now().date()
    plan = plan_run(asked, RunContext(place.view.with_current(registry.steps()), place.view, today))
    raw = {step.name for step in registry.steps() if step.source is not None}
    kept = tuple(each for each in plan.steps if each.name not in raw)
    left_out = tuple(each.name for each in plan.steps if each.name in raw)
    return PlanOnTimeline(place, replace(plan, steps=kept, not_taken_in=()), left_out)


def run_on_timeline(settings: Settings, planned: PlanOnTimeline) -> TimelineRun:
    """Build what is planned on the timeline; Spark starts when a day has to be computed."""
    from backfill_assets.datasets import registry
    from backfill_assets.plan.records import days_of
    from backfill_assets.timeline.run_on import StepRequest, run_on

    place, plan = planned.place.timeline, planned.plan
    asked = [
        StepRequest(
            registry.step(each.name), each.all_days, each.version, frozenset(days_of([*each.later, *each.earlier]))
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
                f"Interrupted while days were built: the timeline {place.name} stays as it is.\n"
                "  -> Run the same command again: days that were staged are used as they are."
            ) from None
