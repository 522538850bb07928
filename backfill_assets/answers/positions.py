"""What had been read of each source when a table was in a published state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.published.boundaries import DaysBoundary, PartitionPosition, RawBoundary, versions_text
from backfill_assets.published.moments import find_moment
from backfill_assets.published.positions import is_raw, table_boundaries
from backfill_assets.published.snapshot import Snapshot
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Line, Part, Tone, Worded


@dataclass(frozen=True)
class FoundPositions:
    """``boundaries`` has one of a raw table; of others one for each group of days that had read the same."""

    table: str
    version: int
    log_entry: int
    boundaries: Sequence[DaysBoundary]


def look_at_positions(storage: Storage, table: str, at: str | None) -> FoundPositions:
    """In the newest state, or in the one that ``at`` names: a publication, a Delta version of ``table``, or a time.

    Raises :class:`InvalidRequest` if nothing was published to the table by then.
    """
    snapshot = Snapshot.newest(storage) if at is None else find_moment(storage, at, table).snapshot
    if at is None and table not in snapshot.versions:
        raise InvalidRequest(
            f"Nothing was published to {table} in {storage.root}.", hint=f"backfill run {table} --days A..B builds it."
        )
    found = table_boundaries(snapshot, table)
    return FoundPositions(table, snapshot.versions[table], snapshot.sequence, found)


# ------------------------------------------------------------------ the answer


def positions_answer(found: FoundPositions) -> Answer:
    """Of a raw table its partitions and landed files; of any other its days by what they were computed from."""
    read = _of_raw(found.boundaries[0].boundary) if is_raw(found.table) else _of_days(found)
    facts = (Fact("table", found.table), Fact("version", found.version), Fact("log entry", found.log_entry))
    return Answer(parts=(*facts, *read))


def _of_raw(boundary: RawBoundary) -> Iterator[Part]:
    yield Fact("landed files", boundary.landed_files)
    yield Fact("newest arrival", boundary.newest_arrival)
    if boundary.unknown:
        yield Line(f"Unknown: {boundary.unknown}.", Tone.WARN)
    columns = ("topic", "partition", "next offset", "live since")
    rows = [(each.topic, each.partition, each.next_offset, each.live_since) for each in boundary.positions]
    yield Grid("partitions", columns, rows)


def _of_days(found: FoundPositions) -> Iterator[Part]:
    columns = ("days", "computed from", "versions", "positions", "landed files", "newest arrival", "unknown")
    rows = [_boundary(each.days, each.boundary) for each in found.boundaries]
    yield Grid("boundaries", columns, rows, drop=("newest arrival", "unknown"))
    if not rows:
        yield Line(f"No published day of {found.table} says which raw version it was computed from.")


def _boundary(days: Sequence[date], read: RawBoundary) -> Sequence[object]:
    versions = Worded(read.versions, versions_text(read.versions))
    positions = [_position(each) for each in read.positions]
    return Days.of(days), read.table, versions, positions, read.landed_files, read.newest_arrival, read.unknown


def _position(each: PartitionPosition) -> Worded:
    return Worded(asdict(each), f"topic {each.topic}: {each}")
