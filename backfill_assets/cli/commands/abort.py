"""``backfill abort``: give up a publication that is open and cannot be finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.text import Text

from backfill_assets.cli.completion import complete_publication
from backfill_assets.cli.foreground import run_info
from backfill_assets.cli.ids import find_publication
from backfill_assets.cli.output import ask, ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings, open_publisher

if TYPE_CHECKING:
    from backfill_assets.lakehouse.records import Prepared

_EPILOG = """
\b
Examples:
  backfill history --limit 5                    find the publication: it is "open" or "aborting"
  backfill abort <publication>                  look, then say yes
  backfill abort <publication> --yes --reason "row tracking was switched on"
"""


@click.command(epilog=_EPILOG)
@click.argument("publication", shell_complete=complete_publication)
@click.option("--reason", default="", help="The reason, for the history.")
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def abort(publication: str, reason: str, yes: bool, as_json: bool) -> None:
    """Give up a publication that is open and cannot be finished, in all its tables.

    First stop the process that makes the publication. Its days get back what they held before; days that another
    writer has changed since are left alone. A table that accepts no commit is left as it is and named, and readers of
    the publication log keep the version that they had. The history records who aborted it and why.
    """
    from backfill_assets.published.reading import anything_published, unknown_publication

    publisher = open_publisher(current_settings())
    publication = find_publication(publisher.storage, publication)
    known = publisher.log.find_prepared(publication) if anything_published(publisher.storage) else None
    if known is None:
        raise unknown_publication(publisher.storage, publication)
    publisher.require_open(publication)
    if not as_json:
        _say_plan(known[0])
    if not yes:
        ask("Give this up?")
    left = publisher.abort(publication, by=run_info("backfill abort").launched_by, reason=reason)
    if as_json:
        say_json({"publication": publication, "outcome": "aborted", "left_as_it_is": left})
    else:
        _say_result(publication, left)


def _say_plan(prepared: Prepared) -> None:

    rows = new_table("table", "days", "which days", numbers=["days"])
    for change in prepared.publication.tables:
        days = [day.day for day in change.days]
        rows.add_row(change.table, f"{len(days):,}", ranges(days))
    say(f"Giving up {prepared.publication.id} ({prepared.publication.kind}):", rows)


def _say_result(publication: str, left: dict[str, str]) -> None:
    say(Text.assemble(("Aborted", "bold green"), f": {publication}."))
    for table, why in left.items():
        say(f"{table} is left as it is: {why}")
    if left:
        say("Days of these tables that are shown as a foreign write are built again by a run: backfill status")
