"""``backfill rewind`` and ``backfill forward``: back to a moment on a timeline, and forward again from there."""

from __future__ import annotations

import getpass
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.commands.timeline import summary_values
from backfill_assets.cli.foreground import foreground_builder, report_progress, run_info
from backfill_assets.cli.output import moment, ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings, open_publisher
from backfill_assets.days import DayRange
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.published.moments import Moment
    from backfill_assets.timeline.forward import ForwardedStep
    from backfill_assets.timeline.rewind import MomentWorthGoingTo

_EPILOG = """
\b
Examples:
  backfill rewind fact_sales_transactions --list
  backfill rewind fact_sales_transactions --before 20170601t101500-fact-daily-revenue-1a2b3c4d --on before-v1
  backfill rewind fact_sales_transactions --to 2017-06-01T12:00 --days 2017-03-01..2017-05-29 --on before-v1
"""
_FORWARD_EPILOG = """
\b
Examples:
  backfill forward before-v1 --version v2
  backfill forward before-v1 --version v2 --as with-v2      a new timeline; before-v1 stays as it is
"""
_MOST_MOMENTS = 20


@click.command(epilog=_EPILOG)
@click.argument("tables", nargs=-1, required=True)
@click.option("--to", "to", metavar="MOMENT", help="A publication, a Delta version of the first table, or a UTC time.")
@click.option("--before", metavar="PUBLICATION", help="The state just before this publication.")
@click.option("--days", "days_text", metavar="A..B", help="Only these days of TABLES.  [default: all that differ]")
@click.option("--on", "name", metavar="NAME", help="The name of the new timeline.")
@click.option("--keep-for", type=click.IntRange(min=1), metavar="DAYS", help="Forget it after so many days.")
@click.option("--list", "listing", is_flag=True, help="List the moments worth going to, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rewind(
    tables: tuple[str, ...],
    to: str | None,
    before: str | None,
    days_text: str | None,
    name: str | None,
    keep_for: int | None,
    listing: bool,
    as_json: bool,
) -> None:
    """Make a timeline on which days of TABLES are what they were at a moment, with what is computed from them.

    Files are named, and none is read or copied: it takes a second, and starts no Spark. What is published stays as it
    is. Raw is not rewound: `backfill forward` takes the rows that arrived since, once.
    """
    from backfill_assets.datasets import registry
    from backfill_assets.lakehouse.named_timelines import create_timeline, require_timeline_name
    from backfill_assets.timeline.rewind import RewindRequest, kept_for, moments_worth_going_to, rewound_timeline

    for table in tables:
        registry.table(table)
    publisher = open_publisher(current_settings())
    if listing:
        _say_moments(moments_worth_going_to(publisher.storage, tables, _MOST_MOMENTS), as_json)
        return
    if (to is None) == (before is None):
        raise click.UsageError("Give one of --to MOMENT and --before PUBLICATION; --list shows moments.")
    if name is None:
        raise click.UsageError("--on NAME is missing: how is the timeline to be called?")
    require_timeline_name(name)
    days, now = DayRange.parse(days_text) if days_text else None, publisher.now()
    asked = RewindRequest(name, tables, days, getpass.getuser(), kept_for(keep_for, now))
    found = _moment(publisher.storage, to, before, tables[0])
    made = create_timeline(publisher.storage, rewound_timeline(publisher.storage, registry.steps(), asked, found, now))
    if as_json:
        say_json(summary_values(made))
        return
    rows = new_table("table", "days", "which days", numbers=["days"])
    for table, held in made.days.items():
        rows.add_row(table, f"{len(held):,}", ranges([each.day for each in held], most=3))
    say(rows, *(f"read by then: {line}" for line in made.read_up_to))
    say(f"On {name}, these days are as of {made.moment}. What is published has not changed.")
    say(f"  backfill forward {name} --version V     computes them again, by the logic V")


def _moment(storage: Storage, to: str | None, before: str | None, table: str) -> Moment:
    from backfill_assets.published.moments import find_moment, moment_before

    return moment_before(storage, before) if before is not None else find_moment(storage, to or "", table)


def _say_moments(found: Sequence[MomentWorthGoingTo], as_json: bool) -> None:
    if as_json:
        values = [
            {
                "publication": each.publication,
                "at": each.at,
                "by": each.by,
                "days": each.changed,
                "versions": each.versions,
            }
            for each in found
        ]
        say_json(values)
        return
    rows = new_table("publication", "at", "by", "changed")
    for each in found:
        changed = "; ".join(
            f"{table}: {format_count(count, 'day')} of {', '.join(each.versions[table]) or 'unknown'}"
            for table, count in each.changed.items()
        )
        rows.add_row(each.publication, moment(each.at), each.by, changed)
    say(rows, "--to goes to the state after a publication, --before to the one just before it.")


@click.command(epilog=_FORWARD_EPILOG)
@click.argument("name")
@click.option(
    "--version", default="", metavar="V", help="The version of the rewound tables.  [default: the current one]"
)
@click.option("--as", "other", metavar="OTHER", help="Go forward on a new timeline; NAME stays as it is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def forward(name: str, version: str, other: str | None, as_json: bool) -> None:
    """Compute the days of a timeline again, from the state that it was rewound to.

    Raw is read as it is now. Days that are right already are kept; days that main or another timeline has computed from
    the same inputs by the same version are used as they are. If nothing is left to compute, Spark is not started. Days
    that fail their gates stay as they were, with all that reads them.
    """
    from backfill_assets.datasets import registry
    from backfill_assets.lakehouse.named_timelines import find_timeline
    from backfill_assets.timeline.attempts import attempt_forward
    from backfill_assets.timeline.forward import forward as go_forward

    settings = current_settings()
    publisher = open_publisher(settings)
    found = find_timeline(publisher.storage, name, publisher.now())
    change = f"forward from {found.moment or 'its base'}" + (f" by {version}" if version else "")
    with ExitStack() as stack:
        lake = foreground_builder(settings, stack).lake
        run = run_info("backfill forward")
        done = attempt_forward(
            publisher,
            found,
            other,
            getpass.getuser(),
            change,
            lambda timeline: go_forward(lake, registry.steps(), timeline, version, run, report_progress),
        )
    made = done.timeline
    if as_json:
        say_json({**summary_values(made), "steps": [_step_values(each) for each in done.steps]})
        return
    numbers = ("kept", "from main", "staged", "held back")
    rows = new_table("table", "version", *numbers, numbers=numbers)
    for each in done.steps:
        counts = (len(each.kept), len(each.from_main), len(each.staged), len({held.day for held in each.held_back}))
        rows.add_row(each.step, each.version, *(f"{count:,}" for count in counts))
    say(rows, *(f"held back: {line}" for line in made.held_back))
    say(f"{made.name} went forward. What is published has not changed. backfill timeline show {made.name}")


def _step_values(each: ForwardedStep) -> dict[str, object]:
    return {
        "step": each.step,
        "version": each.version,
        "kept": list(each.kept),
        "from_main": list(each.from_main),
        "staged": list(each.staged),
        "held_back": {str(held.day): held.why for held in each.held_back},
    }
