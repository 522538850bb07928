"""``backfill standby``: versions of steps that are kept ready beside the current one."""

from __future__ import annotations

import getpass
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.commands.rewind import step_values
from backfill_assets.cli.completion import complete_days, complete_table, complete_version
from backfill_assets.cli.foreground import foreground_builder, report_progress, run_info
from backfill_assets.cli.output import ask, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest

if TYPE_CHECKING:
    from backfill_assets.timeline.standby import Refreshed


_EPILOG = """
\b
Examples:
  backfill standby keep fact_sales_transactions v1
  backfill standby keep fact_sales_transactions v1 --days 2017-03-01..2017-05-29
  backfill standby refresh
  backfill standby drop fact_sales_transactions v1
"""


@click.group(epilog=_EPILOG)
def standby() -> None:
    """Keep another version of a step ready beside the current one, to switch to it in a second.

    A standby has the days of the step, and of all that is computed from it, as that version gives them. It is a
    timeline: its name begins with standby-, and `backfill diff main NAME` compares it with what is published.
    """


@standby.command("keep")
@click.argument("step", shell_complete=complete_table)
@click.argument("version", shell_complete=complete_version)
@click.option(
    "--days",
    "days_text",
    shell_complete=complete_days,
    metavar="A..B",
    help="Only these days.  [default: all that are published]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def keep(step: str, version: str, days_text: str | None, as_json: bool) -> None:
    """Declare that VERSION of STEP is kept ready. Nightly runs keep it so; `backfill standby refresh` does it now."""
    from backfill_assets.timeline.standby import keep_version

    days = DayRange.parse(days_text) if days_text else None
    chosen = current_catalog().step(step)
    with ExitStack() as stack:
        lake = foreground_builder(current_settings(), stack).lake
        made = keep_version(lake, chosen, version, days, getpass.getuser())
    if as_json:
        say_json({"timeline": made.name, "step": chosen.name, "version": version, "days": days_text})
        return
    say(f"{version} of {chosen.name} is kept ready on {made.name}, for {days_text or 'all days that are published'}.")
    say(f"To compute its days now: backfill standby refresh {chosen.name}")


@standby.command("refresh")
@click.argument("step", shell_complete=complete_table, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def refresh(step: str | None, as_json: bool) -> None:
    """Bring standbys (of STEP) up to date: new days come along, days whose inputs have changed are computed again.

    What is right already is kept; if nothing is left to compute, Spark is not started. Days that fail their gates stay
    as they were, with all that reads them. What is published does not change.
    """
    from backfill_assets.timeline.standby import kept_standbys, refresh_standby

    steps, name = current_catalog().steps, current_catalog().step(step).name if step else ""
    with ExitStack() as stack:
        lake = foreground_builder(current_settings(), stack).lake
        found = kept_standbys(lake.storage, lake.publisher.now(), name)
        run = run_info("backfill standby refresh")
        done = [refresh_standby(lake, steps, each, run, report_progress) for each in found]
    if as_json:
        say_json([_values(each) for each in done])
    elif done:
        _say_refreshed(done)
    else:
        say("No version is kept on standby. backfill standby keep STEP VERSION keeps one.")


def _say_refreshed(done: list[Refreshed]) -> None:
    numbers = ("kept", "from main", "staged", "held back")
    rows = new_table("standby", "table", "version", *numbers, numbers=numbers, groups=["standby"])
    for each in done:
        for part in each.steps:
            counts = (part.kept, part.from_main, part.staged, {held.day for held in part.held_back})
            rows.add_row(each.timeline.name, part.step, part.version, *(f"{len(count):,}" for count in counts))
        if each.note:
            rows.add_row(each.timeline.name, each.note, "", "", "", "", "")
    say(rows, *(f"held back: {line}" for each in done for line in each.timeline.held_back))


def _values(each: Refreshed) -> dict[str, Any]:
    return {
        "timeline": each.timeline.name,
        "step": each.standby.step,
        "version": each.standby.version,
        "note": each.note,
        "steps": [step_values(part) for part in each.steps],
        "held_back": list(each.timeline.held_back),
    }


@standby.command("drop")
@click.argument("step", shell_complete=complete_table)
@click.argument("version", shell_complete=complete_version)
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(step: str, version: str, yes: bool) -> None:
    """Keep VERSION of STEP ready no longer. What is published does not change."""
    from backfill_assets.lakehouse.named_timelines import delete_timeline
    from backfill_assets.model.graph import step_by_table
    from backfill_assets.timeline.standby import find_standby

    publisher = open_publisher(current_settings())
    declared = step_by_table(current_catalog().steps).get(step)
    name = declared.name if declared else step  # a standby outlives the declaration of its step
    found = find_standby(publisher.storage, publisher.now(), name, version)
    if found is None:
        raise InvalidRequest(f"{version} of {name} is not on standby.", hint="backfill versions lists what is.")
    if not yes:
        ask(f"Forget {found.name}?")
    delete_timeline(publisher.storage, found, publisher.now())
    say(f"{found.name} is deleted. Nothing that is published changed.")
