"""``backfill dataset``: try what a dataset declares."""

from __future__ import annotations

from contextlib import ExitStack

import click

from backfill_assets.cli.completion import complete_dataset
from backfill_assets.cli.foreground import foreground_builder, report_progress
from backfill_assets.cli.options import as_json
from backfill_assets.cli.output import say_answer
from backfill_assets.cli.wiring import current_catalog, current_settings

_EPILOG = """
\b
Examples:
  backfill dataset check sea_temperatures
  backfill dataset check sales --json
"""


@click.group(epilog=_EPILOG)
def dataset() -> None:
    """Work on the declaration of a dataset."""


@dataset.command(epilog=_EPILOG)
@click.argument("name", shell_complete=complete_dataset)
@as_json
@click.pass_context
def check(ctx: click.Context, name: str) -> None:
    """Try the declaration of the dataset NAME on the first file that has landed for it.

    Shows how many of its rows would be quarantined and why, which gates would hold their day back, and which transforms
    return other columns than their contract declares. Of a long file, the first 10,000 lines are read. Starts Spark,
    which takes most of the time. Writes nothing, and needs no lakehouse.

    The exit code is 1 if a row would be quarantined, if something is wrong, or if nothing has landed.
    """
    from backfill_assets.answers.declaration import trial_answer, try_declaration

    catalog = current_catalog()
    declared = catalog.dataset(name)
    with ExitStack() as stack:
        lake = foreground_builder(current_settings(), stack).lake
        found = try_declaration(lake, declared, catalog.table, report_progress)
    say_answer(trial_answer(found))
    if not found.is_good:
        ctx.exit(1)
