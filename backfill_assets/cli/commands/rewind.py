"""``backfill rewind`` and ``backfill forward``: back to a moment on a timeline, and forward again from there."""

from __future__ import annotations

import getpass
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.commands.timeline import summary_values
from backfill_assets.cli.completion import (
    complete_days,
    complete_publication,
    complete_table,
    complete_timeline,
    complete_version,
)
from backfill_assets.cli.foreground import foreground_builder, report_progress, run_info
from backfill_assets.cli.ids import Show, find_publication, short_ids
from backfill_assets.cli.ids import find_moment as find_moment_text
from backfill_assets.cli.ids import find_timeline as find_timeline_name
from backfill_assets.cli.on_timeline import say_stale, stale_json, stale_on
from backfill_assets.cli.output import moment, ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher
from backfill_assets.days import DayRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backfill_assets.lakehouse.named_timelines import ArrivedRows, NamedTimeline
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.published.moments import Moment
    from backfill_assets.timeline.forward import Forwarded, ForwardedStep
    from backfill_assets.timeline.moments_listed import MomentWorthGoingTo

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
  backfill forward before-v1 --version v2 --without-arrivals --as logic-alone
"""
_MOST_MOMENTS = 20


@click.command(epilog=_EPILOG)
@click.argument("tables", shell_complete=complete_table, nargs=-1, required=True)
@click.option(
    "--to",
    "to",
    shell_complete=complete_publication,
    metavar="MOMENT",
    help="A publication, a Delta version of the first table, or a UTC time.",
)
@click.option(
    "--before",
    shell_complete=complete_publication,
    metavar="PUBLICATION",
    help="The state just before this publication.",
)
@click.option(
    "--days",
    "days_text",
    shell_complete=complete_days,
    metavar="A..B",
    help="Only these days of TABLES.  [default: all that differ]",
)
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

    A week or month of which only a part goes back stays as published, and is named as stale: `backfill forward`
    computes it.
    """
    from backfill_assets.lakehouse.named_timelines import create_timeline, require_timeline_name
    from backfill_assets.timeline.rewind import RewindRequest, kept_for, rewound_timeline
    from backfill_assets.timeline.worth_going_to import moments_worth_going_to

    for table in tables:
        current_catalog().table(table)
    publisher = open_publisher(current_settings())
    if listing:
        moments = moments_worth_going_to(publisher.storage, tables, _MOST_MOMENTS)
        _say_moments(moments, short_ids(publisher.storage), as_json)
        return
    if (to is None) == (before is None):
        raise click.UsageError("Give one of --to MOMENT and --before PUBLICATION; --list shows moments.")
    if name is None:
        raise click.UsageError("--on NAME is missing: how is the timeline to be called?")
    require_timeline_name(name)
    days, now = DayRange.parse(days_text) if days_text else None, publisher.now()
    asked = RewindRequest(name, tables, days, getpass.getuser(), kept_for(keep_for, now))
    to = find_moment_text(publisher.storage, to) if to else None
    before = find_publication(publisher.storage, before) if before else None
    found = _moment(publisher.storage, to, before, tables[0])
    made = create_timeline(
        publisher.storage, rewound_timeline(publisher.storage, current_catalog().steps, asked, found, now)
    )
    stale = stale_on(publisher.storage, made)
    if as_json:
        say_json({**summary_values(made), "stale": stale_json(stale)})
        return
    rows = new_table("table", "days", "which days", numbers=["days"])
    for table, held in made.days.items():
        rows.add_row(table, f"{len(held):,}", ranges([each.day for each in held], most=3))
    say(rows, *(f"read by then: {line}" for line in made.read_up_to))
    say(f"On {name}, these days are as of {made.moment}. What is published has not changed.")
    say_stale(made, stale)
    say(f"  backfill forward {name} --version V     computes them again, by the logic V")


def _moment(storage: Storage, to: str | None, before: str | None, table: str) -> Moment:
    from backfill_assets.published.moments import find_moment, moment_before

    return moment_before(storage, before) if before is not None else find_moment(storage, to or "", table)


def _say_moments(found: Sequence[MomentWorthGoingTo], show: Show, as_json: bool) -> None:
    from backfill_assets.timeline.moments_listed import what_changed

    if as_json:
        say_json([_moment_values(each) for each in found])
        return
    rows = new_table("publication", "at", "by", "kind", "changed", drop=["kind", "by"])
    for each in found:
        rows.add_row(show(each.publication), moment(each.at), each.by, ", ".join(each.kinds), what_changed(each))
    say(rows, "--to goes to the state after a publication, --before to the one just before it.")
    if any(each.failed for each in found):
        say("Beside a failed gate is the publication that was the newest then: --to goes to that state.")


def _moment_values(each: MomentWorthGoingTo) -> dict[str, object]:
    gate = each.failed
    return {
        "publication": each.publication,
        "at": each.at,
        "by": each.by,
        "kinds": list(each.kinds),
        "days": each.changed,
        "versions": each.versions,
        "switched": {table: list(versions) for table, versions in each.switched.items()},
        "columns": {
            table: {"came": list(columns.came), "went": list(columns.went), "other_types": columns.other_types}
            for table, columns in each.columns.items()
        },
        "failed": gate
        and {"table": gate.table, "first_bad_day": gate.first_bad_day, "days": gate.days, "why": gate.why},
    }


@click.command(epilog=_FORWARD_EPILOG)
@click.argument("name", shell_complete=complete_timeline)
@click.option(
    "--version",
    default="",
    shell_complete=complete_version,
    metavar="V",
    help="The version of the rewound tables.  [default: the current one]",
)
@click.option("--without-arrivals", is_flag=True, help="Read raw and all else as of the timeline's moment.")
@click.option("--as", "other", metavar="OTHER", help="Go forward on a new timeline; NAME stays as it is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def forward(name: str, version: str, without_arrivals: bool, other: str | None, as_json: bool) -> None:
    """Compute the days of a timeline again, from the state that it was rewound to.

    Raw is read as it is now: rows that arrived since the moment are taken once. Days that are right already are kept;
    days that main or another timeline has computed from the same inputs by the same version are used as they are. If
    nothing is left to compute, Spark is not started. Days that fail their gates stay as they were, with all that reads
    them.
    """
    from backfill_assets.lakehouse.named_timelines import find_timeline
    from backfill_assets.timeline.arrivals import arrival_lines
    from backfill_assets.timeline.attempts import attempt_forward
    from backfill_assets.timeline.forward import forward as go_forward

    settings = current_settings()
    publisher = open_publisher(settings)
    name = find_timeline_name(publisher.storage, name, change=True)
    found = find_timeline(publisher.storage, name, publisher.now())
    change = _change(found.moment, version, without_arrivals)
    with ExitStack() as stack:
        lake = foreground_builder(settings, stack).lake
        run = run_info("backfill forward")

        def go(timeline: NamedTimeline) -> Forwarded:
            steps = current_catalog().steps
            return go_forward(lake, steps, timeline, version, run, report_progress, arrivals=not without_arrivals)

        done = attempt_forward(publisher, found, other, getpass.getuser(), change, go)
    made = done.timeline
    stale = stale_on(publisher.storage, made)
    if as_json:
        since_last = {
            table: [_arrival_values(each) for each in days] for table, days in done.arrived.since_last.items()
        }
        say_json(
            {
                **summary_values(made),
                "arrived_since_last": since_last,
                "waiting": {table: list(days) for table, days in done.arrived.waiting.items()},
                "steps": [step_values(each) for each in done.steps],
                "stale": stale_json(stale),
            }
        )
        return
    numbers = ("kept", "from main", "staged", "held back")
    rows = new_table("table", "version", *numbers, numbers=numbers, drop=["kept", "from main", "version"])
    for each in done.steps:
        counts = (len(each.kept), len(each.from_main), len(each.staged), len({held.day for held in each.held_back}))
        rows.add_row(each.step, each.version, *(f"{count:,}" for count in counts))
    say(rows, *(f"held back: {line}" for line in made.held_back))
    say(*arrival_lines(made))
    for table, days in done.arrived.waiting.items():
        say(f"{table} has not taken in all of that: {ranges(days, most=3)} are as main has them.")
    say_stale(made, stale)
    say(f"{made.name} went forward. What is published has not changed. backfill timeline show {made.name}")


def step_values(each: ForwardedStep) -> dict[str, object]:
    return {
        "step": each.step,
        "version": each.version,
        "kept": list(each.kept),
        "from_main": list(each.from_main),
        "staged": list(each.staged),
        "held_back": {str(held.day): held.why for held in each.held_back},
    }


def _change(moment: str, version: str, without_arrivals: bool) -> str:
    """What the revision did, in a few words."""
    by = f" by {version}" if version else ""
    return f"forward from {moment or 'its base'}{by}" + (" without arrivals" if without_arrivals else "")


def _arrival_values(each: ArrivedRows) -> dict[str, object]:
    return {"day": each.day, "rows": each.rows, "checksum": each.checksum}
