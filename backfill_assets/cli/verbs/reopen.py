"""The command ``backfill reopen``."""

from __future__ import annotations

import click

from backfill_assets.cli.options import MONTH, TABLE, as_json
from backfill_assets.cli.output import say_answer
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher
from backfill_assets.days import DayRange


@click.command()
@click.argument("days", type=MONTH, metavar="DAYS")
@click.argument("table", type=TABLE, required=False)
@click.option("--reason", required=True, metavar="TEXT", help="Why: others read it wherever the days are shown.")
@as_json
def reopen(days: DayRange, table: str | None, reason: str) -> None:
    """Reopen DAYS that are closed, of every table or of TABLE alone. What has waited for them is then built by repairs.

    \b
    Examples:
      backfill reopen 2017-03 --reason "returns of April"
      backfill reopen 2017-03-04 fact_daily_revenue --reason "a wrong rate"

    Days that a declaration closes (closed_before) are reopened once it says so no more. Where BACKFILL_APPROVAL_BY
    asks for others, another person has to type the same.
    """
    from backfill_assets.answers.books import books_entry, say_of_books
    from backfill_assets.publish.closed_days import Declared
    from backfill_assets.rebuild.outcome import os_person

    catalog, publisher = current_catalog(), open_publisher()
    publisher.declared = Declared.of(catalog.steps)
    entry = books_entry(catalog, "reopen", days, table, reason, os_person())
    say_answer(say_of_books(publisher, entry, current_settings().approval_by))
