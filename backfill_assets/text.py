"""Days, counts, amounts and Markdown as text. Pure."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from difflib import get_close_matches

from backfill_assets.days import Cadence, DayRange, contiguous

_CURRENCIES = re.compile(
    "aud|bgn|brl|cad|chf|cny|czk|dkk|eur|gbp|hkd|huf|idr|ils|inr|isk|jpy|krw|mxn|myr|nok|nzd|php|pln|ron|sek|sgd|thb"
    "|try|usd|zar"
)
_MARKS = re.compile(r"[\\`*|\[\]~]|(?<!\w)_|_(?!\w)")
"""Markdown ignores an underscore within a word."""


_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control, bidirectional and invisible characters, and surrogates."""
_NAMED_CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_controls(text: str) -> str:
    """Control characters become text: ``\\x1b``, ``\\n``, ``\\t``, ``\\u202e``."""
    return _CONTROLS.sub(lambda found: escape_control(found[0]), text)


def escape_control(character: str) -> str:
    if not _CONTROLS.fullmatch(character):
        return character
    code = ord(character)
    return _NAMED_CONTROLS.get(character, f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def escape_markdown(text: str) -> str:
    found = escape_controls(" ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKS.sub(lambda mark: f"\\{mark[0]}", found)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """Cells are escaped; the columns ``numbers`` are right-aligned."""
    under = ["---:" if name in numbers else "---" for name in columns]
    lines = [columns, under, *([escape_markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


UNKNOWN = "unknown"
_MOST_MEANT = 3


_MOST_DIGITS = 6
_COMMIT = 10


def format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun if count == 1 else pluralize(noun)}"


def format_are(count: int, noun: str) -> str:
    return f"{format_count(count, noun)} {'is' if count == 1 else 'are'}"


def format_scope(tables: Iterable[tuple[Cadence, Collection[date]]]) -> str:
    """``12 days, 2 weeks and 1 month in 5 tables``, each day, week and month once."""
    listed = [(cadence, days) for cadence, days in tables if days]
    found = {cadence: {day for of, days in listed if of is cadence for day in days} for cadence in Cadence}
    counts = [format_count(len(each), cadence.noun) for cadence, each in found.items() if each]
    periods = " and ".join(filter(None, [", ".join(counts[:-1]), *counts[-1:]])) or format_count(0, "day")
    return f"{periods} in {format_count(len(listed), 'table')}"


def format_changing(count: int, total: int, noun: str) -> str:
    """``2 of 31 days change``, ``1 of 31 days changes``."""
    return f"{count:,} of {format_count(total, noun)} {'changes' if 1 in (count, total) else 'change'}"


def format_range(days: DayRange) -> str:
    """``2017-03-01..2017-03-03``, or ``2017-03-01``."""
    return str(days.first) if len(days) == 1 else str(days)


def format_ranges(days: Iterable[date], most: int | None = None) -> str:
    """``2017-03-01..2017-03-03, 2017-03-06``, cut after ``most`` ranges."""
    return format_first([format_range(each) for each in contiguous(days)], most)


def format_first(texts: Sequence[str], most: int | None) -> str:
    """``a, b and 3 more``."""
    more = f" and {len(texts) - most} more" if most is not None and len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def days_options(days: Iterable[date], most: int | None = None) -> str:
    """``--days 2017-03-01..2017-03-03 --days 2017-03-06``, cut after ``most`` ranges."""
    return " ".join(f"--days {format_range(each)}" for each in contiguous(days)[:most])


def format_duration(seconds: float) -> str:
    """``8.3 s``, ``45 s``, ``0:02:05`` from two minutes on."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else str(timedelta(seconds=round(seconds)))


def format_size(size: int | None) -> str:
    if size is None:
        return UNKNOWN
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} B"


def suggest_name(name: str, known: Collection[str], otherwise: str = "") -> str:
    """``Did you mean sales?``, or ``otherwise``."""
    begun = [each for each in known if name and each.startswith(name)][:_MOST_MEANT]
    near = begun or get_close_matches(name, known, n=1)
    return f"Did you mean {' or '.join(near)}?" if near else otherwise


def suggest_or_list(name: str, known: Collection[str], title: str) -> str:
    """``Did you mean sales?``, or all: ``Datasets: fx_rates, sales.``"""
    return suggest_name(name, known, f"{title}: {', '.join(known) or 'none'}.")


def period(days: Sequence[date], cadence: Cadence = Cadence.DAILY) -> str:
    """``March 2017`` for a whole month, else a range."""
    first, last = min(days), max(days)
    if cadence is Cadence.MONTHLY:
        months = [f"{calendar.month_name[day.month]} {day.year}" for day in (first, last)]
        return months[0] if first == last else " to ".join(months)
    whole = cadence.period(last).last
    if cadence is Cadence.DAILY and (first, last) == _month_of(first):
        return f"{calendar.month_name[first.month]} {first.year}"
    return str(first) if first == whole else f"{first}..{whole}"


def _month_of(day: date) -> tuple[date, date]:
    month = Cadence.MONTHLY.period(day)
    return month.first, month.last


def percent(share: Decimal) -> str:
    """At least two significant digits: ``+12.3 %``, ``-0.41 %``, ``+0.00041 %``."""
    value = share * 100
    if not value:
        return "0 %"
    size = math.floor(value.copy_abs().log10())
    digits = 1 if size >= 0 else min(_MOST_DIGITS, 1 - size)
    text = f"{value:+,.{digits}f} %"
    return text if any(digit in "123456789" for digit in text) else f"under 0.{'0' * (_MOST_DIGITS - 1)}1 %"


def amount(value: Decimal | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def money(value: Decimal | None, measure: str) -> str:
    return " ".join(filter(None, (amount(value), currency_of(measure))))


def currency_of(measure: str) -> str:
    words = measure.split("_")
    return words[-1].upper() if len(words) > 1 and _CURRENCIES.fullmatch(words[-1]) else ""


def measure_name(measure: str) -> str:
    """``Amount`` for ``amount_eur``."""
    words = column_label(measure).split()
    return " ".join(words[:-1] if currency_of(measure) else words).capitalize()


def short_commit(commit: str) -> str:
    sha, plus, dirty = commit.partition("+")
    return f"{sha[:_COMMIT]}{plus}{dirty}"


def column_label(column: str) -> str:
    """``revenue eur``; without ``_id``."""
    return column.removesuffix("_id").replace("_", " ")


def pluralize(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
