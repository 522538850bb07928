"""``backfill refresh``: reads landed files again that their source corrected, and appends the difference to raw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.completion import complete_days, complete_table
from backfill_assets.cli.foreground import foreground_builder, report_progress, run_info
from backfill_assets.cli.ids import short_ids, typed_storage
from backfill_assets.cli.output import ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings
from backfill_assets.days import DayRange
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from backfill_assets.rebuild.refresh.changed_files import ArrivalFiles
    from backfill_assets.rebuild.refresh.refresh import RefreshResult
    from backfill_assets.rebuild.refresh.row_difference import RowCounts

_KINDS = ("unchanged", "changed", "gone", "new")
_EPILOG = """
\b
Examples:
  backfill refresh raw_sales --days 2017-03-04 --dry-run
  backfill refresh raw_sales --days 2017-03-01..2017-03-07
"""


@click.command(epilog=_EPILOG)
@click.argument("table", shell_complete=complete_table)
@click.option(
    "--days",
    "days_text",
    shell_complete=complete_days,
    metavar="A..B",
    required=True,
    help="The days on which the files arrived, or that are stale.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be added and deleted, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def refresh(table: str, days_text: str, dry_run: bool, as_json: bool) -> None:
    """Read the landed files of the raw TABLE again, if their source has changed, removed or added some.

    Raw is never rewritten. It gains the rows that the source has now, and a deletion for each row that the source no
    longer has; both are published together, with the files as they were read. A row that only moved to another line or
    file of its arrival day stays as it is. What is computed from the days is stale afterwards.

    After `first_day`, `earliest_day` or `days_ahead` was declared anew, a refresh of the days that `backfill status`
    shows as stale moves their rows to the days where they belong now, events of a topic too.

    Events of a topic are not read again. A second refresh finds nothing, and starts no Spark.
    """

    step, days = current_catalog().step(table), list(DayRange.parse(days_text))
    settings = current_settings()
    with ExitStack() as stack:
        builder = foreground_builder(settings, stack)
        if dry_run:
            files, counts = builder.preview_refresh(step, days, report_progress)
            _report_preview(files, counts, as_json)
            return
        done = builder.refresh(step, days, run=run_info("backfill refresh"), progress=report_progress)
    _report_result(done, as_json)


def _report_preview(files: Sequence[ArrivalFiles], counts: RowCounts, as_json: bool) -> None:
    rows = _by_event_day(counts)
    if as_json:
        say_json({"files": [_files_json(each) for each in files], "rows": _rows_json(rows), "publication": ""})
        return
    _say_files(files, counts)
    _say_rows(rows, "would be")
    say("Nothing was done: --dry-run." if rows or _different(files) else _NOTHING)


def _report_result(done: RefreshResult, as_json: bool) -> None:
    if as_json:
        files = [_files_json(each) for each in done.files]
        say_json({"files": files, "rows": _rows_json(done.rows), "publication": done.publication})
        return
    _say_files(done.files)
    if not done.publication:
        say(_NOTHING)
        return
    for day, (added, deleted) in done.rows.items():
        say(f"{day}: {format_count(added, 'row')} {'was' if added == 1 else 'were'} added, {deleted:,} deleted")
    short = short_ids(typed_storage())(done.publication)
    say(f"Published: {short}. To undo: backfill rollback {short}")
    if done.rows:
        say(f"What is computed from {ranges(list(done.rows))} is stale now: backfill status")


_NOTHING = "Raw has just what the source has: nothing was appended."


def _by_event_day(counts: RowCounts) -> dict[date, tuple[int, int]]:
    found: dict[date, tuple[int, int]] = {}
    for (_, day), (added, deleted) in sorted(counts.items(), key=lambda each: each[0][1]):
        before = found.get(day, (0, 0))
        found[day] = before[0] + added, before[1] + deleted
    return found


def _different(files: Sequence[ArrivalFiles]) -> list[ArrivalFiles]:
    return [each for each in files if each.differs]


def _say_files(files: Sequence[ArrivalFiles], counts: RowCounts | None = None) -> None:
    shown = ("rows to add", "rows to delete") if counts is not None else ()
    rows = new_table("arrival day", *_KINDS, *shown, numbers=[*_KINDS, *shown], drop=["unchanged", *_KINDS[:1:-1]])
    for each in files:
        of_day = [row for (arrival, _), row in (counts or {}).items() if arrival == each.day]
        sums = [sum(row[at] for row in of_day) for at in range(len(shown))]
        rows.add_row(str(each.day), *(f"{len(getattr(each, kind)):,}" for kind in _KINDS), *(f"{n:,}" for n in sums))
    say(rows)


def _say_rows(found: Mapping[date, tuple[int, int]], verb: str) -> None:
    for day, (added, deleted) in found.items():
        say(f"{day}: {format_count(added, 'row')} {verb} added, {deleted:,} deleted")


def _files_json(each: ArrivalFiles) -> dict[str, Any]:
    files = {kind: [file if isinstance(file, str) else file.path for file in getattr(each, kind)] for kind in _KINDS}
    return {"arrival_day": str(each.day), **files}


def _rows_json(found: Mapping[date, tuple[int, int]]) -> dict[str, dict[str, int]]:
    return {str(day): {"added": added, "deleted": deleted} for day, (added, deleted) in found.items()}
