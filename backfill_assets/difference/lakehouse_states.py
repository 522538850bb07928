"""Compares any two states: main, a timeline, or a moment, which is a publication, a Delta version or a time.

What days hold is read from logs, and only days that differ are read themselves: two timelines that share 85 of 90 days
share the files of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from backfill_assets.days import DayRange
from backfill_assets.difference.kept import Difference
from backfill_assets.difference.records import TableCompared
from backfill_assets.difference.table_comparison import SAMPLE_ROWS, TableComparison
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import NamedTimeline, timeline_called
from backfill_assets.lakehouse.records import DayRecords
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import steps_of
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.state.moments import find_moment, is_version
from backfill_assets.state.view import View, differing
from backfill_assets.text import format_count, format_range
from backfill_assets.timeline.opened import OpenedTimeline
from backfill_assets.timeline.view import find_place, is_of_campaign, stale_lines

MAIN = "main"


@dataclass(frozen=True)
class LakehouseState:
    """A state of all tables, as people name it: what was published by a moment, with the days of a timeline over it."""

    text: str
    view: View
    timeline: NamedTimeline | None = None

    @property
    def own_days(self) -> Mapping[str, set[date]]:
        """The days, by table, that are the timeline's own."""
        return {table: set(days) for table, days in self.view.over.items()}

    def stale_lines(self, steps: Sequence[Step]) -> list[str]:
        """Which days of the timeline were computed from others than it shows; none of what was published."""
        if self.timeline is None:
            return []
        return stale_lines(self.timeline, OpenedTimeline(self.view.storage, self.timeline).stale_days(steps))


@dataclass(frozen=True)
class StatesRequest:
    """Two states, as people name them; of ``tables`` and ``days`` if they are given, else of all that may differ."""

    left: str
    right: str
    tables: Sequence[str] = ()
    days: DayRange | None = None
    sample_rows: int = SAMPLE_ROWS


def find_state(storage: Storage, text: str, now: datetime, table: str = "") -> LakehouseState:
    """Raises :class:`InvalidRequest` for what names no state, and for a version without the ``table`` it is of."""
    if text == MAIN:
        return LakehouseState(MAIN, View.newest(storage))
    found = find_place(storage, text, now) if is_of_campaign(text) else timeline_called(storage, text, now)
    if found is not None:
        return LakehouseState(text, View.of(storage, found), found)
    if is_version(text) and not table:
        raise InvalidRequest(
            f"{text} is a version of a table: of which one?", hint="backfill diff LEFT RIGHT --table TABLE"
        )
    moment = find_moment(storage, text, table)
    return LakehouseState(moment.text, moment.view)


def compare_states(lake: Lake, steps: Sequence[Step], asked: StatesRequest, progress: Progress) -> Difference:
    """What is other on the right than on the left, table by table.

    Without ``tables``, of those that a timeline has days of, or else of all. Without ``days``, of the timelines' own
    days and of all that differ.
    """
    now, first = lake.publisher.now(), next(iter(asked.tables), "")
    left, right = (find_state(lake.storage, text, now, first) for text in (asked.left, asked.right))
    own = {table for state in (left, right) for table in state.own_days}
    wanted = set(asked.tables) or own or {*left.view.versions, *right.view.versions}
    concerned = steps_of(steps, wanted)
    names = [table.name for step in concerned for table in step.tables if table.name in wanted]
    before, after = left.view.records(names), right.view.records(names)
    days = days_to_compare(left, right, before, after, asked.days)
    found = [
        TableComparison(
            lake, table, step.cadence, sorted(days[table.name]), progress, before[table.name], after[table.name]
        ).compare(asked.sample_rows)
        for step in concerned
        for table in step.tables
        if days.get(table.name)
    ]
    stale = [line for state in (left, right) for line in state.stale_lines(steps)]
    return _difference(left, right, asked, found, stale)


def days_to_compare(
    left: LakehouseState, right: LakehouseState, before: DayRecords, after: DayRecords, chosen: DayRange | None
) -> dict[str, set[date]]:
    """The days of each table that are shown: those that differ, and those that are a timeline's own. Pure."""
    differ = differing(before, after)
    if chosen is not None:
        return {table: {day for day in {*before[table], *after[table]} if day in chosen} for table in differ}
    return {
        table: days | left.own_days.get(table, set()) | right.own_days.get(table, set())
        for table, days in differ.items()
    }


def _difference(
    left: LakehouseState,
    right: LakehouseState,
    asked: StatesRequest,
    found: Sequence[TableCompared],
    stale: Sequence[str],
) -> Difference:
    shown = [day.day for table in found for day in table.days]
    days = asked.days or (DayRange(min(shown), max(shown)) if shown else None)
    return Difference(
        left=left.text,
        right=right.text,
        target=next(iter(asked.tables), "") or (found[0].table if found else ""),
        days=format_range(days) if days else format_count(0, "day"),
        log_entry=max(left.view.sequence, right.view.sequence),
        made_at=datetime.now(UTC).replace(microsecond=0),
        tables=tuple(found),
        stale=tuple(dict.fromkeys(stale)),
    )
