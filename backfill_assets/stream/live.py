"""Runs a stream: from where raw ends, micro-batch by micro-batch, until it is stopped or has read what there is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.disk import full_disk
from backfill_assets.stream.broker import BrokerAway
from backfill_assets.stream.query import Trigger, latest_offsets, start_query
from backfill_assets.stream.reading import BatchRead, Reading
from backfill_assets.stream.sources import Offsets
from backfill_assets.stream.throttle import Pace, RateUnit, Throttle, answer_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS = 1
_PATIENCE_SECONDS = 60.0
"""For so long a stream that is to end by itself waits for a broker that is away."""
_STOP_SECONDS = 60.0
_FOLLOW_AGAIN = timedelta(seconds=60)
"""So long after a batch, days that it left are tried again, if no other batch comes."""


@dataclass(frozen=True)
class BatchDone:
    """One micro-batch that was published, with the seconds until the days that it touched were followed."""

    number: int
    read: BatchRead
    seconds: float
    pace: Pace = field(default_factory=Pace)
    """How the stream goes on reading."""
    answer_seconds: float | None = None
    """How long the source itself took for the batch before, the newest that it is known of; None without one."""


@dataclass
class StreamListener:
    """What a stream calls while it runs. All by default do nothing."""

    started: Callable[[], None] = lambda: None
    published: Callable[[BatchDone], None] = lambda batch: None
    waiting: Callable[[str], None] = lambda why: None
    stopping: Callable[[str], None] = lambda why: None
    """When a person stops it in the middle of a batch."""


@dataclass
class LiveStream:
    """One run of a stream into raw. ``follow`` is called with the days of each batch after it was published.

    Each minute in which no batch comes, what could not be read is tried again, and ``follow_again`` is called for days
    that could not follow.
    """

    reading: Reading
    trigger: Trigger
    throttle: Throttle
    follow: Callable[[Collection[date]], None]
    follow_again: Callable[[], None]
    listener: StreamListener
    now: Callable[[], datetime]
    sleep: Callable[[float], None] = time.sleep
    _failure: BaseException | None = None
    _busy: threading.Lock = field(default_factory=threading.Lock)
    _stopping: bool = False
    _query: StreamingQuery | None = None
    _most: int = 0
    """The most events of a batch of the query that runs."""
    _last: BatchDone | None = None
    """The batch before, until it is known how long the source took for it."""
    _followed: datetime | None = None
    """When days followed last, or were tried again."""

    def run(self) -> None:
        """Read until all is read (``available_now``), or for ever.

        A broker that goes away is waited for. Raises :class:`SourceUnreadable` for a topic that is missing, was
        deleted and created again, or has deleted events that were not read; :class:`LakehouseUnusable` for a full disk.
        """
        waited = 0.0
        while True:
            try:
                if self._read():
                    return
            except BrokerAway as away:
                if self.trigger.available_now and waited >= _PATIENCE_SECONDS:
                    raise
                pace = self.throttle.back_off.failed(away.message, self.throttle.limit.rate_at(self.now()))
                self.listener.waiting(f"{away.message} Trying again in {pace.pause_seconds:.0f} s; {pace.reason}")
                self._rest(pace.pause_seconds)
                waited += pace.pause_seconds

    def _rest(self, seconds: float) -> None:
        while seconds > 0:
            self._look()
            self.sleep(min(1.0, seconds))
            seconds -= 1.0

    def _read(self) -> bool:
        """Read until the query ends (True), or until it is to be started again with other batches (False)."""
        self._most = self._most_events()
        rows = self.reading.open(self._most, self.throttle.limit.files_in_flight)
        self._failure = self._last = None
        self.listener.started()
        self._query = query = start_query(rows, self.reading.checkpoint, self.trigger, self._on_batch)
        with self._stopped(query):
            return self._wait(query)

    def _most_events(self) -> int:
        """Of one batch of a topic: while history is read, what its rate lets pass in the time of a batch."""
        most, lag = self.throttle.limit.events_in_flight, 0.0 if self.reading.is_live else None
        return min(most, self.throttle.most_in(max(1.0, self.trigger.every_seconds), self.now(), lag) or most)

    def _is_outdated(self) -> bool:
        """Spark reads at most as many events a batch as it was started with: history ends, and rates change."""
        if self.trigger.available_now or not self.reading.is_capped_by_events:
            return False
        wanted, is_backed_off = self._most_events(), self.throttle.back_off.pace.factor < 1
        # A source that is slow is spared by waiting between batches: to start again would ask it more.
        return wanted >= 2 * self._most or (2 * wanted <= self._most and not is_backed_off)

    # ---------------------------------------------------------------- batches

    def _on_batch(self, rows: DataFrame, number: int) -> None:
        """Spark reports an error of this as text, so the error itself is kept for the thread that waits."""
        with self._busy:
            if self._stopping:
                return
            try:
                self._publish(rows, number)
            except BaseException as error:
                self._failure = error
                raise

    def _publish(self, rows: DataFrame, number: int) -> None:
        began = time.monotonic()
        progress = self._query.lastProgress if self._query else None
        answer = self._observe_answer(progress)
        read = self.reading.publish(rows, number, _latest(progress))
        self._last = self._done(number, read, began, answer)
        self._wait_for_rate(read)

    def _done(self, number: int, read: BatchRead, began: float, answer: float | None = None) -> BatchDone:
        if read.appended is not None:
            self.follow(read.appended.days)
            self._followed = self.now()
        done = BatchDone(number, read, time.monotonic() - began, self.throttle.back_off.pace, answer)
        if read.appended is not None:
            self.listener.published(done)
        return done

    def _observe_answer(self, progress: StreamingQueryProgress | None) -> float | None:
        """How long the source took for the batch before: Spark reports it once that batch has ended."""
        last, self._last = self._last, None
        if last is None or progress is None or progress.batchId != last.number:
            return None
        seconds = answer_seconds(progress.durationMs)
        if seconds is not None:
            declared = self.throttle.limit.rate_at(self.now())
            self.throttle.back_off.answered(seconds, last.read.events, declared, max(seconds, last.seconds))
        return seconds

    def _wait_for_rate(self, read: BatchRead) -> None:
        """Wait before the next batch while history is read, so that the source is asked at the declared rate."""
        amount = read.bytes if self.throttle.limit.unit is RateUnit.BYTES else read.events
        left = self.throttle.wait(amount, self.now(), read.delays.p50 if read.delays else None)
        while left > 0 and not self._stopping:
            self.sleep(min(1.0, left))
            left -= 1.0

    # ------------------------------------------------------------------- wait

    def _wait(self, query: StreamingQuery) -> bool:
        try:
            while query.isActive:
                query.awaitTermination(_LOOK_SECONDS)
                self._look()
                if self._is_outdated():
                    return False
            query.awaitTermination(_LOOK_SECONDS)
            return True
        except Exception as error:
            raise self._explained(error) from error

    def _look(self) -> None:
        """About every second, between batches and while one runs."""
        now = self.now()
        self._followed = self._followed or now
        if now - self._followed >= _FOLLOW_AGAIN and self._busy.acquire(blocking=False):
            try:
                began, again = time.monotonic(), self.reading.read_again()
                if again is not None:
                    self._done(self._last.number if self._last else 0, again, began)
                self.follow_again()
            except Exception as error:
                raise full_disk("The stream stopped between batches", error) or error from error
            finally:
                self._followed = self.now()
                self._busy.release()

    def _explained(self, error: Exception) -> BaseException:
        if isinstance(error, BackfillError):
            return error
        if isinstance(self._failure, BackfillError):
            return self._failure
        return (
            self.reading.explain(error)
            or full_disk("The stream stopped in the middle of a batch", error)
            or self._failure
            or error
        )

    @contextmanager
    def _stopped(self, query: StreamingQuery) -> Iterator[None]:
        """Stop the query at the end. A batch that is under way is finished first, for a bounded time."""
        try:
            yield
        except KeyboardInterrupt:
            if self._busy.locked():
                self.listener.stopping(
                    f"Stopping: the batch under way is published first, which may take {_STOP_SECONDS:.0f} s."
                    " Ctrl-C again leaves it to the next start"
                )
            raise
        finally:
            self._stopping = True
            if self._busy.acquire(timeout=_STOP_SECONDS):
                self._busy.release()
            query.stop()
            self._stopping = False


def _latest(progress: StreamingQueryProgress | None) -> Offsets:
    """By partition, what the topic had when Spark last looked; empty before the first look, and for files."""
    return latest_offsets(progress.sources[0].latestOffset if progress and progress.sources else None)
