from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from backfill_assets import clock
from backfill_assets.cli.campaigns import campaign_run, stage_plan
from backfill_assets.cli.completion import (
    complete_step_version,
    complete_table,
    complete_timeline,
    complete_timeline_or_plan,
)
from backfill_assets.cli.foreground import foreground_lake, report_progress, report_step, run_info
from backfill_assets.cli.ids import find_timeline, is_plan
from backfill_assets.cli.options import DAYS, MOMENT, STATE, TABLE, as_json, days, expect, version, yes
from backfill_assets.cli.output import ask, go_on, say, say_answer, say_done, wants_json
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher, open_storage
from backfill_assets.report.answer import Answer, Fact, Id
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from datetime import date

    from backfill_assets.campaign.course import CampaignState
    from backfill_assets.days import DayRange
    from backfill_assets.lakehouse.named_timelines import NamedTimeline
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.plan.records import Plan
    from backfill_assets.publish.publisher import Publisher
    from backfill_assets.rebuild.lake import Lake
    from backfill_assets.state.diagnosis import Cause

_MOST_MOMENTS = 20

name_argument = click.argument("name", shell_complete=complete_timeline)


@click.group()
def timeline() -> None:
    """Work on days of tables beside what is published.

    \b
    Examples:
      backfill timeline create trial
      backfill run fact_daily_revenue --days 2017-03-01..2017-03-07 --version v2 --on trial
      backfill diff main trial                       what `timeline publish trial` would change

    A timeline has a name and days of tables that differ from what is published; all other days read through to what was
    published when it was made, or last went forward. It is kept until it is deleted, or until the age that it is given.
    Maintenance deletes nothing that it names. `--on NAME` builds, shows and traces days on it.
    """


@timeline.command("list")
@as_json
def list_timelines() -> None:
    """List the timelines, those of open campaigns too."""
    from backfill_assets.answers.timelines import timelines_answer
    from backfill_assets.timeline.view import all_places

    publisher = open_publisher()
    say_answer(timelines_answer(all_places(publisher.storage, clock.now())))


@timeline.command("create")
@click.argument("name")
@click.argument("days", type=DAYS, required=False, metavar="[A..B]")
@click.option(
    "--at",
    type=STATE,
    default="main",
    show_default=True,
    help="What its days read through to: main, a publication, a UTC time, or another timeline.",
)
@click.option(
    "--version",
    "of_version",
    shell_complete=complete_step_version,
    metavar="STEP=V",
    help="For the days of this version of a step, and what is computed from them.",
)
@as_json
def create(name: str, at: str, of_version: str | None, days: DayRange | None) -> None:
    """Make a timeline at main, as it is now or was.

    All of its days read through to that state. At another timeline it begins with the days of that one. No file is read
    or copied.

    With --version it is for another version of a step, beside the current one, on the days A..B or all that are
    published. `timeline forward` computes its days, `timeline keep --fresh` brings them up to date every night, and
    `timeline publish --as-current` switches to it in a second.
    """
    from backfill_assets.lakehouse.named_timelines import require_timeline_name
    from backfill_assets.timeline.rewind import create_whole, timeline_based_on

    require_timeline_name(name)
    if of_version is None and days:
        raise click.UsageError("Days are of a timeline with a --version.")
    with foreground_lake() as lake:
        storage, by = lake.storage, getpass.getuser()
        if of_version is None:
            made = create_whole(storage, lambda: timeline_based_on(storage, at, name, by, clock.now()))
        else:
            made = _create_of_version(lake, name, of_version, str(days or ""))
        _say(lake, made)


def _create_of_version(lake: Lake, name: str, asked: str, days: str) -> NamedTimeline:
    from backfill_assets.lakehouse.named_timelines import TimelineVersion
    from backfill_assets.timeline.of_version import create_of_version

    table, is_there, version = asked.partition("=")
    if not is_there:
        raise click.UsageError(f"--version {asked} names no version. Type --version {asked}=V.")
    step = current_catalog().step(table)
    of = TimelineVersion(step=step.name, version=version, days=days)
    return create_of_version(lake, name, step, of, getpass.getuser())


@timeline.command("rewind")
@click.argument("tables", type=TABLE, nargs=-1, required=True)
@click.option(
    "--to",
    type=MOMENT,
    help="A publication, PUBLICATION^ for the state just before it, a Delta version of the first table, or a UTC time. "
    " [default: list the moments worth going to]",
)
@days("Only these days of TABLES.  [default: all that differ]")
@click.option("--as", "name", metavar="NAME", help="The name of the timeline.  [default: TABLE-rewound]")
@as_json
def rewind(tables: tuple[str, ...], to: str | None, days: DayRange | None, name: str | None) -> None:
    """Make a timeline of days as they were once.

    Its days of TABLES are what they were at a moment, with what is computed from them. Files are named, and none is
    read or copied: it takes a second, and starts no Spark. What is published stays as it is. Raw is not rewound:
    `timeline forward` takes the rows that arrived since, once.

    A week or month of which only a part goes back stays as published, and is named as stale: `timeline forward`
    computes it.
    """
    from backfill_assets.answers.timelines import moments_answer
    from backfill_assets.lakehouse.named_timelines import require_timeline_name
    from backfill_assets.state.view import find_moment
    from backfill_assets.timeline.moments_listed import moments_worth_going_to
    from backfill_assets.timeline.rewind import RewindRequest, create_whole, rewound_timeline

    storage = open_storage()
    if to is None:
        found = moments_worth_going_to(storage, tables, _MOST_MOMENTS)
        say_answer(moments_answer(found, tables))
        return
    asked = RewindRequest(name or f"{tables[0].replace('_', '-')}-rewound", tables, days, getpass.getuser())
    require_timeline_name(asked.name)
    moment = find_moment(storage, to, tables[0])
    with foreground_lake() as lake:
        steps = lake.catalog.steps
        _say(lake, create_whole(storage, lambda: rewound_timeline(storage, steps, asked, moment, clock.now())))


@timeline.command("forward")
@name_argument
@click.argument("other", metavar="[OTHER]", required=False)
@version("The version of the rewound tables.  [default: the current one]")
@click.option("--without-arrivals", is_flag=True, help="Read raw and all else as of the timeline's moment.")
@as_json
def forward(name: str, version: str | None, without_arrivals: bool, other: str | None) -> None:
    """Compute the days of a timeline again: its own, or on a new timeline OTHER, and NAME stays as it is.

    Raw is read as it is now: rows that arrived since the moment are taken once. Days that are right already are kept;
    days that main or another timeline has computed from the same inputs by the same version are used as they are. If
    nothing is left to compute, Spark is not started. Days that fail their gates stay as they were, with all that reads
    them.

    A timeline that was made for a version is brought up to date: days that are new in main come along.
    """
    from backfill_assets.answers.timelines import built_answer
    from backfill_assets.timeline.build import forward as go_forward
    from backfill_assets.timeline.of_version import bring_up_to_date
    from backfill_assets.timeline.view import stale_days

    run = run_info("backfill timeline forward")
    with foreground_lake() as lake:
        found = _to_change(lake.publisher, name)
        if found.of_version and other is None:
            if version or without_arrivals:
                raise click.UsageError(f"{found.name} is of {found.of_version.version}: go forward as OTHER.")
            done = bring_up_to_date(lake, found, run, report_progress)
        else:
            done = go_forward(
                lake,
                found,
                version or "",
                run,
                report_progress,
                arrivals=not without_arrivals,
                other=other,
                by=getpass.getuser(),
            )
    stale = stale_days(lake.storage, done.timeline, lake.catalog.steps)
    say_answer(built_answer(done, stale))


@timeline.command("show")
@name_argument
@as_json
def show(name: str) -> None:
    """Show the days of a timeline beside main."""
    from backfill_assets.timeline.view import find_place

    with foreground_lake() as lake:
        _say(lake, find_place(lake.storage, find_timeline(lake.storage, name), clock.now()))


@timeline.command("open")
@name_argument
@click.argument("tables", type=TABLE, nargs=-1)
@as_json
def open_command(name: str, tables: tuple[str, ...]) -> None:
    """Show how to read a timeline from any engine.

    TABLES, or all tables, are shown as the timeline has them: its own days, and all others as of its base. For each
    table that it has days of, a plain Delta table is written: a log that names files, and no row is copied. It is of
    the timeline as it is now: open it again after the timeline went forward. It goes with the timeline.
    """
    from backfill_assets.answers.timelines import opened_answer
    from backfill_assets.timeline.opened import open_timeline, recipe_of, sql_views

    storage = open_storage()
    opened = open_timeline(storage, find_timeline(storage, name))
    views = sql_views(opened, tables)
    say_answer(opened_answer(opened.name, views, recipe_of(opened, next(iter(views)))))


@timeline.command("publish")
@name_argument
@click.option(
    "--table", default="", shell_complete=complete_table, help="Only this table, and what is computed from it."
)
@expect
@click.option("--as-current", is_flag=True, help="At once, and its version becomes the current one of its step.")
@click.option("--new-days-only", is_flag=True, help="With --as-current: days that are published stay as they are.")
@click.option("--dry-run", is_flag=True, help="Show what would be published, or make the plan, and stop.")
@yes
@as_json
@click.pass_context
def publish(
    ctx: click.Context,
    name: str,
    table: str,
    expected: tuple[str, ...],
    as_current: bool,
    new_days_only: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Bring a timeline into main.

    Plans what it holds and main does not, and stages the plan for approval. Days that the timeline has computed are
    used as they are; days whose inputs have changed since are computed again. It stops before anything is published:
    `backfill diff PLAN` shows what would change, `backfill approve PLAN` publishes all tables at once, and `backfill
    rollback` undoes it. The timeline stays as it is. Type the same again after a kill or a stop: the plan that was
    begun goes on. The exit code is 1 if a finding blocks the plan.

    With --as-current, a timeline of a version is published at once, days and version or nothing, and asks before. It
    reads no rows and takes about a second. What was published is on a timeline of the former version then: the way back
    is to publish that one as current, or `backfill rollback`. A timeline that is behind is refused.
    """
    if not as_current:
        if new_days_only:
            raise click.UsageError("--new-days-only is given with --as-current.")
        stopped = _publish_by_plan(name, table, expected, dry_run=dry_run)
        ctx.exit(1 if stopped else 0)
    if table or expected:
        raise click.UsageError("--as-current publishes all of a timeline: leave out --table and --expect.")
    with foreground_lake() as lake:
        found = _to_change(lake.publisher, name)
        _publish_as_current(lake, found, new_days_only=new_days_only, dry_run=dry_run, yes=yes)


def _publish_as_current(lake: Lake, timeline: NamedTimeline, *, new_days_only: bool, dry_run: bool, yes: bool) -> None:
    from backfill_assets.answers.timelines import as_current_answer
    from backfill_assets.timeline.switch import carry_out_switch, plan_switch

    plan = plan_switch(lake, timeline, new_days_only=new_days_only)
    shown = as_current_answer(plan)
    if not go_on(shown, f"Make {plan.version} of {plan.step.name} current?", dry_run=dry_run, yes=yes):
        return
    run = run_info("backfill timeline publish --as-current")
    done = carry_out_switch(lake, plan, run, report_progress).publication
    say_done(shown, Answer(parts=(Fact("publication", Id(done)),), next=(f"backfill rollback {done}",)))


def _publish_by_plan(name: str, table: str, expected: Sequence[str], *, dry_run: bool) -> bool:
    from backfill_assets.answers.plan import plan_answer
    from backfill_assets.campaign.options import Options
    from backfill_assets.campaign.timeline_plan import left_sentence, plan_begun, timeline_request
    from backfill_assets.plan.expectations import Expectation
    from backfill_assets.plan.keep import plan_and_keep
    from backfill_assets.rebuild.outcome import os_person
    from backfill_assets.timeline.rewind import days_of_same_logic, differing_from_main

    publisher = open_publisher()
    storage = publisher.storage
    found = _to_change(publisher, name)
    expectations = tuple(map(Expectation.parse, expected))
    differing, same_logic = differing_from_main(storage, found), days_of_same_logic(storage, found) if table else {}
    asked = timeline_request(current_catalog().steps, found, differing, table, expectations, same_logic)
    begun = plan_begun(asked, _open_plans(storage))
    if begun is not None and not dry_run:
        report_step(f"{begun.id} was begun for this before: it goes on")
        stage_plan(begun.id, Options.of_plan)
        return False
    plan, now = plan_and_keep(current_settings(), current_catalog(), asked, os_person())
    if not wants_json():
        say_answer(plan_answer(plan, now), brief=True)
        say(*filter(None, [left_sentence(asked, found.name, _statuses(storage, asked.target))]))
    if plan.stopped or dry_run:
        if wants_json():
            say_answer(Answer(parts=(Fact("plan", Id(plan.id)), Fact("stopped", plan.stopped))))
        return plan.stopped
    stage_plan(plan.id, Options.of_plan)
    return False


def _statuses(storage: Storage, table: str) -> Mapping[date, Cause | None]:
    from backfill_assets.state.observed import observe_each
    from backfill_assets.state.status import day_statuses

    observed = observe_each(storage, current_catalog().table_names)
    observed.require_decided(current_catalog().steps, [table])
    return day_statuses(observed.with_current(current_catalog().steps), observed)[table]


def _open_plans(storage: Storage) -> list[tuple[Plan, CampaignState]]:
    from backfill_assets.campaign.look import look
    from backfill_assets.campaign.standing import PlanStanding, standing_of
    from backfill_assets.lakehouse.campaign_journal import campaign_of
    from backfill_assets.plan.keep import open_plans
    from backfill_assets.publish.publisher import Publisher

    publisher = Publisher(storage)
    found = ((plan, look(publisher, campaign_of(plan.id), plan)) for plan in open_plans(storage))
    return [(plan, facts.course) for plan, facts in found if standing_of(facts) is not PlanStanding.OVERTAKEN]


@timeline.command("keep")
@name_argument
@click.option("--for", "keep_days", type=click.IntRange(min=1), metavar="DAYS", help="Forget it after so many days.")
@click.option("--fresh/--not-fresh", default=None, help="Bring its days up to date every night, or do so no longer.")
@click.argument("other", required=False)
@as_json
def keep(name: str, keep_days: int | None, fresh: bool | None, other: str | None) -> None:
    """Say how long a timeline is kept, and how.

    Without --for, it is kept until you delete it. OTHER is another name for it.
    """
    from backfill_assets.lakehouse.named_timelines import keep_timeline, rename_timeline
    from backfill_assets.timeline.of_version import keep_fresh

    with foreground_lake() as lake:
        found, now = _to_change(lake.publisher, name), clock.now()
        if other is not None:
            found = rename_timeline(lake.storage, found, other, now)
        if fresh is not None:
            found = keep_fresh(lake.storage, found, now, fresh=fresh)
        if keep_days is not None or (fresh is None and other is None):
            found = keep_timeline(lake.storage, found, keep_days, now)
        _say(lake, found)


@timeline.command("delete")
@click.argument("name", shell_complete=complete_timeline_or_plan)
@yes
def delete(name: str, yes: bool) -> None:
    """Forget a timeline, or give up a campaign.

    Other timelines keep the files that they share with it; maintenance deletes the rest in time. A campaign that is
    given up publishes nothing.
    """
    from backfill_assets.lakehouse.named_timelines import delete_timeline

    publisher = open_publisher()
    if is_plan(name):
        name = _abandon(name, yes=yes)
    else:
        found = _to_change(publisher, name)
        name = found.name
        if not yes:
            ask(f"Forget {name}, with {format_count(found.count_of_days, 'day')} of its own?")
        delete_timeline(publisher.storage, found, clock.now())
    say(f"{name} is deleted. Nothing that is published changed.")


def _abandon(plan: str, *, yes: bool) -> str:
    from backfill_assets.campaign import decisions

    with campaign_run(plan, "backfill timeline delete") as at:
        if not yes:
            ask(f"Give up the campaign of {at.plan.id}?")
        decisions.give_up(at)
    return str(at.plan.id)


def _say(lake: Lake, found: NamedTimeline) -> None:
    from backfill_assets.answers.timelines import look_at, timeline_answer

    say_answer(timeline_answer(look_at(lake, found)))


def _to_change(publisher: Publisher, name: str) -> NamedTimeline:
    from backfill_assets.lakehouse import named_timelines
    from backfill_assets.timeline.view import refuse_campaign

    name = find_timeline(publisher.storage, name, change=True)
    refuse_campaign(name)
    return named_timelines.find_timeline(publisher.storage, name, clock.now())
