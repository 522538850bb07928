"""The entry to streaming: lease, reading, what follows each batch, and status."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial

import pyarrow as pa
from deltalake.exceptions import DeltaError

from backfill_assets import clock
from backfill_assets.errors import BackfillError, InvalidRequest, LakehouseUnusable
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Step
from backfill_assets.publish.compact import compact_small_files
from backfill_assets.publish.fold import gather, trim
from backfill_assets.publish.publisher import Published
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.stream.batches import Reading, stream_name
from backfill_assets.stream.follower import Follower
from backfill_assets.stream.landed import LandingReading
from backfill_assets.stream.lease import StreamLease, acquire_stream
from backfill_assets.stream.live import LiveStream, Trigger
from backfill_assets.stream.reporter import Report, StreamEvent, StreamReporter
from backfill_assets.stream.several_topics import SeveralTopics
from backfill_assets.stream.sources import KafkaTopics, LandingFolder, StreamSource
from backfill_assets.stream.throttle import RateUnit, ReadLimit, Throttle
from backfill_assets.stream.topic import StartRequest, TopicReading

_GATHER_EVERY_BATCHES = 32


@dataclass(frozen=True)
class StreamRequest:
    table: str
    source: StreamSource
    start: StartRequest = field(default_factory=StartRequest)
    limit: ReadLimit = field(default_factory=ReadLimit)
    trigger: Trigger = field(default_factory=Trigger)
    follow: bool = True
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """May contain secrets."""


def run_stream(lake: Lake, request: StreamRequest, run: RunInfo, progress: Progress, report: Report) -> None:
    """Stream until stopped, or read up (``available_now``). Raises :class:`AnotherStreamRuns`, :class:`InvalidRequest`
    for a table without events, and like :meth:`LiveStream.run`.
    """
    step = _streamed_step(lake.catalog, request.table)
    _require_possible(request)
    reading = _reading(lake, request, step, run, progress)
    lease = acquire_stream(lake.storage, request.table, str(request.source))
    told = partial(_tell, lease, progress, report)
    follower = Follower(lake, step, run, told, lambda text: report(StreamEvent("behind", text)))
    follower.take_over(lease.status.held_back)
    reporter = StreamReporter(lease, reading, report, follower if request.follow else None)
    stream = LiveStream(
        reading=reading,
        trigger=request.trigger,
        throttle=Throttle(request.limit),
        follow=partial(_after_batch, follower, request.follow),
        follow_again=partial(_follow_again, follower, reporter.followed),
        reporter=reporter,
    )
    with lease.renewed():
        lake.publisher.recover([request.table])
        if request.follow:
            follower.catch_up()
        stream.run()


def _tell(lease: StreamLease, progress: Progress, report: Report, text: str) -> None:
    if lease.status.state != "starting":
        progress(text)
        return
    report(StreamEvent("starting", f"Starting: {text}"))
    lease.note(note=text)


def _require_possible(request: StreamRequest) -> None:
    """A topic knows event times but not bytes; landed files are the reverse."""
    start = request.start
    if not isinstance(request.source, LandingFolder):
        if request.limit.unit is RateUnit.BYTES:
            raise InvalidRequest("The rate of a topic counts records.", hint="Write --rate 2000 instead of bytes.")
    elif start.since is not None:
        raise InvalidRequest(
            f"A day to begin at is for topics: from {request.source}, a stream reads all files that raw has not read.",
            hint="Leave the day of --from-beginning out, or since in the configuration of a run.",
        )
    elif start.new_topic:
        raise InvalidRequest("--new-topic is for topics.", hint="Leave it out: landed files are known by their paths.")


def _streamed_step(catalog: Catalog, table: str) -> Step:
    step = catalog.step(table)
    if step.external is not None:
        step.external.refuse("no events are read into it", f"Let events come into {step.external.location}.")
    if step.source is None:
        raws = [each.name for each in catalog.steps if each.source]
        raise InvalidRequest(f"{table} is no raw table.", hint=f"Events are read into: {', '.join(raws)}.")
    return step


def _reading(lake: Lake, request: StreamRequest, step: Step, run: RunInfo, progress: Progress) -> Reading:
    """Events of a transaction count once it is committed, by default."""
    if isinstance(request.source, LandingFolder):
        return LandingReading(lake, step, run, progress)
    properties = {"isolation.level": "read_committed", **request.properties}
    topics = request.source.topics if isinstance(request.source, KafkaTopics) else (request.source,)
    reading = partial(TopicReading, lake, step, run, progress, properties=properties, asked=request.start)
    parts = tuple(reading(topic=topic) for topic in topics)
    return parts[0] if len(parts) == 1 else SeveralTopics(lake, step, run, progress, parts=parts)


# ------------------------------------------------------------------ what follows a batch

_PAUSE = timedelta(hours=1)
"""Pause after a damaged file in a table: each compaction attempt leaves files behind."""


def _after_batch(follower: Follower, follows: bool, days: Collection[date]) -> None:
    if follows:
        follower.follow(days)
    tables = [follower.raw.name, *(name for step in follower.steps if follows for name in step.table_names)]
    if follower.raw.name in compact_days(follower, tables, set(days) - follower.pending):
        follower.forget()
    follower.batches += 1
    if follower.batches % _GATHER_EVERY_BATCHES == 0:
        publisher = follower.lake.publisher
        gather(publisher.log)
        trim(publisher.log, clock.now())


def _follow_again(follower: Follower, followed: Callable[[], object]) -> None:
    follower.see_held()
    if follower.pending:
        _after_batch(follower, True, sorted(follower.pending))
    followed()


def compact_days(follower: Follower, tables: Iterable[str], days: Collection[date]) -> set[str]:
    """Returns changed tables; a failing one is reported and paused."""
    publisher, paused = follower.lake.publisher, follower.not_compacted
    done, now, transaction = set(), clock.now(), stream_name(follower.raw.name)
    made_by = follower.run.provenance(reason="small files of a stream")
    for table in (each for each in tables if paused.get(each, now) <= now):
        try:
            outcome = compact_small_files(publisher, table, days, provenance=made_by, transaction=transaction)
            done |= {table} if isinstance(outcome, Published) else set()
        except (LakehouseUnusable, DeltaError, OSError, pa.ArrowException) as error:
            paused[table] = now + _PAUSE
            follower.report(f"Warning: {table} is not compacted for an hour: {error}")
        except BackfillError as error:
            follower.report(f"{table} is not compacted now: {error.message}")
    return done
