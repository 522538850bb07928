"""How a stream reads: where it starts, and what a micro-batch of Spark's query brings into raw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from backfill_assets.errors import SourceUnreadable
from backfill_assets.state.stream_positions import TopicPositions, topic_positions
from backfill_assets.stream.batches import AppendedBatch, LandedBatches, TopicBatches, file_stamp
from backfill_assets.stream.broker import Broker, broker_away, says_events_are_gone
from backfill_assets.stream.delays import Delays, Received
from backfill_assets.stream.lease import StreamPosition
from backfill_assets.stream.query import Checkpoint, read_landing, read_topic
from backfill_assets.stream.sources import (
    Offsets,
    Start,
    known_topic,
    lost_events,
    lost_ranges,
    planned_ranges,
    require_not_shorter,
    start_of,
)
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
    new_topic: bool = False
    """Read a topic although another one of that name was read before it, from its first event on."""


@dataclass(frozen=True)
class BatchRead:
    """What one micro-batch read, and what it brought into raw; ``appended`` is None if raw had it all."""

    events: int
    appended: AppendedBatch | None
    received: Received | None
    """When its source received the events."""
    bytes: int = 0
    """Of landed files, as they lie on disk; 0 for a topic."""

    @property
    def delays(self) -> Delays | None:
        """Until the events were in raw."""
        return self.received.delays(self.appended.at) if self.received and self.appended else None


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

    def read_again(self) -> BatchRead | None:
        """Read what could not be read before, and may be by now; None if there is none. Called each idle minute."""
        return None

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
        self.start = start = self._start(self.batches.broker)
        self.checkpoint.renew(self.batches.step.name, str(topic), self.batches.lake.storage.uri())
        self._end = start.offsets
        return read_topic(self.batches.lake.spark(), topic, start.offsets, self.batches.properties, most_events)

    def _start(self, broker: Broker) -> Start:
        topic, kept = self.batches.topic, broker.offsets()
        known = known_topic(self._known(), topic, kept.ids, new_topic=self.request.new_topic)
        self.batches.known = replace(known, ids=kept.ids)
        start = start_of(known, kept, self._history(broker))
        require_not_shorter(topic, start.offsets, kept.end)
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

    def _known(self) -> TopicPositions:
        return topic_positions(self.batches.lake.storage, self.batches.source.name, self.batches.topic.topic)

    def _history(self, broker: Broker) -> Offsets | None:
        if not self.request.from_beginning and self.batches.known.number == 1:
            return None
        return {} if self.request.since is None else broker.offsets_since(self.request.since)

    def publish(self, rows: DataFrame, number: int, ends: Offsets) -> BatchRead:
        end = self.checkpoint.topic_offsets(number, self.batches.topic.topic)
        planned = planned_ranges(self._end, end)
        appended = self.batches.publish(rows, planned)
        self._end, self._kept = end, {**self._kept, **ends}
        received = self.batches.seen.received if appended and self.batches.seen else None
        # Of rows that a killed stream had staged, no more is known than how many there are.
        events = received.events if received else appended.received if appended else 0
        return BatchRead(events, appended, received)

    def explain(self, error: Exception) -> Exception | None:
        topic = self.batches.topic
        explained = broker_away(topic, error)
        return self._why_gone() if explained is None and says_events_are_gone(error) else explained

    def _why_gone(self) -> Exception | None:
        """What the next start would say of events that were deleted while the stream ran; None if all are there."""
        topic, batches = self.batches.topic, self.batches
        try:
            kept = batches.broker.offsets()
            known = known_topic(self._known(), topic, kept.ids, new_topic=False)
            start = start_of(known, kept, None)
            require_not_shorter(topic, start.offsets, kept.end)
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
        return self._read(self.checkpoint.landed_paths(number))

    def read_again(self) -> BatchRead | None:
        again = self.batches.with_landed_again([])
        return self._read(again) if again else None

    def _read(self, paths: Sequence[Path]) -> BatchRead:
        stamps = [stamp for path in paths if (stamp := file_stamp(path)) is not None]
        landed_at = sorted(changed / 1e9 for changed, _ in stamps)
        appended = self.batches.publish(paths)
        if appended:
            self._count_files()
        now = self.batches.lake.publisher.now()
        late = [max(0.0, now.timestamp() - at) for at in landed_at]
        if late and late[-1] < self.live_below_seconds:
            self._live_since = self._live_since or now
        events = appended.received if appended else 0
        received = Received.of(events, [int(at * 1000) for at in landed_at]) if landed_at and events else None
        return BatchRead(events, appended, received, bytes=sum(size for _, size in stamps))

    def _count_files(self) -> None:
        read = Counter(each.parent.name for each in self.batches.appended_files)
        self.read_files.update(read)
        self._count_landed(read)

    def _count_landed(self, days: Iterable[str]) -> None:
        folder = self.batches.lake.landing.root / self.batches.source.name
        self.landed_files |= {day: sum(1 for _ in (folder / day).glob("*.jsonl.gz")) for day in days}
