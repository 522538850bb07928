"""The entry to streaming: lease, reading, what follows each batch, and status."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Step
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.stream.batches import Reading
from backfill_assets.stream.facts import Facts
from backfill_assets.stream.follow_loop import FollowLoop, InTurn, short_turns
from backfill_assets.stream.follower import Follower
from backfill_assets.stream.landed import LandingReading
from backfill_assets.stream.lease import StreamLease, acquire_stream
from backfill_assets.stream.live import LiveStream, Trigger
from backfill_assets.stream.reporter import Report, StreamEvent, StreamReporter
from backfill_assets.stream.several_topics import SeveralTopics
from backfill_assets.stream.sources import KafkaTopics, LandingFolder, StreamSource
from backfill_assets.stream.throttle import RateUnit, ReadLimit, Throttle
from backfill_assets.stream.topic import StartRequest, TopicReading


@dataclass(frozen=True)
class StreamRequest:
    table: str
    source: StreamSource
    start: StartRequest = field(default_factory=StartRequest)
    limit: ReadLimit = field(default_factory=ReadLimit)
    trigger: Trigger = field(default_factory=Trigger)
    follow: bool = True
    two_loops: bool = False
    """Facts follow in a thread of their own, which shares the interpreter with raw: on two cores they come later."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """May contain secrets."""

    @property
    def has_two_loops(self) -> bool:
        return self.follow and self.two_loops


def run_stream(lake: Lake, request: StreamRequest, run: RunInfo, progress: Progress, report: Report) -> None:
    """Stream until stopped, or read up (``available_now``). Raises :class:`AnotherStreamRuns`, :class:`InvalidRequest`
    for a table without events, and like :meth:`LiveStream.run`.
    """
    step = _streamed_step(lake.catalog, request.table)
    _require_possible(request)
    reading = _reading(lake, request, step, run, progress)
    lease = acquire_stream(lake.storage, request.table, str(request.source))
    told = partial(_tell, lease, progress, report)
    # This thread catches up with it; of two loops it is that of the facts then.
    own = lake.of_another_thread() if request.has_two_loops else lake
    follower = Follower(own, step, run, told, lambda text: report(StreamEvent("behind", text)))
    follower.take_over(lease.status.held_back)
    reporter = StreamReporter(lease, reading, report, follower if request.follow else None)
    facts = Facts(follower, reporter, request.follow)
    stream = LiveStream(
        reading=reading,
        trigger=request.trigger,
        throttle=Throttle(request.limit),
        following=(FollowLoop if request.has_two_loops else InTurn)(facts.follow, facts.follow_again),
        reporter=reporter,
        raw_turn=facts.raw_turn,
    )
    with lease.renewed():
        lake.publisher.recover([request.table])
        if request.follow:
            follower.catch_up()
            reporter.followed_again()
        with short_turns() if request.has_two_loops else nullcontext():
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
