"""A difference as a letter: what a manager wants to know, in the order in which they ask. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

from backfill_assets.difference.kept import Difference
from backfill_assets.difference.records import EXACT, ROWS, TableCompared
from backfill_assets.difference.sentences import unit
from backfill_assets.text import (
    UNKNOWN,
    amount,
    column_label,
    format_changing,
    format_count,
    format_first,
    format_ranges,
    percent,
    period,
)

_CURRENCIES = re.compile(
    "aud|bgn|brl|cad|chf|cny|czk|dkk|eur|gbp|hkd|huf|idr|ils|inr|isk|jpy|krw|mxn|myr|nok|nzd|php|pln|ron|sek|sgd|thb"
    "|try|usd|zar"
)
"""Those that the European Central Bank has rates of, and the euro."""
_MOST_RANGES = 6
TABLE_COLUMNS = ("table", "what changes", "measure", "before", "after", "change", "in percent")
TABLE_NUMBERS = TABLE_COLUMNS[3:]


@dataclass(frozen=True)
class LetterTerms:
    """What a plan and its campaign say beside the numbers: what it is for, who decides, and what became of it."""

    plan: str
    campaign: str
    window_days: int
    who: str = ""
    """Who may approve it, as a sentence."""
    title: str = ""
    reason: str = ""
    outcome: str = ""
    """Empty as long as it waits for a decision; then what was decided, as a sentence."""
    published: bool = False
    page: str = ""
    """Where people approve it in the UI; once it is published, where they undo it. Empty without a UI."""


def headline(difference: Difference) -> str:
    """``Amount falls by 388.90 EUR (-0.41 %), from 94,913.00 to 94,524.10 EUR.``"""
    table = difference.headline
    if table is None or not table.known:
        return "Nothing is compared yet."
    if not table.differing:
        return "Nothing changes."
    measure = first_measure(table)
    sums = table.total(measure)
    name = measure_name(measure)
    if sums.change is None or sums.after is None:
        return f"{name} changes by an unknown amount: it was not measured."
    if not sums.change:
        rows = table.rows.differing
        return f"{format_count(rows, 'row')} {'changes' if rows == 1 else 'change'}, and no sum does."
    if sums.share is None:
        return f"{name} becomes {money(sums.after, measure)} where there was nothing."
    verb = "rises" if sums.change > 0 else "falls"
    before, after, by = even(sums.before, sums.after, abs(sums.change))
    return (
        f"{name} {verb} by {money(by, measure)} ({percent(sums.share)}), from {amount(before)} to"
        f" {money(after, measure)}."
    )


def subject(difference: Difference) -> str:
    """``fact_sales_transactions, March 2017``: what the headline is about."""
    table = difference.headline
    if table is None or not table.days:
        return f"{difference.target}, {difference.days}"
    return f"{table.table}, {period([day.day for day in table.days], table.cadence)}"


def first_measure(table: TableCompared) -> str:
    """The first measure that changes; else one that is unknown, else the first there is."""
    unknown = (measure for measure in table.measures if table.total(measure).change is None)
    return next(table.changing(), None) or next(unknown, None) or next(iter(table.measures), ROWS)


def measure_name(measure: str) -> str:
    """``Amount`` for ``amount_eur``: the currency is beside the number."""
    words = column_label(measure).split()
    return " ".join(words[:-1] if _currency(measure) else words).capitalize()


def even(*values: Decimal | None) -> tuple[Decimal | None, ...]:
    """The same numbers with the same digits after the point: as many as the longest of them needs."""
    exponents = [value.normalize(EXACT).as_tuple().exponent for value in values if value is not None]
    places = max((-each for each in exponents if isinstance(each, int)), default=0)
    step = Decimal(1).scaleb(-max(0, places))
    return tuple(None if value is None else value.quantize(step, context=EXACT) for value in values)


def money(value: Decimal | None, measure: str) -> str:
    """``388.90 EUR``; a number alone for a measure that is no money."""
    return " ".join(filter(None, (amount(value), _currency(measure))))


def _currency(measure: str) -> str:
    words = measure.split("_")
    return words[-1].upper() if len(words) > 1 and _CURRENCIES.fullmatch(words[-1]) else ""


def days_lines(table: TableCompared) -> list[str]:
    """Which days change, and what becomes of each other planned day."""
    noun, all_days = unit(table), len(table.days)
    ranges = format_ranges((day.day for day in table.differing), _MOST_RANGES)
    found = [f"{format_changing(len(table.differing), all_days, noun)}{f': {ranges}' if ranges else ''}."]
    same = len(table.known) - len(table.differing) - table.count("left out", "held back")
    for count, one, more in (
        (same, "keeps its rows.", "keep their rows."),
        (table.count("held back"), "failed its gates and keeps its rows.", "failed their gates and keep their rows."),
        (
            table.count("left out"),
            "reads what failed, and keeps its rows.",
            "read what failed, and keep their rows.",
        ),
        (table.count("not staged"), "is not staged yet.", "are not staged yet: what they become is not known."),
    ):
        if count:
            found.append(f"{format_count(count, noun)} {one if count == 1 else more}")
    return found


def reports_line(difference: Difference, reports: Collection[str]) -> str:
    """Which of the ``reports`` that people read would change."""
    read = [table for table in difference.tables if table.table in reports]
    changing = [table.table for table in read if table.differing]
    same = [table.table for table in read if not table.differing]
    if not read:
        return "None: no report is computed from it here."
    if not changing:
        return f"None of {format_count(len(read), 'report')} changes."
    stays = f" {format_first(same, None)} {'stays' if len(same) == 1 else 'stay'} the same." if same else ""
    return f"{len(changing)} of {format_count(len(read), 'report')}: {format_first(changing, None)}.{stays}"


def table_rows(tables: Sequence[TableCompared]) -> list[tuple[str, ...]]:
    """A row for each table: how many of its periods change, and its first measure before and after."""
    return [_table_row(table) for table in tables]


def _table_row(table: TableCompared) -> tuple[str, ...]:
    measure = first_measure(table)
    sums = table.total(measure)
    changing = f"{len(table.differing)} of {format_count(len(table.days), unit(table))}"
    before, after, by = even(sums.before, sums.after, sums.change)
    return (table.table, changing, column_label(measure), amount(before), amount(after), *_change(by, sums.share))


def _change(by: Decimal | None, share: Decimal | None) -> tuple[str, str]:
    if by is None:
        return UNKNOWN, UNKNOWN
    if not by:
        return "unchanged", ""
    return f"{by:+,}", "from nothing" if share is None else percent(share)


def holds_back(difference: Difference) -> bool:
    """Are there days that a person has to leave out knowingly?"""
    return any(table.count("held back", "left out") for table in difference.tables)
