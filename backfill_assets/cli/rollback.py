"""``backfill rollback``: put back what the days held before a publication."""

from __future__ import annotations

import getpass
import secrets
import sys
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import click
from rich.text import Text

from backfill_assets.cli.output import ranges, say
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings, open_publisher
from backfill_assets.errors import InvalidRequest

if TYPE_CHECKING:
    from backfill_assets.lakehouse.publication import Prepared, TableChange
    from backfill_assets.lakehouse.publish import Published, Publisher

_EPILOG = """
\b
Examples:
  backfill history --limit 5                    find the publication
  backfill rollback <publication>               look, then say yes
  backfill rollback <publication> --yes         in a script
"""


@click.command(epilog=_EPILOG)
@click.argument("publication")
@click.option("--yes", is_flag=True, help="Do not ask. Needed where there is no terminal to ask on.")
def rollback(publication: str, yes: bool) -> None:
    """Put back what the days held before PUBLICATION, in all its tables at once.

    Copies no data and takes well under a second. Refused when a day was published again since. A rollback is a
    publication itself and can be rolled back.
    """
    publisher = open_publisher(current_settings())
    prepared = _find(publisher, publication)
    _say_plan(prepared)
    if not yes:
        _ask()
    _say_result(_roll_back(publisher, publication))


def new_rollback_id(now: datetime | None = None) -> str:
    """``rollback-20170301t112000-1a2b3c``: sorts by time (UTC), and two in the same second differ."""
    at = (now or datetime.now(UTC)).strftime("%Y%m%dt%H%M%S")
    return f"rollback-{at}-{secrets.token_hex(3)}"


def _find(publisher: Publisher, publication: str) -> Prepared:
    from backfill_assets.lakehouse.published import anything_published, unknown_publication

    found = publisher.log.find_prepared(publication) if anything_published(publisher.storage) else None
    if found is None:
        raise unknown_publication(publisher.storage, publication)
    if publisher.log.outcome(publisher.log.head(), publication) == "aborted":
        raise InvalidRequest(f"The publication {publication} was aborted: there is nothing to roll back.")
    return found[0]


def _say_plan(prepared: Prepared) -> None:
    rows = new_table(
        "table", "days", "which", "rows now", "rows then", "put back", numbers=["days", "rows now", "rows then"]
    )
    for change in prepared.publication.tables:
        rows.add_row(*_plan_of(prepared, change))
    say(f"Rolling back {prepared.publication.id} ({prepared.publication.kind}):", rows)


def _plan_of(prepared: Prepared, change: TableChange) -> tuple[str, ...]:
    before = prepared.before[change.table]
    results = [prepared.result(change.table, day.day) for day in change.days]
    now = sum(result.rows for result in results if result)
    then = sum(file.rows for day in before.values() for file in day.files)
    sources = sorted({day.publication for day in before.values() if day.publication})
    put_back = ", ".join(sources[:2]) + (f" and {len(sources) - 2} more" if len(sources) > 2 else "")
    days = [date.fromisoformat(day.day) for day in change.days]
    return change.table, f"{len(days):,}", ranges(days), f"{now:,}", f"{then:,}", put_back or "nothing: never published"


def _ask() -> None:
    if not _on_terminal():
        raise click.UsageError("There is no terminal to ask on: add --yes.")
    click.confirm("Put this back?", abort=True)


def _on_terminal() -> bool:
    return sys.stdin.isatty()


def _roll_back(publisher: Publisher, publication: str) -> Published:
    from backfill_assets.lakehouse.publication import Provenance
    from backfill_assets.lakehouse.rollback import roll_back

    provenance = Provenance(launched_by=_user(), reason=f"rollback of {publication}")
    return roll_back(publisher, publication, id=new_rollback_id(), provenance=provenance)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run under a user id without a name
        return ""


def _say_result(published: Published) -> None:
    tables = ", ".join(f"{table} (version {version})" for table, version in sorted(published.versions.items()))
    say(Text.assemble(("Rolled back", "bold green"), f": {tables}."))
    say("What was computed from these days is stale now: backfill status")
    say(f"To undo: backfill rollback {published.publication}")
