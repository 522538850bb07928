"""Which published days the watchdogs check tonight: those new since their last check, and a share of the rest."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from backfill_assets.lakehouse.records import DayState

TURNS = 30
"""After this many nights every published day has been looked at again."""


def days_to_watch(states: Iterable[DayState], *, looked_until: int, tonight: date) -> dict[str, list[date]]:
    """By table, ascending: the days published after the entry ``looked_until`` of the log, and tonight's turn.

    A day that is withdrawn is not looked at.
    """
    found: dict[str, set[date]] = {}
    for state in states:
        day = state.day
        if state.content is not None and (state.sequence > looked_until or _turn(day, tonight)):
            found.setdefault(state.table, set()).add(day)
    return {table: sorted(days) for table, days in sorted(found.items())}


def _turn(day: date, tonight: date) -> bool:
    return day.toordinal() % TURNS == tonight.toordinal() % TURNS
