"""``backfill positions``: what had been read of each source at any published state of a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.completion import complete_publication, complete_table
from backfill_assets.cli.ids import find_publication
from backfill_assets.cli.output import ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.errors import InvalidRequest
from backfill_assets.published.boundaries import boundary_values, read_text, versions_text
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.published.boundaries import DaysBoundary, RawBoundary
    from backfill_assets.published.snapshot import Snapshot

_EPILOG = """
\b
Examples:
  backfill positions raw_sales
  backfill positions fact_daily_revenue
  backfill positions raw_sales --at 2017-06-01T12:00
  backfill positions bronze_sales --version 12 --json
"""


@click.command(epilog=_EPILOG)
@click.argument("table", shell_complete=complete_table)
@click.option(
    "--publication", shell_complete=complete_publication, metavar="P", help="As of when this publication was closed."
)
@click.option("--version", type=click.IntRange(min=0), metavar="N", help="At this Delta version of TABLE.")
@click.option("--at", "at_text", metavar="TIME", help="As of this moment, in UTC unless it says otherwise.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def positions(table: str, publication: str | None, version: int | None, at_text: str | None, as_json: bool) -> None:
    """Show what had been read of each source when TABLE was in a published state; the newest by default.

    Of a raw table, the next offset to read of each partition of its topics, and its landed files. Of any other table,
    the same for the raw versions that its days were computed from: "up to offset N" means that all events before N had
    been read, and none from N on. "live since N" is the offset at which history ended. Starts no Spark.
    """
    from backfill_assets.published.positions import table_boundaries

    current_catalog().table(table)
    if sum(each is not None for each in (publication, version, at_text)) > 1:
        raise click.UsageError("Give one of --publication, --version and --at.")
    settings = current_settings()
    publication = find_publication(open_storage(settings), publication) if publication else None
    snapshot = _snapshot(open_storage(settings), table, publication, version, at_text)
    if table not in snapshot.versions and not (publication or at_text):
        raise InvalidRequest(
            f"Nothing was published to {table} in {settings.lakehouse}.", hint="backfill run builds it."
        )
    found = table_boundaries(snapshot, table)
    if as_json:
        boundaries = [boundary_values(each) for each in found]
        version_of = snapshot.versions[table]
        say_json({"table": table, "version": version_of, "log_entry": snapshot.sequence, "boundaries": boundaries})
        return
    if found and not found[0].days:
        _say_raw(found[0].boundary)
    elif found:
        _say_days(found)
    else:
        say(f"No published day of {table} says which raw version it was computed from.")
    say(f"{table} version {snapshot.versions[table]}, as of entry {snapshot.sequence} of the publication log.")


def _snapshot(
    storage: Storage, table: str, publication: str | None, version: int | None, at_text: str | None
) -> Snapshot:
    from backfill_assets.published.positions import snapshot_at, snapshot_of, snapshot_with
    from backfill_assets.published.snapshot import Snapshot

    if publication is not None:
        return snapshot_of(storage, publication)
    if version is not None:
        return snapshot_with(storage, table, version)
    return Snapshot.newest(storage) if at_text is None else snapshot_at(storage, _moment(at_text))


def _moment(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # in UTC, the year can be one that Python has not
        raise InvalidRequest(f"{text!r} is no moment.", hint="Write it as 2017-06-01T12:00, in UTC.") from None


def _say_raw(boundary: RawBoundary) -> None:
    rows = new_table(
        "topic", "partition", "up to offset", "live since", numbers=["partition", "up to offset", "live since"]
    )
    for each in boundary.positions:
        live = "" if each.live_since is None else f"{each.live_since:,}"
        rows.add_row(each.topic, str(each.partition), f"{each.next_offset:,}", live)
    if boundary.positions:
        say(rows)
    if boundary.landed_files:
        say(f"{format_count(boundary.landed_files, 'landed file')}, the newest of {boundary.newest_arrival}.")
    if boundary.unknown:
        say(f"{boundary.unknown[:1].upper()}{boundary.unknown[1:]}.")


def _say_days(found: Sequence[DaysBoundary]) -> None:
    rows = (
        (ranges(each.days), f"{each.boundary.table} {versions_text(each.boundary.versions)}", read_text(each.boundary))
        for each in found
    )
    say(new_table("days", "computed from", "which had read", rows=rows))
