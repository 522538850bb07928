"""Changes in words that a manager can read. Pure."""

from __future__ import annotations

from backfill_assets.difference.records import (
    ROWS,
    GroupsCompared,
    Sums,
    TableCompared,
    TableDifference,
)
from backfill_assets.text import (
    UNKNOWN,
    amount,
    column_label,
    format_changing,
    format_count,
    percent,
    period,
    pluralize,
)

_MOST_NAMED = 3


def table_sentence(table: TableCompared) -> str:
    """``March 2017: revenue eur -0.41 %, 22 of 31 days, all departments.``"""
    days = [day.day for day in table.days]
    if not days:
        return "No days."
    absent = {"held back": table.count("held back", "left out"), "not staged": table.count("not staged")}
    back = "".join(f", {format_count(count, unit(table))} {how}" for how, count in absent.items() if count)
    known = format_count(len(table.known), unit(table))
    if not table.known:
        return f"{period(days, table.cadence)}: nothing is staged yet."
    if not table.differing:
        return f"{period(days, table.cadence)}: nothing changes on {known}{back}."
    parts = [_main_change(table), f"{len(table.differing)} of {known}"]
    parts += [text for found in table.groups if (text := _groups(found))]
    return f"{period(days, table.cadence)}: {', '.join(parts)}{back}."


def change_sentence(table: TableDifference) -> str:
    """``report: 22 of 31 published days change; on these 31 days rows +0.20 %, revenue_eur -0.41 %.``

    A difference is of all planned days, and its percentages with it.
    """
    days = len(table.changed) + len(table.unchanged)
    moved = [_move_text(measure, sums) for measure, sums in table.sums.items() if sums.share or sums.change is None]
    suffix = f"; on {'this day' if days == 1 else f'these {days:,} days'} {', '.join(moved)}" if moved else ""
    return f"{table.table}: {format_changing(len(table.changed), days, 'published day')}{suffix}."


def _move_text(measure: str, sums: Sums) -> str:
    if sums.share is None:
        return f"{measure} by an unknown amount: it was not measured before"
    return f"{measure} {percent(sums.share)}"


def unit(table: TableCompared) -> str:
    """What a partition of ``table`` is: ``day``, ``week`` or ``month``."""
    return table.cadence.noun


def change(found: Sums) -> str:
    """``-0.41 %``; what there is now where there was nothing; ``unchanged``; ``unknown``."""
    if found.change is None or found.after is None:
        return UNKNOWN
    if not found.change:
        return "unchanged"
    return f"{amount(found.after)} where there was nothing" if found.share is None else percent(found.share)


def _main_change(table: TableCompared) -> str:
    """The first measure that changes, or is unknown; if none does, how many rows change."""
    differing = [measure for measure in (*table.measures, ROWS) if table.total(measure).differs]
    if first := [*table.changing(), *differing][:1]:
        return f"{column_label(first[0])} {change(table.total(first[0]))}"
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
