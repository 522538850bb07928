"""Up to where topics had been read for the days that a plan reads: its boundary. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from backfill_assets.plan.records import Plan, PlannedBoundary, PlannedPosition, as_ranges
from backfill_assets.published.boundaries import DaysBoundary, PartitionPosition, positions_text, versions_text
from backfill_assets.text import format_first

_MOST_RANGES = 3


def planned_boundaries(found: Iterable[DaysBoundary]) -> tuple[PlannedBoundary, ...]:
    """The boundaries of days that a plan reads and does not rebuild, as the plan keeps them."""
    return tuple(
        PlannedBoundary(
            tables=each.tables,
            days=as_ranges(each.days),
            raw=each.boundary.table,
            versions=each.boundary.versions,
            positions=tuple(_planned(position) for position in each.boundary.positions),
        )
        for each in found
        if each.boundary.is_streamed
    )


def _planned(position: PartitionPosition) -> PlannedPosition:
    return PlannedPosition(
        topic=position.topic,
        partition=position.partition,
        next_offset=position.next_offset,
        live_since=position.live_since,
    )


def boundary_lines(plan: Plan) -> list[str]:
    """What of a stream the plan was made from, and what happens to the rows after it; nothing without a stream."""
    lines = [_line(each) for each in plan.boundaries]
    after = "Events beyond these offsets stay where they are: their days are brought up to date after the cut-over."
    return [*lines, after] if lines else []


def _line(each: PlannedBoundary) -> str:
    days, source = format_first(each.days, _MOST_RANGES), f"{each.raw} {versions_text(each.versions)}"
    reads = "" if each.tables == (each.raw,) else f"{', '.join(each.tables)} from "
    positions = (PartitionPosition(p.topic, p.partition, p.next_offset, p.live_since) for p in each.positions)
    return f"Boundary of {days}: reads {reads}{source}, {positions_text(positions)}"
