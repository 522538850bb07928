from __future__ import annotations

import click

from backfill_assets.cli.options import TABLE, as_json, days
from backfill_assets.cli.output import awaited, say_answer, screen, wants_json
from backfill_assets.cli.wiring import open_storage
from backfill_assets.days import DayRange


@click.command()
@click.argument("table", type=TABLE, required=False)
@days("Only publications that changed one of these days.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="The most publications to list.",
)
@as_json
def history(table: str | None, days: DayRange | None, limit: int) -> None:
    """List publications, newest first: their days, what they were made of, who made them, and what they replaced.

    \b
    Examples:
      backfill history
      backfill history fact_daily_revenue --days 2017-03-01..2017-03-07
      backfill history --limit 1 --json                 the newest, for a script

    A stream's publication shows the offsets of each partition of its topic. Days that are computed from a stream show
    up to which offset it had been read. The list includes publications that are aborted or under way.
    """
    from backfill_assets.answers.history import history_answer

    with awaited("Reading the publication log"):
        answer = history_answer(open_storage(), table, days, limit)
    say_answer(answer, brief=True)
    if answer.next and not (wants_json() or screen()):
        # A script reads only lines of the table from the pipe.
        click.echo(f"Older publications are not shown: {answer.next[0]}", err=True)
