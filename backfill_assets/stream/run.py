"""One call for a stream: the lease, the reading, what follows each batch, and its status for people and the UI."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from backfill_assets.errors import BackfillError, InvalidRequest, LakehouseUnusable
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Step
from backfill_assets.publish.compact import compact_small_files
from backfill_assets.publish.fold import gather, trim
from backfill_assets.publish.publisher import Published
from backfill_assets.rebuild.lake import Lake, Progress, provenance
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.stream.batches import LandedBatches, TopicBatches, stream_name
from backfill_assets.stream.delays import Delays, Received, RecentDelays, describe_batch
from backfill_assets.stream.follower import Follower
from backfill_assets.stream.lease import StreamLease, StreamState, acquire_stream
from backfill_assets.stream.live import BatchDone, LiveStream, StreamListener
from backfill_assets.stream.query import Checkpoint, Trigger
from backfill_assets.stream.reading import LandingReading, Reading, StartRequest, TopicReading
from backfill_assets.stream.sources import KafkaTopic, StreamSource
from backfill_assets.stream.throttle import RateUnit, ReadLimit, Throttle

_GATHER_EVERY_BATCHES = 32
"""So often the stream's entries in the publication log are put together, and its old commits deleted."""


@dataclass(frozen=True)
class StreamRequest:
    """What a person asks a stream for. ``checkpoint`` is a folder of this machine: a cache."""

    table: str
    source: StreamSource
    checkpoint: Path
    """Each source has a folder in it."""
    start: StartRequest = field(default_factory=StartRequest)
    limit: ReadLimit = field(default_factory=ReadLimit)
    trigger: Trigger = field(default_factory=Trigger)
    follow: bool = True
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Kafka client properties; may hold secrets."""


@dataclass(frozen=True)
class StreamEvent:
    """What a stream reports: a batch that was published, a start, or what it waits for."""

    kind: str
    text: str
    figures: Mapping[str, Any] = field(default_factory=dict)


Report = Callable[[StreamEvent], None]


def run_stream(lake: Lake, request: StreamRequest, run: RunInfo, progress: Progress, report: Report) -> None:
    """Stream until it is stopped, or for ``available_now`` until all is read.

    Raises :class:`AnotherStreamRuns` if one runs already, :class:`InvalidRequest` for a table that takes no events, and
    what :meth:`LiveStream.run` raises.
    """
    step = _streamed_step(lake.catalog, request.table)
    _require_countable(request)
    _require_a_history_to_begin(request)
    if request.start.new_topic and not isinstance(request.source, KafkaTopic):
        raise InvalidRequest("--new-topic is for topics.", hint="Leave it out: landed files are known by their paths.")
    reading = _reading(lake, request, step, run, progress)
    lease = acquire_stream(lake.storage, request.table, str(request.source), lake.publisher.now)
    follower = Follower(lake, step, run, progress, lambda text: report(StreamEvent("behind", text)))
    watched = _Watched(lease, reading, report, follower if request.follow else None)
    stream = LiveStream(
        reading=reading,
        trigger=request.trigger,
        throttle=Throttle(request.limit),
        follow=partial(_after_batch, lake, follower, request.follow),
        follow_again=partial(_follow_again, lake, follower, watched.followed),
        listener=StreamListener(watched.started, watched.published, watched.waiting, watched.stopping),
        now=lake.publisher.now,
        sleep=lake.sleep,
    )
    with lease.renewed():
        lake.publisher.recover([request.table])
        if request.follow:
            follower.catch_up()
        stream.run()


def _require_countable(request: StreamRequest) -> None:
    """How many bytes a batch of a topic has is not known before it is read."""
    if isinstance(request.source, KafkaTopic) and request.limit.unit is RateUnit.BYTES:
        raise InvalidRequest("The rate of a topic counts records.", hint="Write --rate 2000 instead of bytes.")


def _require_a_history_to_begin(request: StreamRequest) -> None:
    """A topic knows when each event came. Of the landing folder all is read that raw does not have."""
    if request.start.since is None:
        return
    if not isinstance(request.source, KafkaTopic):
        raise InvalidRequest(
            f"--since is for topics: from {request.source}, a stream reads all files that raw has not read.",
            hint="Leave --since out, or since in the configuration of a run.",
        )
    if not request.start.from_beginning:
        raise InvalidRequest("--since is where history begins.", hint="Add --from-beginning.")


def _streamed_step(catalog: Catalog, table: str) -> Step:
    step = catalog.step(table)
    if step.source is None:
        raws = [each.name for each in catalog.steps if each.source]
        raise InvalidRequest(f"{table} is no raw table.", hint=f"Events are read into: {', '.join(raws)}.")
    return step


def _reading(lake: Lake, request: StreamRequest, step: Step, run: RunInfo, progress: Progress) -> Reading:
    """Events of a transaction count when it is committed, unless the properties say otherwise."""
    if isinstance(request.source, KafkaTopic):
        checkpoint = Checkpoint(request.checkpoint / _folder_of(request.source))
        properties = {"isolation.level": "read_committed", **request.properties}
        topic = TopicBatches(lake, step, run, progress, topic=request.source, properties=properties)
        return TopicReading(topic, checkpoint, request.start)
    return LandingReading(
        LandedBatches(lake, step, run, progress), Checkpoint(request.checkpoint / str(request.source))
    )


def _folder_of(topic: KafkaTopic) -> str:
    """A name of a folder that no other topic has: another cluster's topic of that name has another one."""
    return f"{topic.topic}-{hashlib.sha256(topic.servers.encode()).hexdigest()[:8]}"


def _after_batch(lake: Lake, follower: Follower, follows: bool, days: Collection[date]) -> None:
    """Extend what follows, then put small files together: days that wait for a batch more keep theirs apart."""
    if follows:
        follower.follow(days)
    settled = set(days) - follower.pending
    tables = [follower.raw.name, *(name for step in follower.steps if follows for name in step.table_names)]
    raw = follower.raw.name
    report, paused = follower.report, follower.not_compacted
    if raw in compact_days(lake, tables, settled, follower.run, stream_name(raw), report, paused):
        follower.forget()
    follower.batches += 1
    if follower.batches % _GATHER_EVERY_BATCHES == 0:
        gather(lake.publisher.log)
        trim(lake.publisher.log, lake.publisher.now())


def _follow_again(lake: Lake, follower: Follower, followed: Callable[[], object]) -> None:
    """For days that were left because of a hold or an error, and that a source without news has no batch for."""
    if follower.pending:
        _after_batch(lake, follower, True, sorted(follower.pending))
        followed()


@dataclass
class _Watched:
    """Turns what happens into the status of the stream, and into reports."""

    lease: StreamLease
    reading: Reading
    report: Report
    follower: Follower | None
    """None for a stream that raw alone follows."""
    delays: RecentDelays = field(default_factory=RecentDelays)
    """Until events are in raw."""
    followed_delays: RecentDelays = field(default_factory=RecentDelays)
    """Until they are in the last table that follows."""
    reached: str = ""
    _not_followed: list[tuple[Received, frozenset[date]]] = field(default_factory=list)
    """Batches of which a day is still to follow."""

    def started(self) -> None:
        if isinstance(self.reading, TopicReading) and self.reading.start is not None:
            start = self.reading.start
            self.report(StreamEvent("started", f"{self.reading.batches.topic} {start.reason}", asdict(start)))
        self.lease.beat(
            state=self._state(), boundary=self._boundary(), positions=self.reading.positions, error="", note=""
        )

    def _state(self) -> StreamState:
        return "live" if self.reading.is_live else "history"

    def _boundary(self) -> str:
        """Where history ended, in words; empty while history is read. It stays once it was reached."""
        if not self.reached and self.reading.is_live:
            self.reached = self.reading.boundary_text
        return self.reached

    def waiting(self, why: str) -> None:
        self.report(StreamEvent("waiting", f"Waiting: {why}"))
        self.lease.beat(state="waiting", note=why)

    def stopping(self, why: str) -> None:
        self.report(StreamEvent("stopping", why))

    def followed(self) -> Delays | None:
        """Count the batches all of whose days have followed; the delays of the last one, None without any."""
        now, waiting, last = self.lease.now(), [], None
        for received, days in self._not_followed:
            if self.follower is not None and days & self.follower.pending:
                waiting.append((received, days))
            else:
                self.followed_delays.add(received, now)
                last = received.delays(now)
        self._not_followed = waiting
        if last is not None:
            summary = self.followed_delays.summary()
            self.lease.beat(followed=self._last_table(), **_milliseconds("followed", summary))
        return last

    def _last_table(self) -> str:
        return self.follower.steps[-1].name if self.follower and self.follower.steps else ""

    def published(self, batch: BatchDone) -> None:
        read, status = batch.read, self.lease.status
        late: dict[str, Delays] = {}
        if read.received and read.delays and read.appended:
            late[self.lease.status.table] = read.delays
            self.delays.add(read.received, read.appended.at)
            if table := self._last_table():
                self._not_followed.append((read.received, frozenset(read.appended.days)))
                behind = self.followed()
                late |= {table: behind} if behind else {}
        self.lease.beat(
            state=self._state(),
            boundary=self._boundary(),
            positions=self.reading.positions,
            events=status.events + read.events,
            events_per_second=round(read.events / batch.seconds, 1) if batch.seconds else 0.0,
            **_milliseconds("delay", self.delays.summary()),
            batch=status.batch + 1,
            batch_seconds=round(batch.seconds, 3),
            answer_ms=status.answer_ms if batch.answer_seconds is None else round(batch.answer_seconds * 1000),
            pace=batch.pace.factor,
            error="",
            note=batch.pace.reason,
        )
        figures: dict[str, Any] = {
            "at": self.lease.now().isoformat(timespec="milliseconds"),
            "batch": batch.number,
            "events": read.events,
            "seconds": round(batch.seconds, 3),
            "answer_seconds": batch.answer_seconds,
            "pace": batch.pace.factor,
            "slowed_down": batch.pace.reason,
            "delays": {table: asdict(each) for table, each in late.items()},
        }
        if read.appended:
            figures |= {"publication": read.appended.publication, "days": [str(day) for day in read.appended.days]}
        text = describe_batch(batch.number, read.events, batch.seconds, late, batch.pace.reason)
        self.report(StreamEvent("batch", text, figures))


def _milliseconds(name: str, delays: Delays | None) -> dict[str, int]:
    return {f"{name}_p50_ms": round(delays.p50 * 1000), f"{name}_p99_ms": round(delays.p99 * 1000)} if delays else {}


# ------------------------------------------------------------------ few files for the days of a stream

_PAUSE = timedelta(hours=1)
"""A table of which a file is damaged or missing is not tried with every batch: each attempt leaves files behind."""


def compact_days(
    lake: Lake,
    tables: Iterable[str],
    days: Collection[date],
    run: RunInfo,
    transaction: str,
    report: Callable[[str], None],
    paused: dict[str, datetime],
) -> set[str]:
    """Put together the small files of ``days`` where there are many, and return the tables in which that was done.

    One look at each table if there is nothing to do. What another writer is changing is left for the next batch.
    ``transaction`` is the one that the publications of the stream share. A table that fails is reported, and ``paused``
    until a moment: its rows are published, and stay as they are.
    """
    done, now = set(), lake.publisher.now()
    made_by = provenance(run, "").model_copy(update={"reason": "small files of a stream"})
    for table in (each for each in tables if paused.get(each, now) <= now):
        try:
            outcome = compact_small_files(lake.publisher, table, days, provenance=made_by, transaction=transaction)
            done |= {table} if isinstance(outcome, Published) else set()
        except (LakehouseUnusable, DeltaError, OSError, pa.ArrowException) as error:
            paused[table] = now + _PAUSE
            report(f"Warning: {table} is not compacted for an hour: {error}")
        except BackfillError as error:
            report(f"{table} is not compacted now: {error.message}")
    return done
