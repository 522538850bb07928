"""Up to where topics had been read for the days that a plan reads: its boundary. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from backfill_assets.plan.records import PlannedBoundary, PlannedPosition, as_ranges
from backfill_assets.published.boundaries import DaysBoundary, PartitionPosition


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
