"""Changes in words that a manager can read. Pure."""

from __future__ import annotations

from backfill_assets.days import Cadence
from backfill_assets.difference.records import ROWS, GroupsCompared, Sums, TableCompared
from backfill_assets.text import UNKNOWN, amount, column_label, format_count, percent, period, pluralize

_MOST_NAMED = 3
_PERIODS = {Cadence.DAILY: "day", Cadence.WEEKLY: "week", Cadence.MONTHLY: "month"}


def table_sentence(table: TableCompared) -> str:
    """``March 2017: revenue eur -0.41 %, 22 of 31 days, all departments.``"""
    days = [day.day for day in table.days]
    if not days:
        return "No days."
    back = "".join(
        f", {format_count(number, unit(table))} {how}"
        for how in ("held back", "not staged")
        if (number := sum(day.how == how for day in table.days))
    )
    known = format_count(len(table.known), unit(table))
    if not table.known:
        return f"{period(days, table.cadence)}: nothing is staged yet."
    if not table.differing:
        return f"{period(days, table.cadence)}: nothing changes on {known}{back}."
    parts = [_main_change(table), f"{len(table.differing)} of {known}"]
    parts += [text for found in table.groups if (text := _groups(found))]
    return f"{period(days, table.cadence)}: {', '.join(parts)}{back}."


def unit(table: TableCompared) -> str:
    """What a partition of ``table`` is: ``day``, ``week`` or ``month``."""
    return _PERIODS[table.cadence]


def change(found: Sums) -> str:
    """``-0.41 %``; what there is now where there was nothing; ``unchanged``."""
    if not found.change:
        return "unchanged"
    return f"{amount(found.after)} where there was nothing" if found.share is None else percent(found.share)


def _main_change(table: TableCompared) -> str:
    """The first measure that changes; if none does, how many rows do."""
    totals = {measure: table.total(measure) for measure in (*table.measures, ROWS)}
    for measure, found in totals.items():
        if found is not None and found.change:
            return f"{column_label(measure)} {change(found)}"
    if unknown := [measure for measure, found in totals.items() if found is None]:
        return f"{column_label(unknown[0])} {UNKNOWN}"
    rows = table.rows.differing
    sums = " although no sum does" if table.measures else ""
    return f"{format_count(rows, 'row')} {'changes' if rows == 1 else 'change'}{sums}"


def _groups(found: GroupsCompared) -> str:
    noun = column_label(found.column)
    if not found.differing or found.groups == 1:
        return ""
    if found.differing == found.groups:
        return f"all {pluralize(noun)}"
    if found.differing <= _MOST_NAMED and found.complete:
        values = [each.value or "(none)" for each in found.most if each.rows.differing]
        return f"{noun if len(values) == 1 else pluralize(noun)} {' and '.join(sorted(values))}"
    return f"{found.differing:,} of {found.groups:,} {pluralize(noun)}"
