"""A stream goes on at the pace of its source: slower after slow answers and errors, and back to its rate."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backfill_assets import clock
from backfill_assets.errors import AnotherStreamRuns, LakehouseUnusable, SourceUnreadable
from backfill_assets.stream import live
from backfill_assets.stream.batches import BatchRead, Checkpoint
from backfill_assets.stream.broker import BrokerAway
from backfill_assets.stream.follow_loop import FollowLoop, InTurn
from backfill_assets.stream.gained import MOST_BATCHES, Gained
from backfill_assets.stream.lease import StreamBatch
from backfill_assets.stream.live import LiveStream, Trigger, stream_settings
from backfill_assets.stream.throttle import ReadLimit, Throttle
from backfill_assets_tests.clock import NOON, FakeClock

DAY = date(2026, 3, 2)
NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


@dataclass
class FakeSource:
    """Has batches of ``amounts`` events; ``errors`` is how often it is away when it is opened."""

    amounts: list[int]
    errors: int = 0
    live_from: int = 1_000
    usual_most: int = 100_000
    counts_events: bool = True
    read: list[int] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    left_out: int = 0
    """Events that can be read later."""
    looks: int = 0
    """How often it was asked what it has."""

    def read_again(self) -> BatchRead | None:
        events, self.left_out = self.left_out, 0
        if not events:
            return None
        return BatchRead(events, None, 0, "publication-again", (DAY,), NOW)

    @property
    def is_live(self) -> bool:
        return len(self.read) >= self.live_from

    def open(self, most: int) -> Any:
        if self.errors:
            self.errors -= 1
            raise BrokerAway("No Kafka broker answers at there:9092.")
        self.opened.append(most)
        return self

    def look(self) -> None:
        self.looks += 1

    def publish(self, rows: Any, checkpoint: Any, number: int) -> BatchRead:
        events = self.amounts[number]
        self.read.append(events)
        return BatchRead(events, None, 0, f"publication-{number}", (DAY,), NOW)


@dataclass
class FakeReporter:
    """Keeps what a stream tells."""

    on_batch: Callable[[StreamBatch], None] = lambda batch: None
    batches: list[StreamBatch] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    lost: AnotherStreamRuns | None = None
    """Another stream has taken the table."""

    def started(self) -> None:
        pass

    def published(self, read: BatchRead, batch: StreamBatch) -> None:
        self.batches.append(batch)
        self.on_batch(batch)

    def looked(self) -> None:
        pass

    def slowed_down(self, why: str) -> None:
        self.slow.append(why)

    def overtaken(self) -> AnotherStreamRuns | None:
        return self.lost

    def waiting(self, why: str) -> None:
        self.waits.append(why)

    def stopping(self, why: str) -> None:
        self.stops.append(why)


@pytest.fixture(autouse=True)
def _time() -> Iterator[None]:
    """It passes while somebody sleeps."""
    with clock.use(FakeClock()):
        yield


def live_stream(source: FakeSource, reporter: FakeReporter, **changes: Any) -> LiveStream:
    nothing = {"following": InTurn(lambda gained: None, lambda: None), "throttle": Throttle()}
    known = {"reading": source, "trigger": Trigger(), "reporter": reporter}
    return LiveStream(**{**nothing, **known, **changes})


@dataclass
class FakeQuery:
    """Spark: a batch each time that it is waited for; the answer of a batch is known once that has ended."""

    source: FakeSource
    on_batch: Callable[[Any, int], None]
    answers: Sequence[float]
    lastProgress: Any = None  # noqa: N815

    @property
    def isActive(self) -> bool:  # noqa: N802  Spark's name, as the next one
        return len(self.source.read) < len(self.source.amounts)

    def awaitTermination(self, seconds: float) -> None:  # noqa: N802
        if self.isActive:
            number = len(self.source.read)
            self.on_batch(self.source, number)
            tenth = round(self.answers[number] * 100)
            durations = {"latestOffset": 9 * tenth, "getBatch": tenth, "addBatch": 9_000}
            self.lastProgress = SimpleNamespace(batchId=number, durationMs=durations, sources=[])

    def stop(self) -> None:
        pass


@dataclass
class Played:
    """What a stream did with a source, by batch."""

    batches: list[StreamBatch]
    waited: list[float]
    """Seconds that the stream waited after each batch."""
    waits: list[str]

    @property
    def paces(self) -> list[float]:
        return [batch.pace for batch in self.batches]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    """Stream a fake source of which the answers take so many seconds."""

    def played(source: FakeSource, answers: Sequence[float], limit: ReadLimit) -> Played:
        def start(rows: Any, checkpoint: Any, trigger: Any, on_batch: Any) -> FakeQuery:
            return FakeQuery(source, on_batch, answers)

        monkeypatch.setattr(live, "start_query", start)
        marks = list[float]()
        reporter = FakeReporter(lambda batch: marks.append(clock.seconds()))
        live_stream(source, reporter, throttle=Throttle(limit)).run()
        ends = [*marks[1:], clock.seconds()]
        return Played(
            reporter.batches, [round(end - mark, 1) for mark, end in zip(marks, ends, strict=True)], reporter.waits
        )

    return played


def test_a_source_under_load_is_read_at_half_the_rate_and_then_faster_again(play: Callable[..., Played]) -> None:
    """Three slow answers: an eighth of 1,000 records/s. Each good one then makes it a tenth faster, to all of it."""
    answers = [0.1] * 6 + [5.0] * 3 + [0.1] * 30
    found = play(FakeSource([2_000] * len(answers)), answers, ReadLimit.parse(["1000"]))
    assert found.paces[6:10] == [1.0, 0.5, 0.25, 0.125]
    assert found.waited[6:10] == [2.0, 4.0, 8.0, 16.0]
    assert found.paces[10] == pytest.approx(0.1375) and found.paces[-1] == 1.0 and found.waited[-1] == 2.0
    assert found.paces[9:] == sorted(found.paces[9:])


def test_the_answer_is_that_of_the_source_and_not_the_time_of_the_batch(play: Callable[..., Played]) -> None:
    """Spark's time for the rows is left out; a batch knows the answer of the one before."""
    found = play(FakeSource([10] * 4), [0.1, 0.2, 0.3, 0.4], ReadLimit())
    assert [batch.answer_seconds for batch in found.batches] == [None, 0.1, 0.2, 0.3]


def test_errors_slow_it_down_with_longer_pauses_until_the_source_is_back(play: Callable[..., Played]) -> None:
    found = play(FakeSource([1_000] * 30, errors=3), [0.1] * 30, ReadLimit.parse(["1000"]))
    assert [wait.partition("Trying again in ")[2] for wait in found.waits] == [
        f"{pause} s; the source answered with an error (No Kafka broker answers at there:9092.): reading at {rate}"
        for pause, rate in ((1, "500 records/s"), (2, "250 records/s"), (4, "125 records/s"))
    ]
    assert found.waited[0] == 8.0 and found.waited[-1] == 1.0
    assert "error" in found.batches[0].slowed_down
    assert found.batches[-1].slowed_down == ""


def test_what_is_live_is_read_in_whole_batches(play: Callable[..., Played]) -> None:
    """History is read in batches of what its rate lets pass; where it ends, the query starts again without that."""
    source = FakeSource([1_000] * 6, live_from=3)
    found = play(source, [0.1] * 6, ReadLimit.parse(["1000"]))
    assert source.opened == [1_000, 100_000] and len(found.batches) == 6


def test_each_query_plans_in_a_folder_of_its_own_that_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else can own it, and a stream that was paused never reads what another one has planned."""
    source, folders = FakeSource([1_000] * 6, live_from=3), list[Path]()

    def start(rows: Any, folder: Path, trigger: Any, on_batch: Any) -> FakeQuery:
        assert list(folder.iterdir()) == []
        folders.append(folder)
        return FakeQuery(source, on_batch, [0.1] * 6)

    monkeypatch.setattr(live, "start_query", start)
    live_stream(source, FakeReporter(), throttle=Throttle(ReadLimit.parse(["1000"]))).run()
    assert len(set(folders)) == 2 and not any(folder.exists() for folder in folders)


@dataclass
class CleanedQuery(FakeQuery):
    """Someone deletes its checkpoint before some of its batches: Spark fails, or what it had planned is gone."""

    folder: Path = Path()
    deleted_before: Sequence[int] = ()
    noticed_by: str = "spark"

    def awaitTermination(self, seconds: float) -> None:  # noqa: N802
        if (number := len(self.source.read)) in self.deleted_before:
            shutil.rmtree(self.folder)
            if self.noticed_by == "batch":
                self.on_batch(None, number)
            raise RuntimeError("[STREAM_FAILED] java.io.FileNotFoundException: offsets/7, and 115 lines more")
        super().awaitTermination(seconds)


def cleaned_stream(monkeypatch: pytest.MonkeyPatch, noticed_by: str, deleted: list[tuple[int, ...]]) -> LiveStream:
    """Of each query in turn, before which batches its checkpoint is deleted; of those after them, never."""
    source = FakeSource([10] * 6, live_from=0)

    def start(rows: Any, folder: Path, trigger: Any, on_batch: Any) -> FakeQuery:
        (folder / "metadata").touch()
        before = deleted.pop(0) if deleted else ()
        return CleanedQuery(source, on_batch, [0.1] * 6, None, folder, before, noticed_by)

    def publish(rows: Any, checkpoint: Checkpoint, number: int) -> BatchRead:
        if rows is None:
            checkpoint.topic_offsets(number, "sales")
        return FakeSource.publish(source, rows, checkpoint, number)

    monkeypatch.setattr(live, "start_query", start)
    monkeypatch.setattr(source, "publish", publish)
    return live_stream(source, FakeReporter())


@pytest.mark.parametrize("noticed_by", ["spark", "batch"])
def test_a_checkpoint_that_is_deleted_is_done_without(monkeypatch: pytest.MonkeyPatch, noticed_by: str) -> None:
    """It is a cache: what was read is in raw, and the next query starts there."""
    stream = cleaned_stream(monkeypatch, noticed_by, [(2,), (), (4,)])
    stream.run()
    assert isinstance(stream.reading, FakeSource) and isinstance(stream.reporter, FakeReporter)
    assert stream.reading.read == [10] * 6 and len(stream.reading.opened) == 2
    assert stream.reporter.waits == ["Spark's checkpoint is gone. It is a cache: reading goes on where raw ends."]


def test_a_checkpoint_that_is_lost_before_each_batch_is_lost_for_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LakehouseUnusable, match="was deleted before each batch"):
        cleaned_stream(monkeypatch, "spark", [(0,)] * 9).run()


def test_one_that_was_suspended_says_who_streams_now_whatever_failed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batch is refused by positions, or by the files of the other one: that is not what a person has to know."""
    source, reporter = FakeSource([10, 10], live_from=0), FakeReporter()

    def refuse(rows: Any, checkpoint: Any, number: int) -> BatchRead:
        reporter.lost = AnotherStreamRuns("process 7 has streamed into raw_sales since noon")
        raise SourceUnreadable("Raw has read partition 0 up to offset 7")

    monkeypatch.setattr(source, "publish", refuse)
    monkeypatch.setattr(live, "start_query", lambda rows, folder, trigger, on_batch: FakeQuery(source, on_batch, [0.1]))
    with pytest.raises(AnotherStreamRuns, match="process 7"):
        live_stream(source, reporter).run()


def test_the_source_is_asked_what_it_has_while_a_batch_runs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a slow batch shows that nothing waits, however much comes meanwhile."""
    source = FakeSource([10, 10], live_from=0)
    stream, _ = quiet_stream(monkeypatch, lambda: None, source)
    stream.run()
    assert source.looks >= 140 // 5


def test_one_who_stops_it_in_the_middle_of_a_batch_learns_what_it_waits_for() -> None:
    source, reporter = FakeSource([1]), FakeReporter()
    stream, said = live_stream(source, reporter), reporter.stops

    def interrupt(query: FakeQuery) -> None:
        with stream._stopped(query):  # type: ignore[arg-type]
            raise KeyboardInterrupt

    query = FakeQuery(source, stream._on_batch(Checkpoint(Path("unused"))), [0.1])
    with pytest.raises(KeyboardInterrupt):
        interrupt(query)
    assert said == []
    with stream._busy:
        ended = threading.Timer(0.2, stream._busy.release)
        ended.start()
        with pytest.raises(KeyboardInterrupt):
            interrupt(query)
        ended.join()
        stream._busy.acquire()
    assert len(said) == 1 and said[0].startswith("Stopping: the batch under way is published first")


@dataclass
class QuietQuery(FakeQuery):
    """Two batches half a minute apart, then ``quiet`` seconds without any."""

    quiet: int = 140

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.quiet > 0

    def awaitTermination(self, seconds: float) -> None:  # noqa: N802
        if len(self.source.read) < len(self.source.amounts):
            super().awaitTermination(seconds)
            clock.sleep(30)
        else:
            clock.sleep(1)
            self.quiet -= 1


def quiet_stream(
    monkeypatch: pytest.MonkeyPatch, follow_again: Callable[[], None], source: FakeSource | None = None
) -> tuple[LiveStream, FakeReporter]:
    """A stream of which no batch comes any more, and what it tells."""
    reporter = FakeReporter()

    def start(rows: Any, checkpoint: Any, trigger: Any, on_batch: Any) -> FakeQuery:
        return QuietQuery(rows, on_batch, [0.1] * 2)

    monkeypatch.setattr(live, "start_query", start)
    source = source or FakeSource([10, 10], live_from=0)
    return live_stream(source, reporter, following=InTurn(lambda gained: None, follow_again)), reporter


def test_days_that_were_left_are_tried_again_each_minute_of_a_quiet_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other batch would come for them, perhaps until the next morning."""
    tried: list[datetime] = []
    stream, _ = quiet_stream(monkeypatch, lambda: tried.append(clock.now()))
    stream.run()
    first_quiet = NOON + timedelta(seconds=30)
    assert tried == [first_quiet + timedelta(seconds=60), first_quiet + timedelta(seconds=120)]


def test_what_could_not_be_read_is_tried_again_each_minute_and_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was left out and landed again: no other file may come for hours."""
    source = FakeSource([10, 10], live_from=0)
    stream, reporter = quiet_stream(monkeypatch, lambda: None, source)
    followed: list[date] = []
    stream.following = InTurn(lambda gained: followed.extend(gained.days), lambda: None)
    source.left_out = 7
    stream.run()
    assert [batch.events for batch in reporter.batches] == [10, 10, 7] and followed == [DAY] * 3


def test_they_are_tried_again_while_the_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[datetime] = []
    away = FakeSource([10, 10], errors=8, live_from=0)
    stream, reporter = quiet_stream(monkeypatch, lambda: tried.append(clock.now()), away)
    stream.run()
    assert len(reporter.waits) == 8 and NOON + timedelta(seconds=60) in tried


def test_a_full_disk_while_they_are_tried_again_ends_the_stream_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    stream, _ = quiet_stream(monkeypatch, full)
    with pytest.raises(LakehouseUnusable, match="The stream stopped between batches: the disk is full"):
        stream.run()


# ----------------------------------------------------------------------------- two loops

_PATIENCE_SECONDS = 30.0


@dataclass
class SlowFacts:
    """Each following begins when it is told to, or at once if ``is_free`` is set."""

    error: Exception | None = None
    is_free: threading.Event = field(default_factory=threading.Event)
    has_begun: threading.Event = field(default_factory=threading.Event)
    taken: list[int] = field(default_factory=list)
    """How many batches each following took."""

    @property
    def loop(self) -> FollowLoop:
        return FollowLoop(self.follow, lambda: None)

    def follow(self, gained: Gained) -> None:
        self.has_begun.set()
        assert self.is_free.wait(_PATIENCE_SECONDS)
        if self.error:
            raise self.error
        self.taken.append(len(gained.batches))


def beside_facts(
    monkeypatch: pytest.MonkeyPatch, facts: SlowFacts, batches: int, on_batch: Callable[[StreamBatch], None]
) -> tuple[LiveStream, FakeReporter]:
    source, reporter = FakeSource([10] * batches, live_from=0), FakeReporter(on_batch)
    start = lambda rows, folder, trigger, on_batch: FakeQuery(source, on_batch, [0.1] * batches)  # noqa: E731
    monkeypatch.setattr(live, "start_query", start)
    return live_stream(source, reporter, following=facts.loop, trigger=Trigger(available_now=True)), reporter


def test_raw_does_not_wait_for_slow_facts_which_take_all_at_once_and_it_ends_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = SlowFacts()

    def published(batch: StreamBatch) -> None:
        if batch.batch:
            assert facts.has_begun.wait(_PATIENCE_SECONDS) and not facts.taken
        if batch.batch == 8:
            facts.is_free.set()

    stream, reporter = beside_facts(monkeypatch, facts, 9, published)
    stream.run()
    assert len(reporter.batches) == 9 and sum(facts.taken) == 9 and len(facts.taken) <= 3, facts.taken
    assert not reporter.slow and {batch.slowed_down for batch in reporter.batches} == {""}


def test_raw_waits_once_it_is_far_ahead_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch is with the following under way, so many wait, and the next one waits for it."""
    facts, latest = SlowFacts(), MOST_BATCHES

    def published(batch: StreamBatch) -> None:
        if batch.batch == 1:
            assert facts.has_begun.wait(_PATIENCE_SECONDS)
        assert batch.batch <= latest or facts.is_free.is_set(), "raw is further ahead than it may be"
        if batch.batch == latest:
            freed = threading.Timer(0.2, facts.is_free.set)
            freed.start()

    stream, reporter = beside_facts(monkeypatch, facts, MOST_BATCHES + 3, published)
    stream.run()
    why = f"raw is {MOST_BATCHES} batches ({MOST_BATCHES * 10} events) ahead of the facts: it waits for them"
    assert reporter.slow == [why] and facts.taken[:2] == [1, MOST_BATCHES]
    assert [batch.batch for batch in reporter.batches if batch.slowed_down] == [MOST_BATCHES + 1]


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (ValueError("a bug"), ValueError, "a bug"),
        (LakehouseUnusable("the log is damaged"), LakehouseUnusable, "the log is damaged"),
        (OSError(28, "No space left on device"), LakehouseUnusable, "stopped in the middle of a batch: the disk is"),
    ],
)
def test_what_ends_the_facts_ends_the_stream(
    monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception], said: str
) -> None:
    """Also if raw has ended before: not all has followed."""

    def published(batch: StreamBatch) -> None:
        if batch.batch == 2:
            threading.Timer(0.1, facts.is_free.set).start()

    facts = SlowFacts(error)
    stream, _ = beside_facts(monkeypatch, facts, 3, published)
    with pytest.raises(raised, match=said):
        stream.run()


def test_one_who_stops_it_waits_for_the_facts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for those of the last batch; a second Ctrl-C leaves them to the next start."""
    facts = SlowFacts()

    def published(batch: StreamBatch) -> None:
        if batch.batch == 2:
            threading.Timer(0.2, facts.is_free.set).start()
            raise KeyboardInterrupt

    stream, reporter = beside_facts(monkeypatch, facts, 5, published)
    stream.trigger = Trigger()
    with pytest.raises(KeyboardInterrupt):
        stream.run()
    assert sum(facts.taken) == 2 and reporter.stops and "and its facts" in reporter.stops[0]


def test_local_files_are_written_without_a_process_for_each_unless_the_lakehouse_is_a_bucket() -> None:
    """Hadoop's client of a bucket keeps what it sends in local files, and fails with another class for these."""
    name, profile = "spark.hadoop.fs.file.impl", {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC"}
    assert stream_settings(profile, "6g", on_s3=False)[name].endswith("RawLocalFileSystem")
    assert name not in stream_settings(profile, "6g", on_s3=True)
