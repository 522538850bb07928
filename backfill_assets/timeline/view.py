"""What a timeline looks like to those who decide by the logs: its own days over the state of its base. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.named_timelines import HeldDay, NamedTimeline
from backfill_assets.lakehouse.records import DayState
from backfill_assets.published.observed import LogView


def timeline_view(base: LogView, timeline: NamedTimeline) -> LogView:
    """``base``, observed at the timeline's base, with the timeline's own days in place of those it has.

    An own day is of no publication. One that was never published is missing, also if the base has it.
    """
    own = {
        TableDay(table, held.day): state_of(table, held, base.sequence)
        for table, days in timeline.days.items()
        for held in days
    }
    files = {table: _files(base.pinned.get(table, {}), timeline.held(table)) for table in timeline.days}
    pinned = {**base.pinned, **files}
    return replace(base, states={**base.states, **own}, newest=pinned, pinned=pinned)


def _files(base: Mapping[date, str], own: Mapping[date, HeldDay]) -> Mapping[date, str]:
    read_through = {day: physical for day, physical in base.items() if day not in own}
    return read_through | {day: _physical(held) for day, held in own.items() if held.files}


def state_of(table: str, held: HeldDay, sequence: int) -> DayState:
    """A day of a timeline as the log would have it, of no publication."""
    return DayState(table, held.day, publication="", sequence=sequence, physical=_physical(held), content=held.content)


def _physical(held: HeldDay) -> str:
    return fingerprints.physical(file.path for file in held.files)
