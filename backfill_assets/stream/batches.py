"""Publishes micro-batches: the rows and the positions that they were read from, in one publication each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from backfill_assets.errors import PublicationRefused, SourceUnreadable
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import InputRead, Position
from backfill_assets.lakehouse.rows import observed, rows_of_files, stage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.deletions import deletions_by, rows_of_keys
from backfill_assets.landing.raw_rows import raw_schema
from backfill_assets.landing.zone import LandedFile, files_taken_in
from backfill_assets.rebuild.ingest import from_landed_files
from backfill_assets.rebuild.raw_change import RawChange, RawWriter, StagedChange, only
from backfill_assets.state.stream_positions import TopicPositions, begun_id, boundary_id, ids_id, position_id
from backfill_assets.stream.broker import Broker, is_about_an_event
from backfill_assets.stream.events import (
    EachEvent,
    EventsSeen,
    deleted_keys,
    event_rows,
    is_tombstone,
    of_no_key,
    seen_events,
    within,
)
from backfill_assets.stream.sources import KafkaTopic, OffsetRange, Offsets, Start, another_topic, new_ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOLD_SECONDS = 5.0
"""A stream waits no longer than this for others that hold its days."""
FileStamp = tuple[int, int] | None
"""When a file was written (ns) and its size; None for one that is not there."""


def stream_name(raw: str) -> str:
    """What the publications of the stream into ``raw`` are named after, and the Delta transaction that they share."""
    return f"stream-{raw}"


@dataclass(frozen=True)
class AppendedBatch:
    """What a micro-batch brought into raw."""

    publication: str
    days: tuple[date, ...]
    """That gained rows, or markers of newer versions on other days."""
    received: int
    """Rows, without those markers."""
    at: datetime
    """When readers had them in raw."""


@dataclass
class RawAppender(RawWriter):
    """What both kinds of streams append with. Their publications share a name and a transaction."""

    first: bool = True
    """Until the first batch is published: what a killed stream has staged may be used."""

    def __post_init__(self) -> None:
        self.name = self.transaction = stream_name(self.step.name)
        self.hold_seconds = HOLD_SECONDS

    def appended(self, done: StagedChange) -> AppendedBatch:
        self.first = False
        received = (staged.content.metrics["received"] for staged in done.days.values())
        days, now = tuple(sorted(done.days)), self.lake.publisher.now()
        return AppendedBatch(done.publication, days, sum(int(str(each)) for each in received), now)


@dataclass
class TopicBatches(RawAppender):
    """Appends the events of a topic."""

    topic: KafkaTopic = field(kw_only=True)
    properties: Mapping[str, str] = field(kw_only=True, repr=False)
    """Kafka client properties; may hold secrets."""
    known: TopicPositions = field(init=False)
    """What raw has read of it, when the stream was opened: its name there, and its ids."""
    seen: EventsSeen | None = None
    """What the last batch was."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.known = TopicPositions(self.topic.topic)

    @property
    def broker(self) -> Broker:
        return Broker(self.lake.spark(), self.topic, self.properties)

    def publish(self, events: DataFrame, planned: Sequence[OffsetRange]) -> AppendedBatch | None:
        """Publish those of ``planned`` that raw has not read; None if it has read them all.

        Raises :class:`PublicationRefused` when another stream keeps reading the same events, and
        :class:`SourceUnreadable` when they are of another topic of that name.
        """

        def look() -> RawChange | None:
            ranges = new_ranges(planned, self.positions([each.partition for each in planned]))
            return self.change(events, ranges) if ranges else None

        done = self.carry_out(look)
        return self.appended(done) if done else None

    def positions(self, partitions: Sequence[int]) -> Offsets:
        """The next offset to read of each partition, as main has it."""
        main = MainTable.open(self.lake.storage, self.step.name)
        if main is None:
            return {}
        ids = {partition: position_id(self.source.name, self.known.topic, partition) for partition in partitions}
        return {partition: main.transaction(id) or 0 for partition, id in ids.items()}

    def change(self, events: DataFrame, ranges: Sequence[OffsetRange]) -> RawChange:
        crowded = PublicationRefused(
            f"{self.step.name}: another stream keeps reading the same events of {self.topic}.",
            hint="Stop one of them: a stream that is started now names the one that has the lease.",
        )
        return RawChange(
            self._passed(ranges),
            crowded,
            partial(self._stage, events, ranges),
            self.fingerprint(f"{self.known.topic} {each}" for each in ranges),
            self.first,
            read="events",
        )

    def _stage(self, events: DataFrame, ranges: Sequence[OffsetRange], timeline: Timeline) -> list[InputRead]:
        """Write the rows of ``ranges``; an event that cannot be read is set apart only when Spark stumbles over it."""
        wanted = events.where(within(ranges))
        try:
            self._stage_rows(wanted, timeline)
        except Exception as error:
            if not is_about_an_event(error):
                raise
            rows = partial(self._rows, self.lake.spark())
            each = EachEvent(self.lake.spark(), self.broker, self.properties, rows, self.lake.publisher.now())
            wanted = each.events(ranges)
            self._stage_rows(wanted, timeline)
        deleted = self._stage_deletions(wanted, timeline) if self.seen and self.seen.tombstones else None
        self.require_same_topic()
        return [deleted] if deleted else []

    def _stage_rows(self, events: DataFrame, timeline: Timeline) -> None:
        from pyspark.sql import Observation

        seen = Observation()
        watched = events.observe(seen, *seen_events()).where(~is_tombstone())
        stage(self._rows(self.lake.spark(), watched), timeline, {}, table=self.table, other_days=True)
        self.seen = EventsSeen.of(observed(seen))

    def _rows(self, spark: SparkSession, events: DataFrame) -> DataFrame:
        return event_rows(spark, self.source, self.known.topic, events, self.lake.token_key_file)

    def _stage_deletions(self, events: DataFrame, timeline: Timeline) -> InputRead | None:
        """Cancel what the tombstones among ``events`` delete, in raw and in what is staged; keep those of no key.

        Where the keys are is not known before: of all days of raw the columns of the key are read once. Gives the days
        that have rows of these keys.
        """
        spark, source, topic = self.lake.spark(), self.source, self.known.topic
        parts = [rows_of_files(spark, timeline, timeline.files())]
        read = self.pin_all().inputs[self.table.name]
        tombs = deleted_keys(spark, source, topic, events, self.lake.token_key_file).persist()
        try:
            rows = rows_of_keys(source, self.rows(read, read.days), tombs)
            found = only(read, (row["day"] for row in rows.select("day").distinct().collect()), exact=True)
            if found.days:
                parts.append(self.rows(found, found.days))
            deletions = [deletions_by(source, part.select(*raw_schema(source).names), tombs) for part in parts]
            unknown = self._rows(spark, of_no_key(topic, events, tombs))
            rows = reduce(DataFrame.unionByName, deletions, unknown)
            stage(rows, timeline, {}, table=self.table, other_days=True)
        finally:
            tombs.unpersist()
        return found if found.days else None

    def require_same_topic(self) -> None:
        """What was read is of the topic whose positions raw has: ids never come back, so it was so all along."""
        ids = self.broker.ids()
        if self.known.ids not in (None, ids):
            raise another_topic(self.topic, self.known.ids, ids)

    def _passed(self, ranges: Iterable[OffsetRange]) -> tuple[Position, ...]:
        of = partial(position_id, self.source.name, self.known.topic)
        return tuple(Position(id=of(each.partition), before=each.first or None, after=each.end) for each in ranges)

    # ----------------------------------------------------- positions without rows

    def begin(self, start: Start) -> None:
        """Write down from where the stream reads, and where what is live begins, before anything is read."""
        name, topic = self.source.name, self.known.topic
        first = {begun_id(name, topic): 1, **({ids_id(name, topic, self.known.ids): 1} if self.known.ids else {})}
        first |= {position_id(name, topic, partition): offset for partition, offset in start.offsets.items()}
        first |= {boundary_id(name, topic, partition): offset for partition, offset in start.boundary.items()}
        positions = tuple(Position(id=id, before=None, after=after) for id, after in first.items() if after)
        self._move(positions, f"{self.topic} {start.reason}")

    def skip(self, lost: Sequence[OffsetRange]) -> None:
        """Go on after events that are lost, and record which they are."""
        self._move(self._passed(lost), f"gap accepted in {self.topic}: {'; '.join(map(str, lost))}")

    def _move(self, positions: tuple[Position, ...], reason: str) -> None:
        """Today is published as a day without rows, so that the history has the entry."""
        crowded = PublicationRefused(
            f"{self.step.name}: another stream of {self.topic} has just begun.",
            hint="Start this one again if that one is not wanted: it reads from where raw ends.",
        )
        change = RawChange(positions, crowded, empty=[self.lake.publisher.now().date()], reason=reason)
        self.carry_out(lambda: change, most=1)


@dataclass
class LandedBatches(RawAppender):
    """Appends landed files, each verified as a landed day's files are."""

    appended_files: list[Path] = field(default_factory=list)
    """Of the last batch that was published, relative to the landing zone."""
    left_out: dict[Path, FileStamp] = field(default_factory=dict)
    """Files that could not be read, as they were then."""

    def publish(self, paths: Sequence[Path]) -> AppendedBatch | None:
        """Publish the rows of those files that raw has not read; None if it has read them all.

        A damaged or changed file is reported and left out: it is read with the next batch after it has landed again.
        """
        wanted = self.with_landed_again(paths)
        files: list[LandedFile] = []

        def look() -> RawChange | None:
            files[:] = self.new_files(wanted)
            crowded = PublicationRefused(
                f"{self.step.name}: other runs keep ingesting the same files.",
                hint="Let them finish, then start the stream again.",
            )
            return replace(from_landed_files(self, files), crowded=crowded, may_be_staged=self.first) if files else None

        done = self.carry_out(look)
        if done is None:
            return None
        self.appended_files = [Path(file.path) for file in files]
        return self.appended(done)

    def files_read(self) -> Counter[str]:
        """How many landed files raw has read, by the folder of their arrival day."""
        read = files_taken_in(self.lake.storage, self.source.name, self.table.name)
        return Counter(Path(path).parent.name for path in read)

    def with_landed_again(self, paths: Sequence[Path]) -> list[Path]:
        """``paths``, and files that were left out and have changed since: Spark names a file once."""
        again = [path for path, stamp in self.left_out.items() if file_stamp(path) not in (None, stamp)]
        return list(dict.fromkeys((*again, *paths)))

    def new_files(self, paths: Sequence[Path]) -> list[LandedFile]:
        """Those of ``paths`` that raw has not read; what is wrong with another one is reported."""
        main = MainTable.open(self.lake.storage, self.step.name)
        found = []
        for path in (each for each in paths if not self.lake.landing.ignores(each)):
            stamp = file_stamp(path)
            try:
                file = self.lake.landing.file(self.source.name, path)
                if self.lake.landing.is_new(file, (main.transaction(file.position[0]) if main else None) or 0):
                    _require_bytes(file)
                    found.append(file)
                self.left_out.pop(path, None)
            except SourceUnreadable as problem:
                self.left_out[path] = stamp
                self.progress(f"Warning: {problem.message} It is left out")
        return found


def _require_bytes(file: LandedFile) -> None:
    """A copy begins with no bytes, which would count as the whole file. One that stays so is for the nightly run."""
    if not file.size:
        raise SourceUnreadable(f"{file.path} has no bytes yet.")


def file_stamp(path: Path) -> FileStamp:
    """A landed file may be removed at any moment."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
