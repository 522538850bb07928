"""What a timeline is, in the numbers that people read: its days by table, their size, and what differs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.published.moments import HeldDays, differing


@dataclass(frozen=True)
class TableOnPlace:
    """The days of one table that are the timeline's own, and those of them that main holds otherwise."""

    table: str
    days: tuple[date, ...]
    rows: int
    versions: tuple[str, ...]
    differing: frozenset[date]


def tables_on(timeline: NamedTimeline, main: HeldDays) -> list[TableOnPlace]:
    """``main`` is what is published now of the timeline's tables."""
    return [_table(timeline, table, main) for table in timeline.days]


def _table(timeline: NamedTimeline, table: str, main: HeldDays) -> TableOnPlace:
    own = timeline.held(table)
    contents = [held.content for held in own.values() if held.content]
    differ = differing({table: own}, {table: main.get(table, {})})[table]
    return TableOnPlace(
        table,
        days=tuple(own),
        rows=sum(content.rows for content in contents),
        versions=tuple(sorted({content.code_version for content in contents})),
        differing=frozenset(differ & own.keys()),
    )


def size_of(timeline: NamedTimeline) -> int:
    """Bytes of the files that it names, those that it shares with others among them."""
    return sum(file.size for held in timeline.days.values() for each in held for file in each.files)


def tables_of(timelines: Iterable[NamedTimeline]) -> set[str]:
    """The tables that have days of their own on one of them."""
    return {table for each in timelines for table in each.days}
