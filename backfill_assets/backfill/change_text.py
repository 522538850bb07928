"""Changes in words that a manager can read. Pure."""

from __future__ import annotations

import calendar
import math
from collections.abc import Sequence
from datetime import date
from decimal import Decimal

from backfill_assets.build.compared import ROWS, GroupsCompared, Sums, TableCompared
from backfill_assets.days import Cadence

UNKNOWN = "unknown"
_MOST_NAMED = 3
_MOST_DIGITS = 6
_PERIODS = {Cadence.DAILY: "day", Cadence.WEEKLY: "week", Cadence.MONTHLY: "month"}


def table_sentence(table: TableCompared) -> str:
    """``March 2017: revenue eur -0.41 %, 22 of 31 days, all departments.``"""
    days = [day.day for day in table.days]
    if not days:
        return "No days."
    back = "".join(
        f", {counted(number, unit(table))} {how}"
        for how in ("held back", "not staged")
        if (number := sum(day.how == how for day in table.days))
    )
    known = counted(len(table.known), unit(table))
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


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def period(days: Sequence[date], cadence: Cadence = Cadence.DAILY) -> str:
    """The month that ``days`` lie in, or the range from the first to the last."""
    first, last = min(days), max(days)
    if cadence is not Cadence.WEEKLY and len(days) > 1 and (first.year, first.month) == (last.year, last.month):
        return f"{calendar.month_name[first.month]} {first.year}"
    if cadence is Cadence.MONTHLY:
        months = [f"{calendar.month_name[day.month]} {day.year}" for day in (first, last)]
        return months[0] if first == last else " to ".join(months)
    whole = cadence.period(last).last
    return str(first) if first == whole else f"{first}..{whole}"


def change(found: Sums) -> str:
    """``-0.41 %``; what there is now where there was nothing; ``unchanged``."""
    if not found.change:
        return "unchanged"
    return f"{amount(found.after)} where there was nothing" if found.share is None else percent(found.share)


def percent(share: Decimal) -> str:
    """With at least two digits that say something: ``+12.3 %``, ``-0.41 %``, ``+0.00041 %``."""
    value = share * 100
    if not value:
        return "0 %"
    size = math.floor(value.copy_abs().log10())
    digits = 1 if size >= 0 else min(_MOST_DIGITS, 1 - size)
    text = f"{value:+,.{digits}f} %"
    return text if any(digit in "123456789" for digit in text) else f"under 0.{'0' * (_MOST_DIGITS - 1)}1 %"


def amount(value: Decimal) -> str:
    """With a comma between thousands, and no digit lost."""
    return f"{value:,}"


def named(column: str) -> str:
    """A column for people: ``revenue eur``, ``store``."""
    return column.removesuffix("_id").replace("_", " ")


def plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def _main_change(table: TableCompared) -> str:
    """The first measure that changes; if none does, how many rows do."""
    totals = {measure: table.total(measure) for measure in (*table.measures, ROWS)}
    for measure, found in totals.items():
        if found is not None and found.change:
            return f"{named(measure)} {change(found)}"
    if unknown := [measure for measure, found in totals.items() if found is None]:
        return f"{named(unknown[0])} {UNKNOWN}"
    rows = table.rows.differing
    sums = " although no sum does" if table.measures else ""
    return f"{counted(rows, 'row')} {'changes' if rows == 1 else 'change'}{sums}"


def _groups(found: GroupsCompared) -> str:
    noun = named(found.column)
    if not found.differing or found.groups == 1:
        return ""
    if found.differing == found.groups:
        return f"all {plural(noun)}"
    if found.differing <= _MOST_NAMED and found.complete:
        values = [each.value or "(none)" for each in found.most if each.rows.differing]
        return f"{noun if len(values) == 1 else plural(noun)} {' and '.join(sorted(values))}"
    return f"{found.differing:,} of {found.groups:,} {plural(noun)}"
