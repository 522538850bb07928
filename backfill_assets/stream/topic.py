"""Reads a topic. Where it starts, and where history ends, is published before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial, reduce
from typing import ClassVar, TypeVar

from pyspark.sql import DataFrame, Observation

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable, SourceUnreadable
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import InputRead, Position
from backfill_assets.lakehouse.rows import observed, rows_of_files, stage, take_in
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.deletions import deletions_by, landed_keys
from backfill_assets.landing.rows_of_lines import write_rows_of_lines
from backfill_assets.model.landed import raw_schema
from backfill_assets.model.record_parts import header_of
from backfill_assets.rebuild.raw_change import RawChange, StagedChange, only
from backfill_assets.spark.workers import errors_of_workers
from backfill_assets.state.stream_positions import (
    TopicPositions,
    begun_id,
    boundary_id,
    ids_id,
    offset_id,
    topic_positions,
)
from backfill_assets.stream.batches import BatchRead, Checkpoint, Reading
from backfill_assets.stream.broker import Broker, BrokerAway, broker_away, is_about_an_event, says_events_are_gone
from backfill_assets.stream.dead_letters import DeadLetters, quarantine_of
from backfill_assets.stream.events import (
    EachEvent,
    EventsSeen,
    deleted_keys,
    event_lines,
    event_rows,
    is_tombstone,
    of_no_key,
    seen_events,
    within,
)
from backfill_assets.stream.lease import StreamPosition
from backfill_assets.stream.registry_events import OF_REGISTRY
from backfill_assets.stream.sources import (
    KafkaTopic,
    OffsetRange,
    Offsets,
    Start,
    another_topic,
    known_topic,
    lost_events,
    lost_ranges,
    new_ranges,
    planned_ranges,
    require_not_shorter,
    start_of,
)
from backfill_assets.text import format_count

Made = TypeVar("Made")
_GROUP = "group.id"
_EVENTS_OF_A_TASK = 50_000
"""Each task writes a file for each event day; most batches are one task."""


@dataclass(frozen=True)
class StartRequest:
    from_beginning: bool = False
    since: date | None = None
    """The first arrival day (UTC) of history; with ``from_beginning``."""
    accept_gap: bool = False
    """Skip events that the broker deleted unread, and record which."""
    new_topic: bool = False
    """Read another topic of a known name, from its first event."""


@dataclass
class TopicReading(Reading):
    usual_most: ClassVar[int] = 100_000
    counts_events: ClassVar[bool] = True
    of_topic: ClassVar[bool] = True

    topic: KafkaTopic = field(kw_only=True)
    properties: Mapping[str, str] = field(kw_only=True, repr=False)
    """May contain secrets."""
    asked: StartRequest = field(kw_only=True)
    known: TopicPositions = field(init=False)
    seen: EventsSeen | None = None
    letters: DeadLetters | None = None
    _end: Offsets = field(default_factory=dict)
    _kept: Offsets = field(default_factory=dict)
    _mirrored: Offsets = field(default_factory=dict)
    _refused: str = ""

    @property
    def _events(self) -> str:
        return f"events of {self.topic}"

    @property
    def broker(self) -> Broker:
        others = (_GROUP, OF_REGISTRY)
        properties = {name: value for name, value in self.properties.items() if not name.startswith(others)}
        with_headers = any(header_of(name) for name in self.source.record_fields)
        return Broker(self.lake.spark(), self.topic, properties, with_headers)

    @property
    def group(self) -> str:
        """The consumer group that mirrors raw's positions."""
        return self.properties.get(_GROUP, f"backfill-{self.step.name}")

    @property
    def reached(self) -> Offsets:
        return self._end

    @property
    def boundary(self) -> Offsets:
        return self.start.boundary if self.start else {}

    @property
    def is_live(self) -> bool:
        return self.start is not None and all(self._end.get(number, 0) >= at for number, at in self.boundary.items())

    @property
    def boundary_text(self) -> str:
        return ", ".join(f"partition {number}: offset {at:,}" for number, at in sorted(self.boundary.items()))

    @property
    def positions(self) -> tuple[StreamPosition, ...]:
        reached = {**dict.fromkeys(self._kept, 0), **self._end}
        return tuple(
            StreamPosition(partition=f"{self.topic.topic}/{number}", position=at, end=self._kept.get(number))
            for number, at in sorted(reached.items())
        )

    def look(self) -> None:
        try:
            self._kept = self.broker.ends()
        except SourceUnreadable:
            self._kept = {}  # Not known: the query says what is wrong, as soon as it needs what is not there.
            return
        if self._end != self._mirrored:
            self._mirror(self._end)
        if self.letters:
            self.letters.send(self.broker.send)

    def _mirror(self, reached: Offsets) -> None:
        """Tools show the lag of a consumer group; a refusal is told once, and tried again with the next look."""
        try:
            self.broker.commit(self.group, reached)
            self._mirrored, self._refused = reached, ""
        except SourceUnreadable as refused:
            if not isinstance(refused, BrokerAway) and refused.message != self._refused:
                self._refused = refused.message
                self.progress(f"Warning: {refused}")

    # ------------------------------------------------------------------ from where

    def open(self, most: int) -> DataFrame:
        self.open_letters([self.topic.topic])
        return self.broker.stream(self.begin().offsets, most)

    def begin(self) -> Start:
        self.start = self._start(self.broker)
        self._end = self.start.offsets
        return self.start

    def open_letters(self, read: Sequence[str]) -> None:
        """For all topics that are ``read``."""
        if not self.step.rejected_to:
            return
        table = quarantine_of(self.lake.catalog.steps, self.step)
        to = KafkaTopic(self.topic.servers, self.step.rejected_to)
        self.letters = self.letters or DeadLetters(self.lake.publisher, table, to, self.progress)
        self.letters.begin(read)

    def _start(self, broker: Broker) -> Start:
        kept = broker.offsets()
        known = known_topic(self._read_so_far(), self.topic, kept.ids, new_topic=self.asked.new_topic)
        self.known, self._kept = replace(known, ids=kept.ids), kept.end
        start = start_of(known, kept, self._history(broker))
        require_not_shorter(self.topic, start.offsets, kept.end)
        if start.new:
            self._begin(start)
        lost = lost_ranges(start.offsets, kept.oldest)
        if not lost:
            return start
        if not self.asked.accept_gap:
            raise lost_events(self.topic, lost)
        self._move(self._passed(lost), f"gap accepted in {self.topic}: {'; '.join(map(str, lost))}")
        return self._start(broker)

    def _read_so_far(self) -> TopicPositions:
        return topic_positions(self.lake.storage, self.source.name, self.topic.topic)

    def _history(self, broker: Broker) -> Offsets | None:
        if not self.asked.from_beginning and self.known.number == 1:
            return None
        return {} if self.asked.since is None else broker.offsets_since(self.asked.since)

    def _begin(self, start: Start) -> None:
        name, topic = self.source.name, self.known.topic
        first = {begun_id(name, topic): 1, **({ids_id(name, topic, self.known.ids): 1} if self.known.ids else {})}
        first |= {offset_id(name, topic, partition): offset for partition, offset in start.offsets.items()}
        first |= {boundary_id(name, topic, partition): offset for partition, offset in start.boundary.items()}
        positions = tuple(Position(id=id, before=None, after=after) for id, after in first.items() if after)
        self._move(positions, f"{self.topic} {start.reason}")

    def _move(self, positions: tuple[Position, ...], reason: str) -> None:
        """Today is published as a day without rows, so that the history has the entry."""
        change = RawChange(positions, empty=[self._today], reason=reason, read=self._events)
        self.carry_out(lambda: change, most=1)

    def _passed(self, ranges: Iterable[OffsetRange]) -> tuple[Position, ...]:
        of = partial(offset_id, self.source.name, self.known.topic)
        return tuple(Position(id=of(each.partition), before=each.first or None, after=each.end) for each in ranges)

    # ------------------------------------------------------------------ a batch

    def publish(self, rows: DataFrame, checkpoint: Checkpoint, number: int) -> BatchRead:
        return self.take(rows, checkpoint.topic_offsets(number, self.topic.topic))

    def take(self, rows: DataFrame, end: Offsets) -> BatchRead:
        """``rows`` up to ``end``, from what was reached on."""
        done = self.append(rows, planned_ranges(self._end, end))
        self._end = end
        return self.brought(done, self.seen.received if self.seen else None)

    def append(self, events: DataFrame, planned: Sequence[OffsetRange]) -> StagedChange | None:
        """Returns None if raw has read all of ``planned``. Raises :class:`PublicationRefused` if another stream reads
        the same, and :class:`SourceUnreadable` for another topic of that name.
        """
        self.seen = None

        def look() -> RawChange | None:
            ranges = new_ranges(planned, self._next_offsets(each.partition for each in planned))
            if not ranges:
                return None
            fingerprint = self.fingerprint(f"{self.known.topic} {each}" for each in ranges)
            staged = partial(self._stage, events, ranges)
            return RawChange(self._passed(ranges), staged, fingerprint, read=self._events)

        return self.carry_out(look)

    def _next_offsets(self, partitions: Iterable[int]) -> Offsets:
        main = MainTable.open(self.lake.storage, self.step.name)
        of = partial(offset_id, self.source.name, self.known.topic)
        return {number: main.transaction(of(number)) or 0 for number in partitions} if main else {}

    def _stage(self, events: DataFrame, ranges: Sequence[OffsetRange], timeline: Timeline) -> list[InputRead]:
        each = EachEvent(self.broker, self._rows)
        attempts = (
            lambda: events.where(within(ranges)),
            partial(each.with_odd_times, ranges),
            partial(each.events, ranges),
        )
        tasks = max(1, -(-sum(each.offsets for each in ranges) // _EVENTS_OF_A_TASK))
        with errors_of_workers():
            wanted, seen = self._first_of(attempts, partial(self._stage_rows, timeline, tasks))
        deleted = self._stage_deletions(wanted, timeline) if seen.tombstones else None
        self.require_same_topic()
        self.seen = seen
        return [deleted] if deleted else []

    def _first_of(
        self, attempts: Sequence[Callable[[], DataFrame]], stage_rows: Callable[[DataFrame], Made]
    ) -> tuple[DataFrame, Made]:
        """The first attempt on which Spark does not fail on an event; errors of the last are raised."""
        for read in attempts[:-1]:
            try:
                return (wanted := read()), stage_rows(wanted)
            except Exception as error:
                if not is_about_an_event(error):
                    raise
        wanted = attempts[-1]()
        return wanted, stage_rows(wanted)

    def _stage_rows(self, timeline: Timeline, tasks: int, events: DataFrame) -> EventsSeen:
        seen = Observation()
        watched = events.observe(seen, *seen_events(self.source, self._today)).where(~is_tombstone())
        lines = event_lines(self.source, self.known.topic, watched, self._today).coalesce(tasks)
        into = self.table, timeline
        files = write_rows_of_lines(self.source, lines, self.lake.token_key_file, self._today, into)
        take_in(files, raw_schema(self.source), timeline, {}, other_days=True)
        found = EventsSeen.of(observed(seen))
        self._require_all(found, sum(file.rows for file in files))
        return found

    def _require_all(self, seen: EventsSeen, rows: int) -> None:
        if rows != seen.events - seen.tombstones:
            raise LakehouseUnusable(
                f"{self.topic}: {format_count(seen.events, 'event')} read, {seen.tombstones:,} without a value, and "
                f"{format_count(rows, 'row')} written.",
                hint="Nothing was published. Start the stream again: it reads them again.",
            )

    def _rows(self, events: DataFrame) -> DataFrame:
        return event_rows(self.source, self.known.topic, events, self.lake.token_key_file, self._today)

    @property
    def _today(self) -> date:
        return clock.today()

    def _stage_deletions(self, events: DataFrame, timeline: Timeline) -> InputRead | None:
        """Cancel what tombstones delete in raw and in what is staged; returns days with such rows. Those of no key are
        kept.

        Raw's key columns are read once, all days: nothing says where keys are.
        """
        source, topic = self.source, self.known.topic
        staged = rows_of_files(self.lake.spark(), timeline, timeline.files())
        read = self.pin_all().inputs[self.table.name]
        tombs = deleted_keys(source, topic, events, self.lake.token_key_file, self._today).persist()
        keys = landed_keys(source, self.rows(read, read.days), tombs).persist()
        try:
            with errors_of_workers():
                found = only(read, (row["day"] for row in keys.select("day").distinct().collect()), exact=True)
                parts = [(staged, landed_keys(source, staged, tombs))]
                if found.days:
                    parts.append((self.rows(found, found.days), keys))
                names = raw_schema(source).names
                deletions = [deletions_by(source, rows.select(*names), of_rows) for rows, of_rows in parts]
                rows = reduce(DataFrame.unionByName, deletions, self._rows(of_no_key(topic, events, tombs)))
                stage(rows, timeline, {}, table=self.table, other_days=True)
        finally:
            keys.unpersist()
            tombs.unpersist()
        return found if found.days else None

    def require_same_topic(self) -> None:
        """Topic ids never come back, so the topic was the right one all along."""
        ids = self.broker.ids()
        if self.known.ids not in (None, ids):
            raise another_topic(self.topic, self.known.ids, ids)

    # ------------------------------------------------------------------ an error

    def explain(self, error: Exception) -> Exception | None:
        away = broker_away(self.topic, error)
        return self._why_gone() if away is None and says_events_are_gone(error) else away

    def _why_gone(self) -> Exception | None:
        try:
            kept = self.broker.offsets()
            known = known_topic(self._read_so_far(), self.topic, kept.ids, new_topic=False)
            start = start_of(known, kept, None)
            require_not_shorter(self.topic, start.offsets, kept.end)
        except SourceUnreadable as why:
            return why
        lost = lost_ranges(start.offsets, kept.oldest)
        return lost_events(self.topic, lost) if lost else None
