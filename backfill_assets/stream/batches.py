"""Publishes micro-batches: the rows and the positions that they were read from, in one publication each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from backfill_assets.errors import PublicationRefused, SourceUnreadable
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import DayChange, DayContent, InputRead, Position, Publication, TableChange
from backfill_assets.lakehouse.rows import nullable_schema, observed, published_rows, rows_of_files, stage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.deletions import deletions_by, rows_of_keys
from backfill_assets.landing.raw_rows import raw_schema
from backfill_assets.landing.zone import LandedFile, changed_file
from backfill_assets.landing.zone import position_id as landed_id
from backfill_assets.model.declaration import DayFacts, Source, Step
from backfill_assets.publication.publisher import Conflict, Published
from backfill_assets.published.stream_positions import TopicPositions, begun_id, boundary_id, ids_id, position_id
from backfill_assets.quality import gates
from backfill_assets.quality.measures import zero_metrics
from backfill_assets.rebuild.append import AppendBuild, Arrivals
from backfill_assets.rebuild.ingest import ArrivalBuild
from backfill_assets.rebuild.lake import Lake, Progress, provenance
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.stage import as_facts, content_of, with_verdict
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

_MOST_ATTEMPTS = 10
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
class RawAppender:
    """What both kinds of streams append with: the lakehouse, the raw step, and who asked."""

    lake: Lake
    step: Step
    run: RunInfo
    progress: Progress
    first: bool = True
    """Until the first batch is published: what a killed stream has staged may be used."""

    @property
    def source(self) -> Source:
        if self.step.source is None:
            raise SourceUnreadable(f"{self.step.name} has no source to stream.")
        return self.step.source

    @property
    def name(self) -> str:
        return stream_name(self.step.name)

    @property
    def as_stream(self) -> tuple[str, str, float]:
        """What its publications are named after, the transaction that they share, and how long they wait for holds."""
        return self.name, self.name, HOLD_SECONDS

    def appended(self, build: AppendBuild, outcome: Published) -> AppendedBatch:
        self.first = False
        received = (staged.content.metrics["received"] for staged in build.staged.values())
        days, now = tuple(sorted(build.staged)), self.lake.publisher.now()
        return AppendedBatch(outcome.publication, days, sum(int(str(each)) for each in received), now)


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
        self.known = TopicPositions(self.topic.topic)

    @property
    def broker(self) -> Broker:
        return Broker(self.lake.spark(), self.topic, self.properties)

    def publish(self, events: DataFrame, planned: Sequence[OffsetRange]) -> AppendedBatch | None:
        """Publish those of ``planned`` that raw has not read; None if it has read them all.

        Raises :class:`PublicationRefused` when another stream keeps reading the same events, and
        :class:`SourceUnreadable` when they are of another topic of that name.
        """
        for _ in range(_MOST_ATTEMPTS):
            ranges = new_ranges(planned, self.positions([each.partition for each in planned]))
            if not ranges:
                return None
            build = AppendBuild(self.lake, self.step, self.run, self.progress, *self.as_stream)
            outcome = build.append(self.arrivals(events, ranges))
            if isinstance(outcome, Published):
                return self.appended(build, outcome)
            self.progress(f"{self.step.name}: {' and '.join(outcome.passed) or 'raw'} moved meanwhile, looking again")
        raise PublicationRefused(
            f"{self.step.name}: another stream keeps reading the same events of {self.topic}.",
            hint="Stop one of them: a stream that is started now names the one that has the lease.",
        )

    def positions(self, partitions: Sequence[int]) -> Offsets:
        """The next offset to read of each partition, as main has it."""
        main = MainTable.open(self.lake.storage, self.step.name)
        if main is None:
            return {}
        ids = {partition: position_id(self.source.name, self.known.topic, partition) for partition in partitions}
        return {partition: main.transaction(id) or 0 for partition, id in ids.items()}

    def arrivals(self, events: DataFrame, ranges: Sequence[OffsetRange]) -> Arrivals:
        read = fingerprints.physical(f"{self.known.topic} {each}" for each in ranges)
        made_of = fingerprints.input_fingerprint(self.step.code_version, "", read)
        positions = tuple(self._position(each.partition, each.first, each.end) for each in ranges)
        return Arrivals(made_of, positions, partial(self._stage, events, ranges), self.first)

    def _stage(self, events: DataFrame, ranges: Sequence[OffsetRange], timeline: Timeline) -> InputRead | None:
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
        return deleted

    def _stage_rows(self, events: DataFrame, timeline: Timeline) -> None:
        from pyspark.sql import Observation

        seen = Observation()
        watched = events.observe(seen, *seen_events()).where(~is_tombstone())
        stage(self._rows(self.lake.spark(), watched), timeline, {}, table=self.step.tables[0], other_days=True)
        self.seen = EventsSeen.of(observed(seen))

    def _rows(self, spark: SparkSession, events: DataFrame) -> DataFrame:
        return event_rows(spark, self.source, self.known.topic, events, self.lake.token_key_file)

    def _stage_deletions(self, events: DataFrame, timeline: Timeline) -> InputRead | None:
        """Cancel what the tombstones among ``events`` delete, in raw and in what is staged; keep those of no key.

        Where the keys are is not known before: of all days of raw the columns of the key are read once.
        """
        spark, source, table = self.lake.spark(), self.source, self.step.name
        topic, schema = self.known.topic, raw_schema(self.source)
        staged = rows_of_files(spark, timeline, timeline.files())
        published = [day for name, day in self.lake.states(self.step) if name == table]
        read = self.lake.publisher.pin(writes={}, reads={table: published}, also={table}).inputs.get(table)
        tombs = deleted_keys(spark, source, topic, events, self.lake.token_key_file).persist()
        try:
            found, parts = self._days_with(tombs, read), [staged]
            if found is not None:
                parts.append(published_rows(spark, self.lake.storage, found, schema))
            deletions = [deletions_by(source, part.select(*schema.names), tombs) for part in parts]
            unknown = self._rows(spark, of_no_key(topic, events, tombs))
            stage(
                reduce(DataFrame.unionByName, deletions, unknown),
                timeline,
                {},
                table=self.step.tables[0],
                other_days=True,
            )
        finally:
            tombs.unpersist()
        return found

    def _days_with(self, tombs: DataFrame, read: InputRead | None) -> InputRead | None:
        """Of the days of raw, those that have rows of deleted keys."""
        if read is None:
            return None
        raw = published_rows(self.lake.spark(), self.lake.storage, read, raw_schema(self.source))
        rows = rows_of_keys(self.source, raw, tombs).select("day").distinct().collect()
        days = {row["day"]: read.days[row["day"]] for row in rows}
        return read.model_copy(update={"days": days}) if days else None

    def require_same_topic(self) -> None:
        """What was read is of the topic whose positions raw has: ids never come back, so it was so all along."""
        ids = self.broker.ids()
        if self.known.ids not in (None, ids):
            raise another_topic(self.topic, self.known.ids, ids)

    def _position(self, partition: int, before: int, after: int) -> Position:
        id = position_id(self.source.name, self.known.topic, partition)
        return Position(id=id, before=before or None, after=after)

    # ----------------------------------------------------- positions without rows

    def begin(self, start: Start) -> None:
        """Write down from where the stream reads, and where what is live begins, before anything is read."""
        name, topic = self.source.name, self.known.topic
        positions = [
            Position(id=begun_id(name, topic), before=None, after=1),
            *([Position(id=ids_id(name, topic, self.known.ids), before=None, after=1)] if self.known.ids else []),
            *(self._position(partition, 0, offset) for partition, offset in start.offsets.items() if offset),
            *(
                Position(id=boundary_id(name, topic, partition), before=None, after=offset)
                for partition, offset in start.boundary.items()
                if offset
            ),
        ]
        self._publish_positions(positions, f"{self.topic} {start.reason}")

    def skip(self, lost: Sequence[OffsetRange]) -> None:
        """Go on after events that are lost, and record which they are."""
        positions = [self._position(each.partition, each.first, each.end) for each in lost]
        self._publish_positions(positions, f"gap accepted in {self.topic}: {'; '.join(map(str, lost))}")

    def _no_rows(self) -> DayContent:
        """Today is published as a day without rows, so that the history has the entry."""
        table = self.step.tables[0]
        content = content_of(zero_metrics(table), self.step.code_version, "", {})
        return with_verdict(content, gates.judge(table, DayFacts(own=as_facts(content))))

    def _publish_positions(self, positions: Sequence[Position], reason: str) -> None:
        change = TableChange(
            table=self.step.name,
            mode="append",
            table_schema=nullable_schema(raw_schema(self.source)),
            days=(DayChange(day=self.lake.publisher.now().date(), content=self._no_rows()),),
            positions=tuple(positions),
        )
        made_by = provenance(self.run, "").model_copy(update={"reason": reason})
        id = self.lake.new_id(self.name)
        wanted = Publication(id=id, kind="append", tables=(change,), provenance=made_by, transaction=self.name)
        outcome = self.lake.publisher.publish(wanted)
        if isinstance(outcome, Conflict):
            raise PublicationRefused(
                f"{self.step.name}: another stream of {self.topic} has just begun.",
                hint="Start this one again if that one is not wanted: it reads from where raw ends.",
            )


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
        for _ in range(_MOST_ATTEMPTS):
            files = self.new_files(wanted)
            if not files:
                return None
            build = ArrivalBuild(self.lake, self.step, self.run, self.progress, *self.as_stream)
            outcome = build.append(build.arrivals(files))
            if isinstance(outcome, Published):
                self.appended_files = [Path(file.path) for file in files]
                return self.appended(build, outcome)
            self.progress(f"{self.step.name}: another run has ingested the same files, looking again")
        raise PublicationRefused(
            f"{self.step.name}: other runs keep ingesting the same files.",
            hint="Let them finish, then start the stream again.",
        )

    def files_read(self) -> Counter[str]:
        """How many landed files raw has read, by the folder of their arrival day."""
        main = MainTable.open(self.lake.storage, self.step.name)
        prefix = landed_id(self.source.name, "")
        read = [id for id, content in main.transactions().items() if id.startswith(prefix) and content] if main else []
        return Counter(Path(id.removeprefix(prefix)).parent.name for id in read)

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
                position, content = file.position
                ingested = (main.transaction(position) if main else None) or 0
                if ingested not in (0, content):
                    raise changed_file(file)
                if not ingested:
                    _require_bytes(file)
                    self.lake.landing.verify_readable(file)
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
