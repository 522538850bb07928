"""``backfill maintain``: compacts files, closes timelines and deletes files that nothing needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.foreground import report_progress
from backfill_assets.cli.output import say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher

if TYPE_CHECKING:
    from backfill_assets.upkeep.maintenance import Done
    from backfill_assets.upkeep.maintenance_plan import Task

_EPILOG = """
\b
Examples:
  backfill maintain --dry-run
  backfill maintain
  backfill maintain --clock-checked    after a pause of weeks, if disk space is short
"""
_MEBIBYTE = 1024 * 1024


@click.command(epilog=_EPILOG)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--clock-checked", is_flag=True, help="Count long pauses too: you have checked this machine's clock.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def maintain(dry_run: bool, clock_checked: bool, as_json: bool) -> None:
    """Compact days of many small files, close abandoned timelines, and delete files that nothing needs.

    Files that a rollback window, an open plan or a pinned version needs are kept. Starts no Spark. Readers and writers
    can work meanwhile.
    """
    from backfill_assets.upkeep.maintenance import Done, Maintenance

    settings = current_settings()
    tables = current_catalog().table_names
    found = Maintenance(open_publisher(settings), tables, settings.timeline_days, clock_checked)
    tasks = found.plan()
    done = [Done(task, "") for task in tasks] if dry_run else found.carry_out(tasks, report_progress)
    if as_json:
        say_json([_as_json(each) for each in done])
    elif tasks:
        _say(done)
        say("Nothing was done: --dry-run." if dry_run else "Done.")
    else:
        say("There is nothing to do.")


def _say(done: Sequence[Done]) -> None:
    rows = new_table("chore", "table", "items", "MiB", "why", "outcome", numbers=["items", "MiB"])
    for each in done:
        task = each.task
        size = f"{task.bytes / _MEBIBYTE:,.1f}" if task.bytes else ""
        rows.add_row(task.chore.value, task.table, f"{len(task.items):,}", size, task.why, each.outcome)
    say(rows)


def _as_json(done: Done) -> dict[str, Any]:
    task: Task = done.task
    return {
        "chore": task.chore.value,
        "table": task.table,
        "items": list(task.items),
        "bytes": task.bytes,
        "why": task.why,
        "outcome": done.outcome,
    }
