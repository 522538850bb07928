"""How far each partition of each source had been read when days were computed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from itertools import groupby

from backfill_assets.lakehouse.records import PartitionPosition
from backfill_assets.report.answer import Days, Worded
from backfill_assets.text import format_count, format_ranges

_MOST_RANGES = 6


@dataclass(frozen=True)
class RawBoundary:
    """What a raw table had read of its source.

    Days may be computed from several ``versions``: this is then the least that any of them had read, and rows up to the
    greatest may be in the days too.
    """

    table: str
    versions: tuple[int, ...]
    positions: tuple[PartitionPosition, ...] = ()
    landed_files: int | None = 0
    newest_arrival: date | None = None
    unknown: str = ""
    """What is no longer known, in words."""

    @property
    def content(self) -> RawBoundary:
        """Without ``versions``: equal if nothing was read between them."""
        return replace(self, versions=())

    @property
    def is_streamed(self) -> bool:
        return bool(self.positions)


@dataclass(frozen=True)
class DaysBoundary:
    """Days computed from the same of a source; ``days`` is empty for a raw table itself."""

    tables: tuple[str, ...]
    days: tuple[date, ...]
    boundary: RawBoundary


def lowest(boundaries: Sequence[RawBoundary]) -> RawBoundary:
    """What all ``boundaries`` of one raw table had read at least."""
    first = boundaries[0]
    if all(each.content == first.content for each in boundaries):
        least = first
    else:
        files = [each.landed_files for each in boundaries if each.landed_files is not None]
        arrivals = [each.newest_arrival for each in boundaries if each.newest_arrival is not None]
        least = RawBoundary(
            first.table,
            (),
            _lowest_positions(boundaries),
            min(files) if len(files) == len(boundaries) else None,
            min(arrivals) if len(arrivals) == len(boundaries) else None,
            next((each.unknown for each in boundaries if each.unknown), ""),
        )
    return replace(least, versions=tuple(sorted({version for each in boundaries for version in each.versions})))


def _lowest_positions(boundaries: Sequence[RawBoundary]) -> tuple[PartitionPosition, ...]:
    """A partition that one of them lacks counts from offset 0."""
    by_partition: dict[tuple[str, int], list[PartitionPosition]] = {}
    for position in (each for boundary in boundaries for each in boundary.positions):
        by_partition.setdefault((position.topic, position.partition), []).append(position)
    return tuple(
        replace(found[0], next_offset=min(each.next_offset for each in found) if len(found) == len(boundaries) else 0)
        for _, found in sorted(by_partition.items())
    )


def group_days(boundary_of: Mapping[date, Sequence[RawBoundary]], table: str) -> list[DaysBoundary]:
    """By what they were computed from, ascending; versions with equal positions are one group."""
    groups: dict[RawBoundary, tuple[list[date], set[int]]] = {}
    for day, boundaries in sorted(boundary_of.items()):
        for boundary in boundaries:
            days, versions = groups.setdefault(boundary.content, ([], set()))
            days.append(day)
            versions.update(boundary.versions)
    return [
        DaysBoundary((table,), tuple(days), replace(content, versions=tuple(sorted(versions))))
        for content, (days, versions) in groups.items()
    ]


def merge_tables(found: Iterable[DaysBoundary]) -> list[DaysBoundary]:
    tables: dict[tuple[tuple[date, ...], RawBoundary], list[str]] = {}
    for each in found:
        tables.setdefault((each.days, each.boundary), []).extend(each.tables)
    return [DaysBoundary(tuple(names), days, boundary) for (days, boundary), names in tables.items()]


# ------------------------------------------------------------------- in words


def positions_text(positions: Iterable[PartitionPosition]) -> str:
    topics = groupby(sorted(positions, key=lambda each: (each.topic, each.partition)), key=lambda each: each.topic)
    return "; ".join(f"topic {topic}: {', '.join(map(str, parts))}" for topic, parts in topics)


def read_text(boundary: RawBoundary) -> str:
    parts = [positions_text(boundary.positions)] if boundary.positions else []
    if boundary.landed_files:
        newest = f", the newest of {boundary.newest_arrival}" if boundary.newest_arrival else ""
        parts.append(f"{format_count(boundary.landed_files, 'landed file')}{newest}")
    return "; ".join([*parts, *([boundary.unknown] if boundary.unknown else [])]) or "nothing"


def versions_text(versions: Sequence[int]) -> str:
    return f"version {versions[0]}" if len(versions) == 1 else f"versions {versions[0]} to {versions[-1]}"


def boundary_line(each: DaysBoundary) -> str:
    """``bronze_sales 2017-03-01..2017-03-29 from raw_sales version 12: topic orders: ...``."""
    boundary, days = each.boundary, format_ranges(each.days, _MOST_RANGES)
    source = "at" if each.tables == (boundary.table,) else f"from {boundary.table}"
    return f"{', '.join(each.tables)} {days} {source} {versions_text(boundary.versions)}: {read_text(boundary)}"


def boundary_value(each: DaysBoundary) -> Worded:
    boundary = each.boundary
    values = {
        "tables": each.tables,
        "days": Days.of(each.days),
        "raw": boundary.table,
        "versions": boundary.versions,
        "positions": [asdict(position) for position in boundary.positions],
        "landed_files": boundary.landed_files,
        "newest_arrival": boundary.newest_arrival,
        "unknown": boundary.unknown,
    }
    return Worded(values, boundary_line(each))
