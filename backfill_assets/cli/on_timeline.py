"""What commands share that work on a timeline: ``--on NAME`` for runs, statuses and traces."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from backfill_assets.cli.foreground import foreground_builder, report_progress, report_step, run_info
from backfill_assets.cli.group import Interrupted
from backfill_assets.cli.output import ranges, say
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, open_publisher

if TYPE_CHECKING:
    from backfill_assets.lakehouse.named_timelines import NamedTimeline
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.plan.table_run import RunPlan, RunRequest
    from backfill_assets.settings import Settings
    from backfill_assets.timeline.observed import ObservedTimeline
    from backfill_assets.timeline.run_on import TimelineRun
    from backfill_assets.timeline.view import StaleDays


def observe_timeline(settings: Settings, name: str) -> ObservedTimeline:
    """Every table as the timeline ``name`` has it."""
    from backfill_assets.timeline import observed

    return observed.observe_timeline(open_publisher(settings), current_catalog().table_names, name)


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
    from backfill_assets.timeline.places import refuse_campaign
    from backfill_assets.timeline.run_on import refuse_raw

    refuse_campaign(name)
    catalog = current_catalog()
    steps = [catalog.step(table) for table in asked.tables]
    place = observe_timeline(settings, name)
    for step in steps:
        refuse_raw(step, name)
    today = open_publisher(settings).now().date()
    plan = plan_run(asked, RunContext(place.view.with_current(catalog.steps), place.view, today))
    raw = {step.name for step in catalog.steps if step.source is not None}
    kept = tuple(each for each in plan.steps if each.name not in raw)
    left_out = tuple(each.name for each in plan.steps if each.name in raw)
    return PlanOnTimeline(place, replace(plan, steps=kept, not_taken_in=()), left_out)


@dataclass(frozen=True)
class RanOnTimeline:
    """What was built on a timeline, and the days that it shows and that were computed from others."""

    built: TimelineRun
    stale: StaleDays


def run_on_timeline(settings: Settings, planned: PlanOnTimeline) -> RanOnTimeline:
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
            built = run_on(
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
        return RanOnTimeline(built, stale_on(lake.storage, built.timeline))


def say_run(ran: RanOnTimeline) -> None:
    done = ran.built
    numbers = ("periods", "unchanged", "from main", "staged", "rows", "seconds")
    first_to_go = ("seconds", "periods", "from main", "rows", "unchanged")
    rows = new_table("table", *numbers, "staged days", numbers=numbers, drop=first_to_go)
    for each in done.steps:
        counts = (len(each.held[each.step]), len(each.unchanged), len(each.from_main), len(each.staged), each.rows)
        cells = (f"{count:,}" for count in counts)
        rows.add_row(each.step, *cells, f"{each.seconds:.1f}", ranges(each.staged, most=3))
    say(rows)
    if not any(each.staged for each in done.steps):
        say("Nothing was computed: every day was there before, from the same inputs by the same code.")
    say_stale(done.timeline, ran.stale)
    name = done.timeline.name
    say(f"These days are on {name} now. What is published has not changed: backfill diff main {name}")


def stale_on(storage: Storage, timeline: NamedTimeline) -> StaleDays:
    """The days of the timeline, and those that read them, that were computed from others than it shows."""
    from backfill_assets.timeline.opened import OpenedTimeline

    return OpenedTimeline(storage, timeline).stale_days(current_catalog().steps)


def say_stale(timeline: NamedTimeline, stale: StaleDays) -> None:
    """Name them, and what computes them."""
    from backfill_assets.timeline.view import next_for_stale, stale_lines

    say(*(Text(line, "yellow") for line in stale_lines(timeline, stale)))
    say(*next_for_stale(timeline, stale))


def stale_json(stale: StaleDays) -> dict[str, dict[str, str]]:
    return {table: {str(day): why for day, why in days.items()} for table, days in stale.items()}


def run_json(ran: RanOnTimeline) -> dict[str, Any]:
    done = ran.built
    steps = [
        {
            **{name: value for name, value in asdict(each).items() if name != "held"},
            "days": len(each.held[each.step]),
            "rows": each.rows,
        }
        for each in done.steps
    ]
    return {
        "timeline": done.timeline.name,
        "revision": done.timeline.revision,
        "steps": steps,
        "stale": stale_json(ran.stale),
    }
