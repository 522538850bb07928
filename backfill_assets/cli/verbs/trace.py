from __future__ import annotations

from datetime import date

import click

from backfill_assets.cli.options import DAY, TABLE, as_json, on_timeline, personal_value
from backfill_assets.cli.output import awaited, say_answer
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher


@click.command()
@click.argument("key")
@click.argument("day", type=DAY, required=False)
@click.option(
    "--table",
    type=TABLE,
    help="The table that KEY belongs to.  [default: every table with one row a key]",
)
@on_timeline
@as_json
def trace(key: str, day: date | None, table: str | None, on: str | None) -> None:
    """Follow the row with KEY, of DAY alone if it is given, from its landed line through raw and fact to each report.

    \b
    Examples:
      backfill trace 32074897568-825412                              a row of a fact
      backfill trace USD 2017-03-01 --table bronze_fx_rates          a row of this table
      backfill trace @/2016-02-15T00:30:00Z                          @ is a personal value, which it asks for

    It reads all tables as of one entry of the publication log. KEY is the key of a bronze or fact table, with a slash
    between columns: B01/2016-02-15T00:30:00Z. Starts no Spark.

    Personal fields are shown as tokens, and are tokens in KEY. Write @ for a token that you do not know: the command
    asks for the value, or reads it from the standard input.
    """
    from backfill_assets.answers.trace import look_at_row, trace_answer, with_token
    from backfill_assets.landing.zone import LandingZone

    settings = current_settings()
    publisher = open_publisher()
    if (personal := personal_value(key)) is not None:
        key = with_token(key, personal, publisher.storage, settings.token_key_file)
    with awaited("Following the row"):
        found = look_at_row(publisher, LandingZone(settings.landing), current_catalog(), key, table, day, on)
    say_answer(trace_answer(found))
