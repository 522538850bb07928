"""The command ``backfill run``, in the foreground without Dagster's daemon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache, partial
from typing import TYPE_CHECKING

import click

from backfill_assets import clock
from backfill_assets.cli.campaigns import stage_plan
from backfill_assets.cli.completion import complete_limits, complete_table_or_plan
from backfill_assets.cli.foreground import foreground_builder, foreground_lake, report_progress, report_step, run_info
from backfill_assets.cli.group import Interrupted
from backfill_assets.cli.ids import is_plan
from backfill_assets.cli.options import DAYS, TIMELINE_TO_CHANGE, as_json, dry_run, newest_first, refuse, version
from backfill_assets.cli.output import go_on, say_answer
from backfill_assets.cli.selections import tables_to_run
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher, open_storage
from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from backfill_assets.answers.run import StepRan
    from backfill_assets.lakehouse.named_timelines import NamedTimeline
    from backfill_assets.plan.records import PlannedStep
    from backfill_assets.plan.table_run import RunPlan, RunRequest
    from backfill_assets.rebuild.builder import Builder
    from backfill_assets.rebuild.outcome import RunInfo
    from backfill_assets.timeline.build import TimelineBuilt

_OF_TABLES = ("days", "version", "force", "newest_first", "verify", "same_rows", "dry_run", "on")
_OF_PLANS = ("waves", "limits", "daemon")
_RUN_AGAIN = "  -> Run the same command again: days that were staged are used as they are."


@click.command()
@click.argument("tables", shell_complete=complete_table_or_plan, nargs=-1, required=True, metavar="TABLES...|PLAN")
@click.option(
    "--days",
    type=DAYS,
    multiple=True,
    help="The days; weekly and monthly tables get the periods with these days. Can be given several times.",
)
@version(
    'Build TABLES with this version of their logic. "as published": build every day with the version that it was '
    "published with.  [default: the current one]"
)
@click.option("--force", is_flag=True, help="Also compute days again that are unchanged.")
@newest_first
@click.option(
    "--verify",
    is_flag=True,
    help="Also compute the days whole that a stream has extended, and publish those that differ.",
)
@click.option(
    "--same-rows",
    is_flag=True,
    help="Where a version was edited in place: compute the published days again first, and go on if they are equal.",
)
@dry_run
@click.option("--on", type=TIMELINE_TO_CHANGE, help="On this timeline.  [default: main]")
@click.option(
    "--waves",
    default="",
    metavar="SHARE,..",
    help="Plan only: the share staged by the end of each wave.  [default: those of the plan, or 1%,10%,50%,100%]",
)
@click.option(
    "--limits",
    default="",
    metavar="NAME=VALUE,..",
    shell_complete=complete_limits,
    help="Plan only: limits that stop it, such as deviation=2%.",
)
@click.option("--daemon", is_flag=True, help="Plan only: let Dagster's daemon carry it out.")
@as_json
@click.pass_context
def run(
    context: click.Context,
    tables: tuple[str, ...],
    days: tuple[DayRange, ...],
    version: str | None,
    force: bool,
    newest_first: bool,
    verify: bool,
    same_rows: bool,
    dry_run: bool,
    on: str | None,
    waves: str,
    limits: str,
    daemon: bool,
) -> None:
    """Build days of TABLES in this process, step by step. Each step is published when its gates pass.

    \b
    Examples:
      backfill run +fact_daily_revenue --days 2017-03-01..2017-05-29        and all that it is computed from
      backfill run fact_daily_revenue+ --days 2017-03-01..2017-05-29        and all that is computed from it
      backfill run fact_daily_revenue --days 2017-03-01..2017-05-29 --on trial     on a timeline; nothing is published
      backfill run tag:report --days 2017-03-01..2017-03-07                 all reports; also stale:
      backfill run plan-0123456789abcdef        stage a plan where no reader sees it

    If a step fails, the steps that read its tables are left out, and the others are built. The exit code is then 1.

    The logs show which days are unchanged before Spark starts; if all are, Spark does not start. Days that a failed run
    has staged are used again. Dagster shows the new days once its daemon runs. Progress goes to standard error, with
    the time unless it is a terminal; the result goes to standard output.

    +TABLE includes the earlier days that the days look back to, as far as they have landed: a rate of Friday is used
    on Sunday. TABLE+ includes the published days that look back to the days: a rate is used for up to a week. If the
    inputs of such a later day have changed, it is built with the version that it was published with.

    A version that was edited in place since it published days is not built with. --same-rows proves on the published
    days of --days that it gives the same rows, and records it; if it does not, the run is refused with the difference.

    With --on, the days are built on a timeline: from its own days and its base, with the same gates. Raw tables are not
    built there.

    With PLAN, the days of a plan are staged where no reader sees them: a canary first, then more in waves, until a
    limit stops it or it waits for approval. `backfill approve` then publishes all of its tables at once.
    """
    if any(map(is_plan, tables)):
        if len(tables) > 1:
            raise click.UsageError("A plan is carried out alone: give its id, or tables with --days.")
        refuse(context, _OF_TABLES, "with a plan: a kept plan does not change; plan anew")
        from backfill_assets.campaign.options import Options

        stage_plan(tables[0], partial(Options.of_plan, waves=waves, limits=limits, daemon=daemon))
        return
    refuse(context, _OF_PLANS, "with a table: it is about carrying out a plan")
    if not days:
        raise click.UsageError("--days A..B is missing: which days of the tables?")
    from backfill_assets.plan.table_run import RunRequest

    chosen = sorted({day for each in days for day in each})
    named, upstream, downstream = tables_to_run(tables)
    asked = RunRequest(named, chosen, upstream, downstream, version, force, newest_first)
    if on is None:
        _on_main(asked, verify=verify, same_rows=same_rows, dry_run=dry_run)
    else:
        if verify or same_rows:
            raise click.UsageError(f"--{'verify' if verify else 'same-rows'} is about published days: without --on.")
        _on_timeline(asked, on, dry_run=dry_run)


# ------------------------------------------------------------------ on main


def _on_main(asked: RunRequest, *, verify: bool, same_rows: bool, dry_run: bool) -> None:
    from backfill_assets.answers.run import ran_answer, run_plan_answer

    plan = _plan_on_main(asked)
    if go_on(run_plan_answer(plan), dry_run=dry_run):
        with foreground_builder() as builder:
            ran = _run_on_main(plan, builder, verify=verify, same_rows=same_rows)
        say_answer(ran_answer(ran, _stale_readers_of(ran)))


def _plan_on_main(asked: RunRequest) -> RunPlan:
    from backfill_assets.landing.zone import LandedSource, LandingZone, landed_source
    from backfill_assets.plan.table_run import plan_run
    from backfill_assets.state.edited_logic import contents_of, edited_logic
    from backfill_assets.state.observed import observe_each
    from backfill_assets.state.rolled_back import rollbacks

    storage, zone = open_storage(), LandingZone(current_settings().landing)

    @cache
    def landed_for(table: str) -> LandedSource:
        source = current_catalog().step(table).source
        return landed_source(zone, storage, source, table) if source else LandedSource()

    for gone in current_catalog().left_out:
        report_step(f"{gone} {gone.error.hint or ''}".rstrip())
    declared = current_catalog().steps
    _look_at_tables_of_others(asked)
    observed = observe_each(storage, current_catalog().table_names)
    observed.require_decided(declared, asked.tables)
    for each in observed.unreadable.values():
        report_step(f"{each.table} and what is made of it is left out, it cannot be read: {each.next_step}")
    steps = observed.readable(observed.with_current(declared))
    today, edited = clock.today(), edited_logic(storage, steps, contents_of(observed.states))
    return plan_run(asked, steps, observed, today, landed=landed_for, rollbacks=rollbacks(storage), edited=edited)


def _look_at_tables_of_others(asked: RunRequest) -> None:
    from backfill_assets.external.observe import observe_tables, tables_of_others
    from backfill_assets.model.graph import expand_tables, steps_of

    catalog = current_catalog()
    above = expand_tables(catalog.steps, asked.tables, upstream=True, downstream=asked.downstream)
    if others := tables_of_others(steps_of(catalog.steps, above), catalog.datasets):
        for each in observe_tables(open_publisher(), others):
            moved = f", {format_count(len(each.changed), 'day')} moved" if each.changed else ""
            report_step(f"{each.table}: read in place at version {each.version}{moved}")


def _run_on_main(plan: RunPlan, builder: Builder, *, verify: bool, same_rows: bool) -> list[StepRan]:
    """Build what reads no failed table, show it, then raise the first error."""
    ran: list[StepRan] = []
    failures: list[BackfillError] = []
    try:
        _build(plan, builder, ran, failures, verify=verify, same_rows=same_rows)
    except LakehouseUnusable as error:
        failures.insert(0, error)
    if failures:
        _say_ran(ran)
        raise failures[0]
    return ran


def _build(
    plan: RunPlan,
    builder: Builder,
    ran: list[StepRan],
    failures: list[BackfillError],
    *,
    verify: bool,
    same_rows: bool,
) -> None:
    info, absent = run_info("backfill run"), set[str]()
    for each in plan.steps:
        step = current_catalog().step(each.name)
        if lacks := sorted({read.table for read in step.reads} & absent):
            report_step(f"{each.name}: left out, it reads {', '.join(lacks)}")
            absent.update(step.table_names)
            continue
        report_step(f"{each.name}: {format_count(len(each.all_days), each.cadence.noun)} ...")
        try:
            proven = (
                builder.prove_same_rows(step, each.all_days, run=info, progress=report_progress) if same_rows else ()
            )
            built = _build_step(each, plan.asked, builder, info, verify=verify)
            ran.append(replace(built, same_rows=proven))
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


def _build_step(each: PlannedStep, asked: RunRequest, builder: Builder, info: RunInfo, *, verify: bool) -> StepRan:
    from backfill_assets.answers.run import StepRan
    from backfill_assets.plan.records import days_of

    started = clock.seconds()
    result = builder.build(
        current_catalog().step(each.name),
        each.all_days,
        run=info,
        version=each.version or None,
        force=asked.force,
        newest_first=asked.newest_first,
        later=days_of([*each.later, *each.earlier]),
        verify=verify,
        progress=report_progress,
    )
    return StepRan(each.name, result, clock.seconds() - started)


def _interruption(step: str, ran: Sequence[StepRan]) -> Interrupted:
    before = f" Published before: {', '.join(each.step for each in ran)}." if ran else ""
    return Interrupted(f"Interrupted while {step} was built: nothing of it was published.{before}\n{_RUN_AGAIN}")


def _say_ran(ran: Sequence[StepRan]) -> None:
    from backfill_assets.answers.run import ran_answer

    if ran:
        say_answer(ran_answer(ran, {}))


def _stale_readers_of(ran: Sequence[StepRan]) -> Mapping[str, Sequence[date]]:
    from backfill_assets.state.observed import observe_each
    from backfill_assets.state.status import stale_readers

    built = {table: days for step in ran for table, days in step.built.items() if days}
    readers = [step for step in current_catalog().steps if any(read.table in built for read in step.reads)]
    names = [name for step in readers for name in step.table_names]
    if not names:
        return {}
    tables = {*names, *(read.table for step in readers for read in step.reads)}
    return stale_readers(readers, observe_each(open_storage(), tables), built)


# ------------------------------------------------------------------ on a timeline


def _on_timeline(asked: RunRequest, name: str, *, dry_run: bool) -> None:
    from backfill_assets.answers.run import run_plan_answer
    from backfill_assets.answers.timelines import built_answer
    from backfill_assets.plan.table_run import plan_run
    from backfill_assets.timeline.build import refuse_raw
    from backfill_assets.timeline.view import observe_timeline, refuse_campaign, stale_days

    refuse_campaign(name)
    catalog, publisher = current_catalog(), open_publisher()
    asked_steps = [catalog.step(table) for table in asked.tables]
    timeline, observed = observe_timeline(publisher, catalog.table_names, name)
    for step in asked_steps:
        refuse_raw(step, name)
    plan = plan_run(asked, observed.with_current(catalog.steps), observed, clock.today()).without_raw()
    if go_on(run_plan_answer(plan, name), dry_run=dry_run):
        done = _run_on_timeline(timeline, plan)
        stale = stale_days(open_storage(), done.timeline, catalog.steps)
        say_answer(built_answer(done, stale))


def _run_on_timeline(place: NamedTimeline, plan: RunPlan) -> TimelineBuilt:
    from backfill_assets.plan.records import days_of
    from backfill_assets.rebuild.step_look import StepRequest
    from backfill_assets.timeline.build import run_on

    asked = [
        StepRequest(
            current_catalog().step(each.name),
            each.all_days,
            each.version,
            along=frozenset(days_of([*each.later, *each.earlier])),
            force=plan.asked.force,
            newest_first=plan.asked.newest_first,
        )
        for each in plan.steps
    ]
    report_step(f"On {place.name}: {', '.join(each.name for each in plan.steps)} ...")
    run, report = run_info("backfill run --on"), lambda done: report_step(str(done))
    with foreground_lake() as lake:
        try:
            return run_on(lake, place, asked, run, report_progress, report=report)
        except KeyboardInterrupt:
            raise Interrupted(
                f"Interrupted while days were built: the timeline {place.name} stays as it is.\n{_RUN_AGAIN}"
            ) from None
