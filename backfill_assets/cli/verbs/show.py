from __future__ import annotations

from datetime import date

import click

from backfill_assets.cli.options import PUBLICATION, as_json, day, long, on_timeline, table
from backfill_assets.cli.output import awaited, say_answer
from backfill_assets.cli.wiring import current_catalog, open_storage


@click.command()
@table
@day
@click.option("--at", type=PUBLICATION, help="After this publication.  [default: now]")
@on_timeline
@long
@as_json
def show(table: str, day: date, at: str | None, on: str | None) -> None:
    """Show one DAY of TABLE: its status, publication and first rows; with --long also metrics, inputs and files.

    \b
    Examples:
      backfill show fact_daily_revenue 2017-03-01
      backfill show fact_daily_revenue 2017-03-01 --at <publication>    as it was then
      backfill show fact_daily_revenue 2017-03-01 --on with-v2          on a timeline

    Reads published data as of one entry of the publication log. Starts no Spark.
    """
    from backfill_assets.answers.day import day_answer, look_at_day, look_at_day_on_timeline

    if on is not None and at is not None:
        raise click.UsageError("Give one of --on NAME and --at PUBLICATION.")
    storage, steps = open_storage(), current_catalog().steps
    with awaited("Reading the day"):
        if on is not None:
            found = look_at_day_on_timeline(storage, steps, table, day, on)
        else:
            found = look_at_day(storage, steps, table, day, at)
    say_answer(day_answer(found))
