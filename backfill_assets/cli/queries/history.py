"""``backfill history``: what was published, rolled back or aborted, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from backfill_assets.cli.completion import complete_days, complete_table
from backfill_assets.cli.ids import Show, short_ids
from backfill_assets.cli.output import moment, ranges, say, say_json, screen, short_commit
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.days import DayRange, contiguous
from backfill_assets.published.boundaries import boundary_line, boundary_values
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from backfill_assets.published.history import InputSummary, PublicationRecord, TablePart
    from backfill_assets.published.stream_positions import PartitionRead

_LEFT_OUT_FIRST = ("replaces", "rows", "by", "from", "days", "code", "when", "outcome")
_COLOURS = {"done": "green", "aborted": "red", "aborting": "red", "open": "yellow"}
_EPILOG = """
\b
Examples:
  backfill history
  backfill history fact_daily_revenue --days 2017-03-01..2017-03-07
  backfill history --limit 1 --json
"""


@click.command(epilog=_EPILOG)
@click.argument("table", shell_complete=complete_table, required=False)
@click.option(
    "--days",
    "days_text",
    shell_complete=complete_days,
    metavar="A..B",
    help="Only publications that changed one of these days.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="The most publications to list."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def history(table: str | None, days_text: str | None, limit: int, as_json: bool) -> None:
    """List publications, newest first: their days, their inputs, who made them, and what they replaced.

    Of a stream's publication, the offsets of each partition of its topic; of days that are computed from a stream, up
    to which offset it had been read. Aborted publications, and those that are under way, are listed too.
    """
    from backfill_assets.published.history import history as publication_records
    from backfill_assets.published.history import inputs

    days = DayRange.parse(days_text) if days_text else None
    if table is not None:
        _check_table(table)
    settings = current_settings()
    storage = open_storage(settings)
    found = publication_records(storage, table, days, most=limit + 1)
    made_from = inputs(storage, found[:limit])
    if as_json:
        say_json([_as_json(record, made_from[record.publication, record.prepared_at]) for record in found[:limit]])
    elif found:
        _say(found[:limit], made_from, short_ids(storage))
        if len(found) > limit:
            # On a pipe it is no line of the table that a script reads.
            click.echo(f"Older publications are not shown: --limit {5 * limit}", err=not screen())
    elif table or days:
        say(f"No such publication in {settings.lakehouse}.")
    else:
        say(f"Nothing was published in {settings.lakehouse} yet.")


def _check_table(table: str) -> None:

    current_catalog().table(table)


def _say(
    found: Iterable[PublicationRecord], made_from: Mapping[tuple[str, datetime], InputSummary], show: Show
) -> None:
    columns = ("publication", "when", "outcome", "table", "days", "rows", "code", "from", "replaces", "by")
    rows = new_table(*columns, numbers=["rows"], groups=("publication", "when", "outcome"), drop=_LEFT_OUT_FIRST)
    for record in found:
        first = (show(record.publication), moment(record.closed_at or record.prepared_at), _outcome(record))
        made = made_from[record.publication, record.prepared_at]
        by, source = _by(record, made), _from(made)
        for step, (_, version) in record.switches.items():
            rows.add_row(*first, step, "switched", "", f"to {version or 'the declared version'}", "", "", by)
            by = ""
        for name, part in sorted(record.tables.items()):
            counted, code, replaces = _part(record, part, show)
            rows.add_row(*first, name, ranges(part.days), counted, code, source, replaces, by)
            by, source = "", []
        rows.add_section()
    say(rows)


def _outcome(record: PublicationRecord) -> Text:
    return Text.assemble(f"{record.kind} ", (record.outcome, _COLOURS.get(record.outcome, "")))


def _part(record: PublicationRecord, part: TablePart, show: Show) -> tuple[str, str, str]:
    rows = f"{part.rows:,}" if record.outcome == "done" else ""
    return rows, ", ".join(sorted(part.code_versions)), _few([show(each) for each in sorted(part.replaces)])


def _few(publications: list[str], most: int = 2) -> str:
    more = [f"and {len(publications) - most} more"] if len(publications) > most else []
    return ", ".join(publications[:most] + more)


def _from(made: InputSummary) -> list[str]:
    read = [f"{table} v{version}" for table, version in sorted(made.read, key=str) if version is not None]
    staged = [f"{table} of the same publication" for table in made.staged]
    landed = [format_count(len(made.landed), "landed file")] if made.landed else []
    partitions = [str(each) for each in made.partitions]
    boundaries = [boundary_line(each) for each in made.boundaries]
    return [line for line in (", ".join(read + staged + landed), *partitions, *boundaries) if line]


def _by(record: PublicationRecord, made: InputSummary) -> str:
    stale = "; ".join(f"{table} {ranges(days)}" for table, days in made.leaves_stale.items())
    facts = (
        record.launched_by,
        record.run and f"run {record.run[:8]}",
        record.git_commit and f"git {short_commit(record.git_commit)}",
        made.approved_by and f"approved by {made.approved_by}",
    )
    return ", ".join(
        fact for fact in (*facts, record.campaign, record.reason, stale and f"leaves stale: {stale}") if fact
    )


def _as_json(record: PublicationRecord, made: InputSummary) -> dict[str, Any]:
    names = ("publication", "kind", "outcome", "prepared_at", "closed_at", "run", "launched_by", "git_commit")
    return {
        **{name: getattr(record, name) for name in (*names, "campaign", "reason", "rows")},
        "tables": {name: _part_json(part) for name, part in sorted(record.tables.items())},
        "switches": {step: {"from": former, "to": version} for step, (former, version) in record.switches.items()},
        "inputs": [
            *(_input_json(table, version, days) for (table, version), days in made.read.items()),
            *(
                _input_json(table, record.tables[table].version, days, same_publication=True)
                for table, days in made.staged.items()
            ),
        ],
        "approved_by": made.approved_by,
        "leaves_stale": dict(made.leaves_stale),
        "landed": list(made.landed),
        "partitions": [_partition_json(each) for each in made.partitions],
        "boundaries": [boundary_values(each) for each in made.boundaries],
        "made_with": [environment.model_dump() for environment in made.environments],
    }


def _input_json(
    table: str, version: int | None, days: Iterable[date], *, same_publication: bool = False
) -> dict[str, Any]:
    """``version`` of an input that the same publication brings is the one that it made."""
    return {
        "table": table,
        "version": version,
        "days": [str(item) for item in contiguous(days)],
        "same_publication": same_publication,
    }


def _partition_json(read: PartitionRead) -> dict[str, Any]:
    """``to`` is the next offset to read."""
    place = {"source": read.source, "topic": read.topic, "partition": read.partition}
    return {**place, "from": read.first, "to": read.end}


def _part_json(part: TablePart) -> dict[str, Any]:
    return {
        "days": [str(item) for item in contiguous(part.days)],
        "rows": part.rows,
        "table_version": part.version,
        "code_versions": sorted(part.code_versions),
        "replaces": sorted(part.replaces),
    }
