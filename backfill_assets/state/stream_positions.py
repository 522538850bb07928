"""The positions of a stream in raw: how far each partition of a topic was read.

A position is the next offset to read: a Delta transaction of raw, committed with the rows before it. Raw knows topics
by ids: one created again, or of another cluster, is another, and called ``name@2`` in positions and places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.delta_log import newest_version, read_transactions
from backfill_assets.lakehouse.records import Position, is_of_stream
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.past import brought_days

KAFKA = "kafka"
_BEGUN, _BOUNDARY, _IDS = "begun", "boundary", "ids"


def offset_id(source: str, topic: str, partition: int) -> str:
    return f"{KAFKA}:{source}:{topic}:{partition}"


def begun_id(source: str, topic: str) -> str:
    """The transaction of a topic that a stream has begun: a partition without a position is at 0."""
    return f"{KAFKA}:{source}:{topic}:{_BEGUN}"


def boundary_id(source: str, topic: str, partition: int) -> str:
    """The transaction of the offset where a partition's history ended and live events began."""
    return f"{KAFKA}:{source}:{topic}:{_BOUNDARY}:{partition}"


@dataclass(frozen=True)
class TopicIds:
    cluster: str
    topic: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}"


def ids_id(source: str, topic: str, ids: TopicIds) -> str:
    """The transaction that tells which topic was read as ``topic``."""
    return f"{KAFKA}:{source}:{topic}:{_IDS}:{ids.cluster}:{ids.topic}"


@dataclass(frozen=True)
class TopicPositions:
    """By partition; ``boundary`` is where live events began."""

    topic: str
    """``sales``, and ``sales@2`` for the second topic of that name."""
    begun: bool = False
    ids: TopicIds | None = None
    next_offsets: Mapping[int, int] = field(default_factory=dict)
    boundary: Mapping[int, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.topic.partition("@")[0]

    @property
    def number(self) -> int:
        return int(self.topic.partition("@")[2] or 1)

    def next_topic(self) -> TopicPositions:
        return TopicPositions(f"{self.name}@{self.number + 1}")


def topic_positions(storage: Storage, source: str, topic: str) -> TopicPositions:
    table = f"raw_{source}"
    newest = newest_version(storage, table)
    known = {} if newest is None else parse_positions(source, read_transactions(storage, table, newest))
    named = [each for each in known.values() if each.name == topic]
    return max(named, key=lambda each: each.number, default=TopicPositions(topic))


def parse_positions(source: str, transactions: Mapping[str, int]) -> dict[str, TopicPositions]:
    """By topic; a position taken back to 0 counts as none."""
    found: dict[str, tuple[bool, TopicIds | None, dict[int, int], dict[int, int]]] = {}
    prefix = f"{KAFKA}:{source}:"
    for id, value in transactions.items():
        if not id.startswith(prefix) or not value:
            continue
        topic, *rest = id.removeprefix(prefix).split(":")
        begun, ids, offsets, boundary = found.get(topic, (False, None, {}, {}))
        if rest == [_BEGUN]:
            begun = True
        elif rest[0] == _IDS:
            ids = TopicIds(*rest[1:])
        elif rest[0] == _BOUNDARY:
            boundary[int(rest[1])] = value
        else:
            offsets[int(rest[0])] = value
        found[topic] = (begun, ids, offsets, boundary)
    return {topic: TopicPositions(topic, *parts) for topic, parts in found.items()}


@dataclass(frozen=True, order=True)
class PartitionRead:
    """One publication's move of a position: from ``first`` up to, and without, ``end``. A rollback moves it back."""

    source: str
    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        moved = "up" if self.end >= self.first else "back"
        return f"topic {self.topic}: partition {self.partition} from offset {self.first:,} {moved} to {self.end:,}"


def partition_reads(positions: Iterable[Position]) -> list[PartitionRead]:
    found = []
    for position in positions:
        kind, _, rest = position.id.partition(":")
        source, _, name = rest.partition(":")
        topic, _, partition = name.partition(":")
        if kind == KAFKA and partition.isdecimal():
            found.append(PartitionRead(source, topic, int(partition), position.before or 0, position.after))
    return sorted(found)


def stream_topics(positions: Iterable[Position]) -> list[str]:
    return sorted({each.id.split(":")[2] for each in positions if each.id.startswith(f"{KAFKA}:")})


# ------------------------------------------------------------------ days that streams have moved


def moved_by_streams(storage: Storage, since: int, days: Collection[TableDay]) -> frozenset[TableDay]:
    """The ``days`` published after log entry ``since`` by streams alone, not counting compactions. Reads the log's
    columns only.
    """
    tables, dates = {each.table for each in days}, {each.day for each in days}
    if not days:
        return frozenset()
    streamed: defaultdict[TableDay, bool] = defaultdict(lambda: True)
    for each in brought_days(PublicationLog(storage).files(), tables, dates, after=since):
        if each.kind != "compact":
            streamed[each.key] &= is_of_stream(each.publication)
    return frozenset(each for each in days if streamed.get(each))
