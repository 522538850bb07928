"""How a stream reads: where it starts, and what a micro-batch of Spark's query brings into raw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, ClassVar

from backfill_assets.errors import SourceUnreadable
from backfill_assets.published.stream_positions import topic_positions
from backfill_assets.stream.batches import AppendedBatch, LandedBatches, TopicBatches, file_stamp
from backfill_assets.stream.broker import Broker, broker_away, says_events_are_gone, unreadable_time
from backfill_assets.stream.checkpoint import Checkpoint
from backfill_assets.stream.delays import Delays
from backfill_assets.stream.lease import StreamPosition
from backfill_assets.stream.offsets import (
    Offsets,
    Start,
    lost_events,
    lost_ranges,
    planned_ranges,
    require_same_topic,
    start_of,
)
from backfill_assets.stream.query import read_landing, read_topic
from backfill_assets.stream.throttle import LIVE_BELOW_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHOWN_FOLDERS = 7
"""Of so many arrival days the positions say how many landed files are read."""


@dataclass(frozen=True)
class StartRequest:
    """Where a stream that has not begun yet is to start, and what it may leave out."""

    from_beginning: bool = False
    since: date | None = None
    """With ``from_beginning``: history begins with what arrived on this day (UTC)."""
    accept_gap: bool = False
    """Go on after events that the broker deleted before they were read, and record which they are."""


@dataclass(frozen=True)
class BatchRead:
    """What one micro-batch read, and what it brought into raw; ``appended`` is None if raw had it all."""

    events: int
    appended: AppendedBatch | None
    delays: Delays | None
    bytes: int = 0
    """Of landed files, as they lie on disk; 0 for a topic."""


class Reading(ABC):
    """Reads one source of a stream. ``checkpoint`` is where Spark plans its batches."""

    checkpoint: Checkpoint
    is_capped_by_events: ClassVar[bool] = False
    """Whether the most events of a batch can be limited, and not only files."""

    @property
    @abstractmethod
    def is_live(self) -> bool:
        """Whether the history of the source is read, so that what comes now is read."""

    @property
    @abstractmethod
    def boundary_text(self) -> str:
        """Where history ended and live reading began, in words."""

    @property
    @abstractmethod
    def positions(self) -> tuple[StreamPosition, ...]:
        """How far each partition of the source is read, since the source was opened."""

    @abstractmethod
    def open(self, most_events: int, files_in_flight: int) -> DataFrame:
        """What Spark is to read from where raw ends. Raises :class:`SourceUnreadable` if it cannot be read from there.

        A batch has at most ``most_events`` events, or ``files_in_flight`` files.
        """

    @abstractmethod
    def publish(self, rows: DataFrame, number: int, ends: Offsets) -> BatchRead:
        """Publish micro-batch ``number`` of the query. ``ends`` is what the source is known to have."""

    def explain(self, error: Exception) -> Exception | None:
        """What an error of Spark says about the source; None if it is about something else."""
        return None


@dataclass
class TopicReading(Reading):
    """Reads a topic. What is started from and where history ends is written down before anything is read."""

    is_capped_by_events: ClassVar[bool] = True

    batches: TopicBatches
    checkpoint: Checkpoint
    request: StartRequest
    properties: Mapping[str, str] = field(repr=False)
    """Kafka client properties; may hold secrets."""
    start: Start | None = None
    _end: Offsets = field(default_factory=dict)
    _kept: Offsets = field(default_factory=dict)
    """The ends of the topic's partitions, as far as they are known."""

    @property
    def is_live(self) -> bool:
        boundary = self.start.boundary if self.start else {}
        return self.start is not None and all(self._end.get(number, 0) >= at for number, at in boundary.items())

    @property
    def boundary_text(self) -> str:
        boundary = self.start.boundary if self.start else {}
        return ", ".join(f"partition {number}: offset {at:,}" for number, at in sorted(boundary.items()))

    @property
    def positions(self) -> tuple[StreamPosition, ...]:
        return tuple(
            StreamPosition(partition=f"{self.batches.topic.topic}/{number}", position=at, end=self._kept.get(number))
            for number, at in sorted(self._end.items())
        )

    def open(self, most_events: int, files_in_flight: int) -> DataFrame:
        topic = self.batches.topic
        self.start = start = self._start(Broker(self.batches.lake.spark(), topic, self.properties))
        self.checkpoint.renew(self.batches.step.name, str(topic), self.batches.lake.storage.uri())
        self._end = start.offsets
        return read_topic(self.batches.lake.spark(), topic, start.offsets, self.properties, most_events)

    def _start(self, broker: Broker) -> Start:
        topic, kept = self.batches.topic, broker.offsets()
        known = topic_positions(self.batches.lake.storage, self.batches.source.name, topic.topic)
        start = start_of(known, kept, self._history(broker))
        require_same_topic(topic, start.offsets, kept.end)
        if start.new:
            self.batches.begin(start)
        lost = lost_ranges(start.offsets, kept.oldest)
        self._kept = kept.end
        if not lost:
            return start
        if not self.request.accept_gap:
            raise lost_events(topic, lost)
        self.batches.skip(lost)
        return self._start(broker)

    def _history(self, broker: Broker) -> Offsets | None:
        if not self.request.from_beginning:
            return None
        return {} if self.request.since is None else broker.offsets_since(self.request.since)

    def publish(self, rows: DataFrame, number: int, ends: Offsets) -> BatchRead:
        end = self.checkpoint.topic_offsets(number, self.batches.topic.topic)
        planned = planned_ranges(self._end, end)
        appended = self.batches.publish(rows, planned)
        self._end, self._kept = end, {**self._kept, **ends}
        arrived = self.batches.arrived if appended else None
        delays = arrived.delays(self.batches.lake.publisher.now()) if arrived else None
        return BatchRead(sum(each.events for each in planned), appended, delays)

    def explain(self, error: Exception) -> Exception | None:
        topic = self.batches.topic
        explained = broker_away(topic, error) or unreadable_time(topic, error)
        return self._why_gone() if explained is None and says_events_are_gone(error) else explained

    def _why_gone(self) -> Exception | None:
        """What the next start would say of events that were deleted while the stream ran; None if all are there."""
        topic, batches = self.batches.topic, self.batches
        try:
            kept = Broker(batches.lake.spark(), topic, self.properties).offsets()
            known = topic_positions(batches.lake.storage, batches.source.name, topic.topic)
            start = start_of(known, kept, None)
            require_same_topic(topic, start.offsets, kept.end)
        except SourceUnreadable as why:
            return why
        lost = lost_ranges(start.offsets, kept.oldest)
        return lost_events(topic, lost) if lost else None


@dataclass
class LandingReading(Reading):
    """Reads the landing folder of a source, whose files land all day. Their time is that of their last change."""

    batches: LandedBatches
    checkpoint: Checkpoint
    live_below_seconds: float = LIVE_BELOW_SECONDS
    read_files: Counter[str] = field(default_factory=Counter)
    """How many landed files raw has read, by the folder of their arrival day."""
    landed_files: dict[str, int] = field(default_factory=dict)
    """How many there were in the newest folders, when they were last read from."""
    _live_since: datetime | None = None

    @property
    def is_live(self) -> bool:
        return self._live_since is not None

    @property
    def boundary_text(self) -> str:
        return f"files that landed until {self._live_since:%Y-%m-%d %H:%M:%S}Z" if self._live_since else ""

    @property
    def positions(self) -> tuple[StreamPosition, ...]:
        folders = sorted(self.read_files.items())[-_SHOWN_FOLDERS:]
        return tuple(
            StreamPosition(partition=day, position=count, end=self.landed_files.get(day)) for day, count in folders
        )

    def open(self, most_events: int, files_in_flight: int) -> DataFrame:
        lake, source = self.batches.lake, self.batches.source.name
        folder = lake.landing.root / source
        folder.mkdir(parents=True, exist_ok=True)
        self.read_files = self.batches.files_read()
        self._count_landed(sorted(self.read_files)[-_SHOWN_FOLDERS:])
        self.checkpoint.renew(self.batches.step.name, str(folder), lake.storage.uri())
        return read_landing(lake.spark(), f"{folder}/*/*.jsonl.gz", files_in_flight)

    def publish(self, rows: DataFrame, number: int, ends: Offsets) -> BatchRead:
        paths = self.checkpoint.landed_paths(number)
        stamps = [stamp for path in paths if (stamp := file_stamp(path)) is not None]
        landed_at = sorted(changed / 1e9 for changed, _ in stamps)
        appended = self.batches.publish(paths)
        if appended:
            self._count_files()
        now = self.batches.lake.publisher.now()
        late = [max(0.0, now.timestamp() - at) for at in landed_at]
        if late and late[-1] < self.live_below_seconds:
            self._live_since = self._live_since or now
        delays = Delays(late[len(late) // 2], late[0]) if late and appended else None
        size = sum(size for _, size in stamps)
        return BatchRead(appended.received if appended else 0, appended, delays, bytes=size)

    def _count_files(self) -> None:
        read = Counter(each.parent.name for each in self.batches.appended_files)
        self.read_files.update(read)
        self._count_landed(read)

    def _count_landed(self, days: Iterable[str]) -> None:
        folder = self.batches.lake.landing.root / self.batches.source.name
        self.landed_files |= {day: sum(1 for _ in (folder / day).glob("*.jsonl.gz")) for day in days}
