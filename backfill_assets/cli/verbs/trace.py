from __future__ import annotations

from datetime import date

import click

from backfill_assets.cli.completion import complete_table
from backfill_assets.cli.options import DAY, TABLE, as_json, on_timeline, personal_value
from backfill_assets.cli.output import awaited, say_answer
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher


@click.command()
@click.argument("key")
@click.argument("within", nargs=-1, metavar="[TABLE] [DAY]", shell_complete=complete_table)
@on_timeline
@as_json
def trace(key: str, within: tuple[str, ...], on: str | None) -> None:
    """Follow the row with KEY from its landed line through raw and fact to each report; of TABLE or DAY alone if given.

    \b
    Examples:
      backfill trace 32074897568-825412                              a row of a fact
      backfill trace USD bronze_fx_rates 2017-03-01                  a row of this table and day
      backfill trace @/2016-02-15T00:30:00Z                          @ is a personal value, which it asks for

    It reads all tables as of one entry of the publication log; without TABLE, each with one row a key. KEY is the key
    of a bronze or fact table, with a slash between columns: B01/2016-02-15T00:30:00Z. Starts no Spark.

    Personal fields are shown as tokens, and are tokens in KEY. Write @ for a token that you do not know: the command
    asks for the value, or reads it from the standard input.
    """
    from backfill_assets.answers.trace import look_at_row, trace_answer, with_token
    from backfill_assets.landing.zone import LandingZone

    settings = current_settings()
    publisher = open_publisher()
    table, day = _table_and_day(within)
    if (personal := personal_value(key)) is not None:
        key = with_token(key, personal, publisher.storage, settings.token_key_file)
    with awaited("Following the row"):
        found = look_at_row(publisher, LandingZone(settings.landing), current_catalog(), key, table, day, on)
    say_answer(trace_answer(found))


def _table_and_day(within: tuple[str, ...]) -> tuple[str | None, date | None]:
    """A word that begins with a digit is a day."""
    days = [word for word in within if word[:1].isdigit()]
    tables = [word for word in within if word not in days]
    if len(days) > 1 or len(tables) > 1:
        raise click.UsageError("Behind KEY comes one TABLE at most, and one DAY.")
    table = TABLE.convert(tables[0], None, None) if tables else None
    return table, DAY.convert(days[0], None, None) if days else None
