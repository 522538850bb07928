"""``backfill diff``: what approving a plan would change, and how any two states differ."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from backfill_assets.cli.completion import complete_days, complete_state, complete_table
from backfill_assets.cli.foreground import foreground_builder, report_progress
from backfill_assets.cli.ids import find_plan, find_state
from backfill_assets.cli.output import moment, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.queries.campaign_table import say_next
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backfill_assets.difference.kept import Difference
    from backfill_assets.settings import Settings

_SHOWN_GROUPS = 5
_COLOURS = {"met": "green", "not met": "bold red"}
_EPILOG = """
\b
Examples:
  backfill diff plan-0123456789abcdef
  backfill diff plan-0123456789abcdef --html           the same with charts, for a browser
  backfill diff plan-0123456789abcdef --html march.html --sample 50
  backfill diff plan-0123456789abcdef --by-day         a line for each day that differs
  backfill diff plan-0123456789abcdef --kept           as it was found last
  backfill diff main with-v2                           what publishing a timeline would change
  backfill diff before-v1 with-v2 --table fact_daily_revenue
  backfill diff 2017-06-01T12:00 main --days 2017-03-01..2017-05-29
"""


@click.command(epilog=_EPILOG)
@click.argument("left", shell_complete=complete_state, metavar="PLAN|LEFT")
@click.argument("right", shell_complete=complete_state, required=False)
@click.option(
    "--table",
    "tables",
    multiple=True,
    shell_complete=complete_table,
    metavar="TABLE",
    help="Two states only: compare this table.",
)
@click.option(
    "--days", "days_text", shell_complete=complete_days, metavar="A..B", help="Two states only: compare these days."
)
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many changed rows of each table to show.",
)
@click.option("--kept", is_flag=True, help="Show the newest stored difference, and read no rows.")
@click.option(
    "--html",
    "page",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="FILE",
    help="Write a page with charts that needs no network.  [default: <home>/differences/<plan>.html]",
)
@click.option("--by-day", is_flag=True, help="Also show a line for each day that differs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def diff(
    ctx: click.Context,
    left: str,
    right: str | None,
    tables: tuple[str, ...],
    days_text: str | None,
    sample: int,
    kept: bool,
    page: str | None,
    by_day: bool,
    as_json: bool,
) -> None:
    """Compare what `backfill run PLAN` has staged with what is published, table by table and day by day.

    With LEFT and RIGHT, compare two states: main, a timeline, a publication, or a time in UTC.

    Shows how many rows are added, removed and changed (by key), the sums of measures, the groups that differ most, and
    some changed rows side by side. Personal columns are not shown. Days with the same content are not read.

    The difference of a plan is stored with it. The exit code is 1 if an expectation of the plan is not met.
    """
    settings = current_settings()
    if right is not None:
        if kept:
            raise click.UsageError("--kept is about a plan: a difference of two states is not stored.")
        left, right = (find_state(open_storage(settings), text) for text in (left, right))
        found = _find_states(settings, left, right, tables, days_text, sample)
    elif tables or days_text:
        raise click.UsageError("--table and --days are about two states: a plan says what is compared.")
    else:
        left = find_plan(open_storage(settings), left)
        found = _kept_difference(settings, left) if kept else _find(settings, left, sample)
    if page is not None:
        name = left if right is None else f"{left}-and-{right}"
        file = Path(page) if page else settings.home / "differences" / f"{_file_name(name)}.html"
        written = _write_page(found, settings, left if right is None else "", file)
        click.echo(f"Written: {written}", err=True)
    if as_json:
        say_json(_as_json(found))
    else:
        say_difference(found, sample, by_day)
        if right is None and not found.unmet:
            say_next(open_storage(settings), left)
    if found.unmet:
        ctx.exit(1)


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


def _find_states(
    settings: Settings, left: str, right: str, tables: Sequence[str], days_text: str | None, sample: int
) -> Difference:
    from backfill_assets.difference.lakehouse_states import StatesRequest, compare_states

    for table in tables:
        current_catalog().table(table)
    days = DayRange.parse(days_text) if days_text else None
    asked = StatesRequest(left, right, tables, days, sample)
    with ExitStack() as stack:
        return compare_states(foreground_builder(settings, stack).lake, current_catalog().steps, asked, report_progress)


def _find(settings: Settings, plan: str, sample: int) -> Difference:
    from backfill_assets.difference.find import find_difference
    from backfill_assets.lakehouse.plans import kept_plan
    from backfill_assets.plan.records import Plan

    wanted = Plan.from_json(kept_plan(open_storage(settings), plan), id=plan)
    with ExitStack() as stack:
        return find_difference(foreground_builder(settings, stack).lake, wanted, report_progress, sample)


def _kept_difference(settings: Settings, plan: str) -> Difference:
    from backfill_assets.difference.find import last_difference
    from backfill_assets.lakehouse.plans import kept_plan

    storage = open_storage(settings)
    kept_plan(storage, plan)
    found = last_difference(storage, plan)
    if found is None:
        raise InvalidRequest(f"No difference of {plan} was found yet.", hint=f"backfill diff {plan}")
    return found


def _write_page(found: Difference, settings: Settings, plan: str, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_page_of_plan(found, settings, plan) if plan else _page_of_states(found), encoding="utf-8")
    return file.absolute()


def _page_of_states(found: Difference) -> str:
    from backfill_assets.difference.page import difference_page

    return difference_page(current_catalog(), found)


def _page_of_plan(found: Difference, settings: Settings, plan: str) -> str:
    from backfill_assets.campaign.approvers import letter_terms
    from backfill_assets.campaign.course import state_of
    from backfill_assets.cli.running_dev import running_ui
    from backfill_assets.difference.page import difference_page
    from backfill_assets.lakehouse.campaign_journal import campaign_of, entries
    from backfill_assets.plan.durations import time_rows
    from backfill_assets.plan.keep import plan_as_kept, planned_by

    storage, kept, campaign = open_storage(settings), plan_as_kept(settings, plan), campaign_of(plan)
    journal = entries(storage, campaign)
    planner, state = planned_by(storage, plan), state_of(campaign, journal)
    terms = letter_terms(kept, settings.approval_by, planner, state, running_ui(settings))
    return difference_page(current_catalog(), found, time_rows(kept, journal), terms)


def _as_json(found: Difference) -> dict[str, Any]:
    from backfill_assets.difference.sentences import table_sentence

    values = json.loads(found.to_json())
    sentences = {table.table: table_sentence(table) for table in found.tables}
    return {"sentence": found.sentence, "sentences": sentences, "broken": len(found.unmet), **values}


def say_difference(found: Difference, sample: int = 0, by_day: bool = False) -> None:
    from backfill_assets.difference import text
    from backfill_assets.difference.sentences import table_sentence

    if not found.plan:
        say(f"Before is {found.left}, after is {found.right}.")
    say(Text(found.sentence, "bold"))
    if len(found.tables) > 1:
        say(*(f"  {table.table}: {table_sentence(table)}" for table in found.tables))
    counts = [text.count_row(table) for table in found.tables]
    _say_rows(text.COUNT_COLUMNS, counts, text.COUNT_NUMBERS, drop=("unchanged", "periods"))
    say_sums(found)
    for table in found.tables if by_day else ():
        columns = text.day_columns(table)
        first_to_go = ("is", "unchanged", *columns[-3:-1])
        _say_rows(columns, text.day_rows(table, table.differing), columns[2:], table.table, first_to_go)
    for table in found.tables:
        groups = text.group_rows(table, _SHOWN_GROUPS)
        _say_rows(text.GROUP_COLUMNS, groups, text.GROUP_NUMBERS, table.table, ("before", "after"))
    for table in found.tables:
        _say_rows(text.SAMPLE_COLUMNS, text.sample_rows(table, sample), (), table.table, ("day", "key"))
    say(*(f"{table.table}: {note}" for table in found.tables for note in text.notes(table)))
    say(*(Text(line, "yellow") for line in found.stale))
    for expected, outcome, where in text.verdict_rows(found):
        say(Text.assemble((outcome, _COLOURS[outcome]), f"  {expected}", f": {where}" if where else ""))
    say(f"As of entry {found.log_entry} of the publication log, at {moment(found.made_at)}.")


def say_sums(found: Difference) -> None:
    """Of all days compared, those that stay the same among them."""
    from backfill_assets.difference import text

    sums = [row for table in found.tables for row in text.sum_rows(table)]
    _say_rows(text.SUM_COLUMNS, sums, text.SUM_NUMBERS, drop=("before",))


def _say_rows(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[str] = (),
    title: str = "",
    drop: Sequence[str] = (),
) -> None:
    if rows:
        say(new_table(*columns, rows=rows, numbers=numbers, title=title, drop=drop))
