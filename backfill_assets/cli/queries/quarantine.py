"""``backfill quarantine``: rejected rows by reason and day, as they were landed, and judged again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.commands.quarantine_replay import replay
from backfill_assets.cli.completion import complete_days, complete_table
from backfill_assets.cli.output import ranges, say, say_facts, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.days import DayRange, contiguous, parse_day
from backfill_assets.landing.places import format_place, place_values

if TYPE_CHECKING:
    from backfill_assets.landing.quarantine import Group

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_EPILOG = """
\b
Examples:
  backfill quarantine list
  backfill quarantine show quarantine_sales --day 2017-03-01
  backfill quarantine replay --dry-run
"""
_LIST_EPILOG = """
\b
Examples:
  backfill quarantine list
  backfill quarantine list quarantine_sales --days 2017-03-01..2017-03-07
  backfill quarantine list --json
"""
_SHOW_EPILOG = """
\b
Examples:
  backfill quarantine show quarantine_sales --day 2017-03-01
  backfill quarantine show quarantine_sales --day 2017-03-01 --reason decimal --limit 100 --json
"""


@click.group(epilog=_EPILOG)
def quarantine() -> None:
    """Show rejected rows, and judge them again after the contract is fixed."""


@quarantine.command("list", epilog=_LIST_EPILOG)
@click.argument("table", shell_complete=complete_table, required=False)
@click.option("--days", "days_text", shell_complete=complete_days, metavar="A..B", help="Only rows of these days.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_reasons(table: str | None, days_text: str | None, as_json: bool) -> None:
    """List why rows were rejected, by table and reason.

    Of TABLE, or of every quarantine table. A row with two reasons is counted in two lines. A row is resolved if the
    source has landed an accepted version of it since. Starts no Spark.
    """
    from backfill_assets.landing.quarantine import groups, rejects_named

    days = DayRange.parse(days_text) if days_text else None
    settings = current_settings()
    found = groups(open_storage(settings), rejects_named(current_catalog(), table), days)
    if as_json:
        say_json([_as_json(group) for group in found])
    elif found:
        _say(found)
        for line in _advice_on_days(found):
            say(line)
        say("Rows as they were landed: backfill quarantine show TABLE --day D")
    else:
        say(f"Nothing is quarantined in {settings.lakehouse}" + (f" on {days}." if days else "."))


def _say(found: Sequence[Group]) -> None:
    columns = ("table", "reason", "days", "rows", "resolved", "first example", "at")
    rows = new_table(*columns, numbers=["rows", "resolved"], drop=("resolved", "at", "days"))
    for group in found:
        place = format_place(group.file, group.line)
        counts = (f"{group.rows:,}", f"{group.resolved:,}")
        rows.add_row(group.table, group.reason, ranges(group.days), *counts, group.example, place)
    say(rows)


def _advice_on_days(found: Sequence[Group]) -> list[str]:
    """What to do about days that the declaration does not allow: the rows may be right, and the declaration wrong."""
    from backfill_assets.landing.quarantine import rejects_named
    from backfill_assets.model.placement import IMPLAUSIBLE

    advice = []
    for group in found:
        named = _DAY.search(group.example)
        if named and group.reason.endswith(IMPLAUSIBLE):
            (rejects,) = rejects_named(current_catalog(), group.table)
            why = rejects.source.why_on_arrival_day(date.fromisoformat(named[0]))
            advice.append(f"{group.table}: {rejects.source.event_day_field} {why}")
    return advice


def _as_json(group: Group) -> dict[str, Any]:
    return {
        "table": group.table,
        "reason": group.reason,
        "days": [str(item) for item in contiguous(group.days)],
        "rows": group.rows,
        "resolved": group.resolved,
        "example": {"reason": group.example, **place_values(group.file, group.line)},
    }


@quarantine.command(epilog=_SHOW_EPILOG)
@click.argument("table", shell_complete=complete_table)
@click.option("--day", "day_text", shell_complete=complete_days, metavar="YYYY-MM-DD", required=True, help="The day.")
@click.option("--reason", metavar="TEXT", help="Only rows with a reason that contains this text.")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="The most rows to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(table: str, day_text: str, reason: str | None, limit: int, as_json: bool) -> None:
    """Show the rejected rows of one day of TABLE as they landed.

    With file and line (of an event topic, partition and offset), every reason and every value. Personal fields are
    tokens. Starts no Spark.
    """
    from backfill_assets.landing.quarantine import letters, rejects_named
    from backfill_assets.published.snapshot import Snapshot

    (rejects,) = rejects_named(current_catalog(), table)
    day = parse_day(day_text)
    rows = letters(Snapshot.newest(open_storage(current_settings())), rejects.table, DayRange.of(day))
    found = [row for row in rows if reason is None or any(reason.lower() in each.lower() for each in row["reasons"])]
    if as_json:
        say_json([_letter(row) for row in found[:limit]])
        return
    for row in found[:limit]:
        _say_letter(_letter(row))
    if len(found) > limit:
        say(f"{len(found) - limit:,} more rows are not shown: --limit {len(found)}")
    elif not found:
        say(f"No such row is quarantined in {rejects.table} on {day}.")


def _letter(row: Mapping[str, Any]) -> dict[str, Any]:
    """Where it is, why it was rejected, and what was landed; what the source did not send is left out."""
    apart = ("source_file", "source_line", "reasons", "day", "arrival_day", "content_hash")
    return {
        **place_values(row["source_file"], row["source_line"]),
        "day": row["day"],
        "arrival_day": row["arrival_day"],
        "reasons": row["reasons"],
        "landed": {name: value for name, value in row.items() if name not in apart and value is not None},
    }


def _say_letter(letter: Mapping[str, Any]) -> None:
    reasons = (("reason", reason) for reason in letter["reasons"])
    landed = ((name, str(value)) for name, value in letter["landed"].items())
    say_facts(format_place(letter["file"], letter["line"]), [*reasons, *landed])


quarantine.add_command(replay)
