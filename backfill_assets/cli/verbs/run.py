"""``backfill run``: builds days of tables, or carries out a plan, in the foreground, without Dagster's daemon."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from backfill_assets.cli.campaigns import stage_plan
from backfill_assets.cli.completion import complete_days, complete_table_or_plan
from backfill_assets.cli.foreground import foreground_builder
from backfill_assets.cli.ids import find_plan, find_timeline, is_plan, typed_storage
from backfill_assets.cli.options import DAYS, as_json, on_timeline, version
from backfill_assets.cli.output import say_answer, wants_json
from backfill_assets.cli.runs import plan_on_main, plan_on_timeline, run_on_main, run_on_timeline, stale_readers_of
from backfill_assets.cli.wiring import current_catalog, current_settings
from backfill_assets.days import DayRange

if TYPE_CHECKING:
    from backfill_assets.plan.table_run import RunRequest

_OF_TABLES = ("days", "upstream", "downstream", "version", "force", "verify", "dry_run", "on")
_OF_PLANS = ("waves", "limits", "daemon", "roll_back_if_wrong")
_EPILOG = """
\b
Examples:
  backfill run fact_daily_revenue --upstream --days 2017-03-01..2017-05-29
  backfill run fact_daily_revenue --days 2017-03-01..2017-05-29 --on trial     on a timeline; nothing is published
  backfill run plan-0123456789abcdef        stage a plan where no reader sees it
"""


@click.command(epilog=_EPILOG)
@click.argument("tables", shell_complete=complete_table_or_plan, nargs=-1, required=True, metavar="TABLES...|PLAN")
@click.option(
    "--days",
    type=DAYS,
    multiple=True,
    shell_complete=complete_days,
    metavar="A..B",
    help="The days; weekly and monthly tables get the periods with these days. Can be given several times.",
)
@click.option(
    "--upstream",
    is_flag=True,
    help="Also build everything that TABLES are computed from, and the earlier days that they look back to.",
)
@click.option(
    "--downstream",
    is_flag=True,
    help="Also build everything that is computed from TABLES, and the later days that look back.",
)
@version(
    'Build TABLES with this version of their logic. "as published": build every day with the version that it was '
    "published with.  [default: the current one]"
)
@click.option("--force", is_flag=True, help="Also compute days again that are unchanged.")
@click.option(
    "--verify",
    is_flag=True,
    help="Also compute the days whole that a stream has extended, and publish those that differ.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be built, and stop.")
@on_timeline
@click.option(
    "--waves",
    default="",
    metavar="SHARE,..",
    help="Plan only: the share staged by the end of each wave.  [default: those of the plan, or 1%,10%,50%,100%]",
)
@click.option(
    "--limits", default="", metavar="NAME=VALUE,..", help="Plan only: limits that stop it, such as deviation=2%."
)
@click.option("--daemon", is_flag=True, help="Plan only: let Dagster's daemon carry it out.")
@click.option("--roll-back-if-wrong", is_flag=True, help="Plan only: undo it if the checks after publication fail.")
@as_json
@click.pass_context
def run(
    context: click.Context,
    tables: tuple[str, ...],
    days: tuple[DayRange, ...],
    upstream: bool,
    downstream: bool,
    version: str | None,
    force: bool,
    verify: bool,
    dry_run: bool,
    on: str | None,
    waves: str,
    limits: str,
    daemon: bool,
    roll_back_if_wrong: bool,
) -> None:
    """Build days of TABLES in this process, step by step. Each step is published when its gates pass.

    If a step fails, those that read its tables are left out, all others are built, and the exit code is 1.

    The logs show which days are unchanged before Spark starts; if all are, Spark does not start. Days that a failed run
    has staged are used again. Dagster shows the new days once its daemon runs. Progress goes to standard error, with
    the time unless it is a terminal; the result goes to standard output.

    --upstream includes the earlier days that the days look back to, as far as they have landed: a rate of Friday is
    used on Sunday. --downstream includes the published days that look back to the days: a rate is used for up to a
    week. If the inputs of such a later day have changed, it is built with the version that it was published with.

    With --on, the days are built on a timeline: from its own days and its base, with the same gates. Raw tables are not
    built there.

    With PLAN, the days of a plan are staged where no reader sees them: a canary first, then more in waves, until a
    limit stops it or it waits for approval. `backfill approve` then publishes all of its tables at once.
    """
    if any(map(is_plan, tables)):
        if len(tables) > 1:
            raise click.UsageError("A plan is carried out alone: give its id, or tables with --days.")
        plan = find_plan(typed_storage(), tables[0])
        _refuse(context, _OF_TABLES, "with a plan: a kept plan does not change; plan anew")
        from backfill_assets.campaign.run import Options

        of_plan = partial(Options.of_plan, waves=waves, limits=limits)
        options = partial(of_plan, daemon=daemon, roll_back_if_wrong=roll_back_if_wrong)
        stage_plan(plan, options)
        return
    _refuse(context, _OF_PLANS, "with a table: it is about carrying out a plan")
    if not days:
        raise click.UsageError("--days A..B is missing: which days of the tables?")
    from backfill_assets.plan.table_run import RunRequest

    chosen = sorted({day for each in days for day in each})
    asked = RunRequest(tables, chosen, upstream=upstream, downstream=downstream, version=version, force=force)
    if on is None:
        _on_main(asked, verify=verify, dry_run=dry_run)
    else:
        if verify:
            raise click.UsageError("--verify is about published days: give it without --on.")
        _on_timeline(asked, find_timeline(typed_storage(), on, change=True), dry_run=dry_run)


def _refuse(context: click.Context, others: tuple[str, ...], why: str) -> None:
    """Options that would be ignored."""
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT
        if option.name in others and given:
            raise click.UsageError(f"{option.opts[0]} cannot be given {why}.")


def _on_main(asked: RunRequest, *, verify: bool, dry_run: bool) -> None:
    from backfill_assets.answers.run import ran_answer, run_plan_answer

    settings = current_settings()
    plan = plan_on_main(settings, asked)
    if dry_run or not wants_json():
        say_answer(run_plan_answer(plan))
    if not dry_run:
        with ExitStack() as stack:
            ran = run_on_main(plan, foreground_builder(settings, stack), verify=verify)
        say_answer(ran_answer(ran, stale_readers_of(settings, ran)))


def _on_timeline(asked: RunRequest, name: str, *, dry_run: bool) -> None:
    from backfill_assets.answers.run import run_plan_answer
    from backfill_assets.answers.timelines import ran_answer
    from backfill_assets.timeline.opened import OpenedTimeline

    settings = current_settings()
    planned = plan_on_timeline(settings, asked, name)
    if dry_run or not wants_json():
        say_answer(run_plan_answer(planned.plan, name, planned.left_out))
    if not dry_run:
        done = run_on_timeline(settings, planned)
        stale = OpenedTimeline(typed_storage(), done.timeline).stale_days(current_catalog().steps)
        say_answer(ran_answer(done, stale))
