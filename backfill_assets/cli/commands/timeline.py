"""``backfill timeline``: places with a name, on which days of tables differ from what is published."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.completion import complete_state, complete_timeline
from backfill_assets.cli.ids import find_state, short_ids, timeline_ids
from backfill_assets.cli.ids import find_timeline as find_timeline_name
from backfill_assets.cli.on_timeline import say_stale, stale_json, stale_on
from backfill_assets.cli.output import ask, moment, ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings, open_publisher
from backfill_assets.text import format_count, format_size

if TYPE_CHECKING:
    from backfill_assets.lakehouse.named_timelines import NamedTimeline
    from backfill_assets.publication.publisher import Publisher

_EPILOG = """
\b
Examples:
  backfill rewind fact_sales_transactions --to 2017-06-01T12:00 --on before-v1
  backfill timeline list
  backfill timeline create trial --keep-for 14
  backfill timeline create as-in-may --base 2017-06-01T12:00
  backfill timeline show before-v1
  backfill timeline rename before-v1 the-good-days
  backfill timeline delete the-good-days
"""


@click.group(epilog=_EPILOG)
def timeline() -> None:
    """Create, list, show, rename and delete timelines.

    A timeline has a name and days of tables that differ from what is published; all other days read through to what was
    published when it was made, or last went forward. It is kept until it is deleted, or until the age that it was made
    with. Maintenance deletes nothing that it names.
    """


@timeline.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_timelines(as_json: bool) -> None:
    """List the timelines, with their days and their size; those of open campaigns too."""
    from backfill_assets.timeline.places import all_places
    from backfill_assets.timeline.summary import size_of

    publisher = open_publisher(current_settings())
    found = all_places(publisher.storage, publisher.now())
    if as_json:
        say_json([summary_values(each) for each in found])
        return
    if not found:
        say("There is no timeline. backfill rewind TABLES --to MOMENT makes one.")
        return
    numbers = ("tables", "days", "size")
    show = short_ids(publisher.storage, timeline_ids)
    columns = ("timeline", "id", *numbers, "made", "by", "last change")
    rows = new_table(*columns, numbers=numbers, drop=("by", "made", "tables", "last change", "size", "id"))
    for each in found:
        days = sum(map(len, each.days.values()))
        size = format_size(size_of(each))
        rows.add_row(
            each.name,
            "" if each.id == each.name else show(each.id),
            str(len(each.days)),
            f"{days:,}",
            size,
            moment(each.made_at),
            each.by,
            each.change,
        )
    say(rows)


@timeline.command("create")
@click.argument("name")
@click.option(
    "--base",
    default="main",
    show_default=True,
    shell_complete=complete_state,
    metavar="MOMENT",
    help="What its days read through to: main, a publication, a UTC time, or another timeline.",
)
@click.option("--keep-for", type=click.IntRange(min=1), metavar="DAYS", help="Forget it after so many days.")
def create(name: str, base: str, keep_for: int | None) -> None:
    """Make a timeline whose days all read through to a base: to what is published now, or was at a moment.

    With another timeline as the base it begins with the days of that one. No file is read or copied.
    """
    from backfill_assets.lakehouse.named_timelines import create_timeline, require_timeline_name
    from backfill_assets.timeline.based import timeline_based_on
    from backfill_assets.timeline.rewind import kept_for

    require_timeline_name(name)
    publisher = open_publisher(current_settings())
    now, base = publisher.now(), find_state(publisher.storage, base)
    made = timeline_based_on(publisher.storage, base, name, getpass.getuser(), now, kept_for(keep_for, now))
    create_timeline(publisher.storage, made)
    if made.days:
        say(f"{name} begins with {format_count(sum(map(len, made.days.values())), 'day')} of {base}.")
    say(f"{name} reads through to entry {made.base.sequence} of the publication log.")


@timeline.command("show")
@click.argument("name", shell_complete=complete_timeline)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(name: str, as_json: bool) -> None:
    """Show the days of a timeline, table by table, and how many of them differ from what is published now."""
    from backfill_assets.published.moments import held_days
    from backfill_assets.published.snapshot import Snapshot
    from backfill_assets.timeline.places import find_place
    from backfill_assets.timeline.summary import tables_on

    publisher = open_publisher(current_settings())
    found = find_place(publisher.storage, find_timeline_name(publisher.storage, name), publisher.now())
    tables = tables_on(found, held_days(Snapshot.newest(publisher.storage), found.days))
    stale = stale_on(publisher.storage, found)
    if as_json:
        values = {each.table: {"days": len(each.days), "differing": len(each.differing)} for each in tables}
        stale_values = stale_json(stale)
        say_json({**summary_values(found), "tables": values, "held_back": found.held_back, "stale": stale_values})
        return
    _say_summary(found)
    numbers = ("days", "rows", "differ from main")
    rows = new_table("table", *numbers, "version", "which days", numbers=numbers)
    for each in tables:
        counts = (len(each.days), each.rows, len(each.differing))
        cells = (f"{count:,}" for count in counts)
        rows.add_row(each.table, *cells, ", ".join(each.versions), ranges(each.days, most=3))
    say(rows if tables else "It holds no day of its own yet.")
    say(*(f"held back: {each}" for each in found.held_back))
    say_stale(found, stale)


@timeline.command("rename")
@click.argument("name", shell_complete=complete_timeline)
@click.argument("new_name")
def rename(name: str, new_name: str) -> None:
    """Give a timeline another name."""
    from backfill_assets.lakehouse.named_timelines import rename_timeline

    publisher = open_publisher(current_settings())
    rename_timeline(publisher.storage, _find(publisher, name), new_name, publisher.now())
    say(f"{name} is {new_name} now.")


@timeline.command("delete")
@click.argument("name", shell_complete=complete_timeline)
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(name: str, yes: bool) -> None:
    """Forget a timeline. Other timelines keep the files that they share with it; the rest is reclaimed in time."""
    from backfill_assets.lakehouse.named_timelines import delete_timeline

    publisher = open_publisher(current_settings())
    found = _find(publisher, name)
    if not yes:
        ask(f"Forget {name}, with {format_count(sum(map(len, found.days.values())), 'day')} of its own?")
    delete_timeline(publisher.storage, found, publisher.now())
    say(f"{name} is deleted. Nothing that is published changed.")


def _find(publisher: Publisher, name: str) -> NamedTimeline:
    """The timeline, to change it."""
    from backfill_assets.lakehouse.named_timelines import find_timeline
    from backfill_assets.timeline.places import refuse_campaign

    refuse_campaign(name)
    name = find_timeline_name(publisher.storage, name, change=True)
    return find_timeline(publisher.storage, name, publisher.now())


def summary_values(found: NamedTimeline) -> dict[str, Any]:
    from backfill_assets.timeline.places import is_of_campaign
    from backfill_assets.timeline.summary import size_of

    return {
        "name": found.name,
        "id": found.id,
        "made_at": found.made_at,
        "by": found.by,
        "change": found.change,
        "base": found.base.sequence,
        "moment": found.moment,
        "targets": list(found.targets),
        "days": sum(map(len, found.days.values())),
        "bytes": size_of(found),
        "versions": dict(found.versions),
        "read_up_to": list(found.read_up_to),
        "moment_reads": [each.model_dump(mode="json") for each in found.moment_reads],
        "reads": [each.model_dump(mode="json") for each in found.reads],
        "arrived": {table: [each.model_dump(mode="json") for each in days] for table, days in found.arrived.items()},
        "keep_until": found.keep_until,
        "of_campaign": is_of_campaign(found.name),
    }


def _say_summary(found: NamedTimeline) -> None:
    from backfill_assets.timeline.arrivals import arrival_lines

    say(f"{found.name}: made {moment(found.made_at)} by {found.by or 'unknown'}, {found.change}.")
    say(f"Other days read through to entry {found.base.sequence} of the publication log.")
    if found.keep_until is not None:
        say(f"Kept until {moment(found.keep_until)}.")
    say(*(f"read by then: {line}" for line in found.read_up_to), *arrival_lines(found))
