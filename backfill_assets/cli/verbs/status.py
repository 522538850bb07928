from __future__ import annotations

from dataclasses import replace

import click

from backfill_assets.cli.campaigns import campaign_run, say_campaign
from backfill_assets.cli.completion import complete_table_or_plan
from backfill_assets.cli.ids import is_plan
from backfill_assets.cli.options import as_json, days, on_timeline
from backfill_assets.cli.output import awaited, say_answer
from backfill_assets.cli.selections import tables_meant
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher
from backfill_assets.days import DayRange


@click.command()
@click.argument("tables", shell_complete=complete_table_or_plan, nargs=-1, metavar="[TABLES...|PLAN]")
@days("Only these days.  [default: all known days]")
@on_timeline
@as_json
@click.pass_context
def status(ctx: click.Context, tables: tuple[str, ...], days: DayRange | None, on: str | None) -> None:
    """Show which days of TABLES, or of every table, are fresh, stale, missing or changed by another writer.

    \b
    Examples:
      backfill status                                     which days of which tables are stale
      backfill status fact_daily_revenue --on trial       day by day, as they are on a timeline
      backfill status +fact_daily_revenue                 and of all that it is computed from
      backfill status stale:                              the stale tables, day by day; stale:sales of a dataset
      backfill status plan-0123456789abcdef               each step of a campaign, and what comes next

    Tables that are named are shown day by day. Reads the publication log and the Delta logs only: no data is read but
    the reasons of rejected rows, and Spark is not started. The exit code is 0 for every status,
    and 1 if a named table cannot be read; all others are shown.

    Datasets that are declared wrong are left out, and named with what is wrong; all others are shown.

    Files that have landed and that raw has not taken in are counted in a line of their own, and so are days that others
    have written since their table was looked at.

    A day may pass its gates and lack rows, those that were rejected: the worst day of each source is named. A timeline
    shows its own days, and those of its base.

    With PLAN, show how far its campaign is: its nine steps, their results, its newest difference, and what comes next.
    """
    if any(map(is_plan, tables)):
        _of_plan(tables, days, on)
        return
    from backfill_assets.answers.status import look_at_main, look_at_timeline, status_answer
    from backfill_assets.landing.zone import LandingZone

    chosen = tables_meant(tables)
    publisher, catalog = open_publisher(), current_catalog()
    steps = catalog.steps
    with awaited("Reading the logs"):
        if on is None:
            zone = LandingZone(current_settings().landing)
            found = look_at_main(publisher.storage, steps, chosen, days, zone, catalog.datasets)
        else:
            found = look_at_timeline(publisher, on, steps, chosen, days)
    say_answer(status_answer(replace(found, left_out=catalog.left_out)))
    if not found.observed.unreadable.keys().isdisjoint(chosen):
        ctx.exit(1)


def _of_plan(tables: tuple[str, ...], days: DayRange | None, on: str | None) -> None:
    if len(tables) > 1 or days or on:
        raise click.UsageError("A plan is shown alone: give its id, or tables.")
    with campaign_run(tables[0], "backfill status") as at:
        say_campaign(at, journal=True)
