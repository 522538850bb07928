"""``backfill switch``: makes another version of a step current, with its days on standby, in one publication."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.completion import complete_table, complete_version
from backfill_assets.cli.foreground import foreground_builder, run_info
from backfill_assets.cli.ids import short_ids
from backfill_assets.cli.output import ask, ranges, say, say_json, say_stale
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings

if TYPE_CHECKING:
    from backfill_assets.timeline.switch import SwitchPlan

_EPILOG = """
\b
Examples:
  backfill switch fact_sales_transactions v1
  backfill switch fact_sales_transactions v1 --dry-run
  backfill switch fact_sales_transactions v2 --new-days-only
"""


@click.command(epilog=_EPILOG)
@click.argument("step", shell_complete=complete_table)
@click.argument("version", shell_complete=complete_version)
@click.option("--new-days-only", is_flag=True, help="Days that are published stay as they are.")
@click.option("--dry-run", is_flag=True, help="Show what would be published, and stop.")
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def switch(step: str, version: str, new_days_only: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Make VERSION of STEP the current one, with all of its days that are on standby and what is computed from them.

    One publication brings the days and the version, or nothing; it reads no rows, copies no file, and takes about a
    second. What was published becomes the standby of the version that was current: the way back is another switch, or
    `backfill rollback`. A standby that is behind is refused: `backfill standby refresh` brings it up to date.
    """
    from backfill_assets.timeline.switch import carry_out_switch, plan_switch

    name = current_catalog().step(step).name
    with ExitStack() as stack:
        lake = foreground_builder(current_settings(), stack).lake
        plan = plan_switch(lake, current_catalog().steps, name, version, new_days_only=new_days_only)
        if not as_json:
            _say_plan(plan)
        if dry_run:
            _say_dry(plan, as_json)
            return
        if not yes:
            ask(f"Switch {name} to {version}?")
        done = carry_out_switch(lake, plan, run_info("backfill switch"))
    if as_json:
        say_json({**_values(plan), "publication": done.publication})
        return
    short = short_ids(lake.storage)(done.publication)
    say(f"{name} is switched to {version} by {short}.")
    say(f"To undo: backfill rollback {short}")


def _say_plan(plan: SwitchPlan) -> None:
    say(f"{plan.step.name}: from {plan.former} to {plan.version}.")
    if plan.standby is None:
        say("Days that are published keep the version that they were published with; new days get this one.")
        return
    numbers = ("days", "with other rows")
    rows = new_table("table", *numbers, "which days", numbers=numbers)
    for change in plan.changes:
        days = [each.day for each in change.days]
        rows.add_row(change.table, f"{len(days):,}", f"{plan.differing[change.table]:,}", ranges(days, most=3))
    say(rows)
    say_stale(plan.leaves_stale)


def _say_dry(plan: SwitchPlan, as_json: bool) -> None:
    if as_json:
        say_json({**_values(plan), "publication": None})
    else:
        say("Nothing was done: --dry-run.")


def _values(plan: SwitchPlan) -> dict[str, Any]:
    return {
        "step": plan.step.name,
        "from": plan.former,
        "to": plan.version,
        "new_days_only": plan.standby is None,
        "days": {change.table: len(change.days) for change in plan.changes},
        "differing": dict(plan.differing),
        "leaves_stale": dict(plan.leaves_stale),
    }
