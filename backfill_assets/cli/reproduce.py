"""``backfill reproduce``: prove that published days can be computed again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

import click
from rich.text import Text

from backfill_assets.cli.output import ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings
from backfill_assets.errors import BackfillError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_assets.build.reproduce import Reproduced
    from backfill_assets.settings import Settings

_EPILOG = """
\b
Examples:
  backfill history fact_sales_transactions --limit 1     find the publication
  backfill reproduce <publication>
"""


class NotReproduced(BackfillError):
    """The same inputs and code gave other rows than those that were published."""


@click.command(epilog=_EPILOG)
@click.argument("publication")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reproduce(publication: str, as_json: bool) -> None:
    """Stage the days of PUBLICATION again from the inputs it recorded, and compare rows and checksums.

    Publishes nothing. Starts Spark. The exit code is 1 when a day came out different.
    """
    with ExitStack() as stack:
        days = _staged_again(current_settings(), publication, stack)
    if as_json:
        say_json([_as_json(day) for day in days])
    else:
        _say(days)
    different = [day for day in days if not day.equal]
    if different:
        raise NotReproduced(
            f"{publication}: {len(different)} of {len(days)} days came out different.",
            hint="Compare the git commit in backfill history with this one: logic was changed without a new version?",
        )


def _staged_again(settings: Settings, publication: str, stack: ExitStack) -> Sequence[Reproduced]:
    from backfill_assets.build import Builder
    from backfill_assets.lakehouse.published import closing_entry
    from backfill_assets.lakehouse.session import spark_session
    from backfill_assets.lakehouse.storage import Storage

    closing_entry(Storage(str(settings.lakehouse)), publication)

    @cache
    def spark() -> SparkSession:
        return stack.enter_context(spark_session(settings, f"backfill reproduce {publication}"))

    return Builder.from_settings(settings, spark).reproduce(publication)


def _say(days: Sequence[Reproduced]) -> None:
    rows = new_table("table", "days", "rows", "came out", "which", numbers=["days", "rows"])
    for table in dict.fromkeys(day.table for day in days):
        for equal, words in ((True, Text("equal", "green")), (False, Text("different", "bold red"))):
            found = [day for day in days if day.table == table and day.equal == equal]
            if found:
                total = sum(day.rows_published for day in found)
                rows.add_row(table, f"{len(found):,}", f"{total:,}", words, ranges(day.day for day in found))
    say(rows)
    for day in [day for day in days if not day.equal][:10]:
        say(
            f"{day.table} {day.day}: published {day.rows_published:,} rows, checksum {day.published_checksum};"
            f" now {day.rows_staged:,} rows, checksum {day.staged_checksum}"
        )


def _as_json(day: Reproduced) -> dict[str, object]:
    return {
        "table": day.table,
        "day": day.day,
        "equal": day.equal,
        "rows_published": day.rows_published,
        "rows_staged": day.rows_staged,
        "published_checksum": day.published_checksum,
        "staged_checksum": day.staged_checksum,
    }
