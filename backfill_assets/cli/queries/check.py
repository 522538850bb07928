"""``backfill check``: whether a declaration holds, tried on the first landed file, in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.completion import complete_dataset
from backfill_assets.cli.foreground import foreground_builder, report_progress
from backfill_assets.cli.output import say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from backfill_assets.landing.declaration_trial import CheckedFile
    from backfill_assets.model.declaration import Dataset

_EPILOG = """
\b
Examples:
  backfill check sea_temperatures
  backfill check sales --json
"""
_MOST_GATES = 10


@click.command(epilog=_EPILOG)
@click.argument("dataset", shell_complete=complete_dataset)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def check(ctx: click.Context, dataset: str, as_json: bool) -> None:
    """Try the declaration of DATASET on the first file that has landed for it.

    Shows how many of its rows would be quarantined and why, which gates would hold their day back, and which transforms
    return other columns than their contract declares. Of a long file, the first 10,000 lines are read. Starts Spark,
    which takes most of the time. Writes nothing, and needs no lakehouse.

    The exit code is 1 if a row would be quarantined, if something is wrong, or if nothing has landed.
    """
    from backfill_assets.landing.declaration_trial import check_file, prepare_for_few_rows, schema_problems

    declared = current_catalog().dataset(dataset)
    sources = [step.source for step in declared.steps if step.source is not None]
    with ExitStack() as stack:
        lake = foreground_builder(current_settings(), stack).lake
        spark = lake.spark()
        prepare_for_few_rows(spark)
        steps = [step for step in declared.steps if step.source is None]
        problems: list[str] = []
        for step in steps:
            report_progress(f"{step.name}: comparing its columns with the contract")
            problems += schema_problems(spark, step, step.version(), current_catalog().table)
        files = [
            check_file(spark, lake.landing, declared, each, current_catalog().table, report_progress)
            for each in ([] if problems else sources)
        ]
    if as_json:
        say_json({"dataset": dataset, "problems": problems, "files": [_as_json(each) for each in files]})
    else:
        _say(declared, problems, files)
    if problems or not all(each.good for each in files):
        ctx.exit(1)


def _say(dataset: Dataset, problems: Sequence[str], files: Sequence[CheckedFile]) -> None:
    for problem in problems:
        say(problem)
    if not problems:
        steps, tables = format_count(len(dataset.steps), "step"), format_count(len(dataset.tables), "table")
        say(f"{dataset.name}: {steps} and {tables} are declared soundly.")
    for each in files:
        _say_file(each)


def _say_file(checked: CheckedFile) -> None:
    cut = "" if checked.whole else f" The first {checked.rows:,} rows were read."
    because = ", because:" if checked.quarantined else "."
    say(f"{checked.file}: {checked.quarantined:,} of {checked.rows:,} rows would be quarantined{because}{cut}")
    if checked.reasons:
        numbers = ("rows", "first line")
        rows = [(each.reason, f"{each.rows:,}", f"{each.line:,}", each.example) for each in checked.reasons]
        say(new_table("reason", *numbers, "example", rows=rows, numbers=numbers))
    for broken in checked.broken[:_MOST_GATES]:
        rule = broken.outcome
        say(f"{broken.table} {broken.day} would be held back by {rule.rule}: {rule.observed}, expected {rule.expected}")
        say(f"  -> {rule.next_step}")
    if len(checked.broken) > _MOST_GATES:
        say(f"and {len(checked.broken) - _MOST_GATES} more: --json has all of them")


def _as_json(checked: CheckedFile) -> dict[str, Any]:
    return {**asdict(checked), "good": checked.good}
