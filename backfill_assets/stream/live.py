"""Runs a stream: from where raw ends, micro-batch by micro-batch, until it is stopped or has read what there is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING

from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.lakehouse.disk import explain_failure
from backfill_assets.stream.broker import BrokerAway
from backfill_assets.stream.checkpoint import latest_offsets
from backfill_assets.stream.offsets import Offsets
from backfill_assets.stream.query import Trigger, start_query
from backfill_assets.stream.reading import BatchRead, Reading
from backfill_assets.stream.throttle import RateUnit, Throttle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS = 1
_PATIENCE_SECONDS = 60.0
"""For so long a stream that is to end by itself waits for a broker that is away."""
_LONGEST_PAUSE_SECONDS = 30.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class BatchDone:
    """One micro-batch that was published, with the seconds until the days that it touched were followed."""

    number: int
    read: BatchRead
    seconds: float


@dataclass
class StreamListener:
    """What a stream calls while it runs. All by default do nothing."""

    started: Callable[[], None] = lambda: None
    published: Callable[[BatchDone], None] = lambda batch: None
    waiting: Callable[[str], None] = lambda why: None
    alive: Callable[[], None] = lambda: None
    """About every second, from the thread that :meth:`LiveStream.run` was called in."""


@dataclass
class LiveStream:
    """One run of a stream into raw. ``follow`` is called with the days of each batch after it was published."""

    reading: Reading
    trigger: Trigger
    throttle: Throttle
    follow: Callable[[Collection[date]], None]
    listener: StreamListener
    now: Callable[[], datetime]
    sleep: Callable[[float], None] = time.sleep
    _failure: BaseException | None = None
    _busy: threading.Lock = field(default_factory=threading.Lock)
    _stopping: bool = False
    _query: StreamingQuery | None = None

    def run(self) -> None:
        """Read until all is read (``available_now``), or for ever.

        A broker that goes away is waited for. Raises :class:`SourceUnreadable` for a topic that is missing, was
        deleted and created again, or has deleted events that were not read; :class:`LakehouseUnusable` for a full disk.
        """
        pause, waited = 1.0, 0.0
        while True:
            try:
                self._read()
                return
            except BrokerAway as away:
                if self.trigger.available_now and waited >= _PATIENCE_SECONDS:
                    raise
                self.listener.waiting(f"{away.message} Trying again in {pause:.0f} s")
                self._rest(pause)
                waited += pause
                pause = min(_LONGEST_PAUSE_SECONDS, pause * 2)

    def _rest(self, seconds: float) -> None:
        while seconds > 0:
            self.listener.alive()
            self.sleep(min(1.0, seconds))
            seconds -= 1.0

    def _read(self) -> None:
        most = self.throttle.most_in(max(1.0, self.trigger.every_seconds), self.now())
        rows = self.reading.open(most, self.throttle.limit.files_in_flight)
        self._failure = None
        self.listener.started()
        self._query = query = start_query(rows, self.reading.checkpoint, self.trigger, self._on_batch)
        with self._stopped(query):
            self._wait(query)

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
        read = self.reading.publish(rows, number, self._latest())
        seconds = time.monotonic() - began
        if read.appended is not None:
            self.follow(read.appended.days)
            self.listener.published(BatchDone(number, read, time.monotonic() - began))
        self._throttled(read, seconds)

    def _latest(self) -> Offsets:
        """By partition, what the topic had when Spark last looked; empty before the first look, and for files."""
        progress = self._query.lastProgress if self._query else None
        latest = progress.sources[0].latestOffset if progress and progress.sources else None
        return latest_offsets(latest)

    def _throttled(self, read: BatchRead, seconds: float) -> None:
        """Wait before the next batch while history is read, so that the source is asked at the declared rate."""
        self.throttle.back_off.answered(seconds, read.events, self.throttle.limit.rate_at(self.now()))
        amount = read.bytes if self.throttle.limit.unit is RateUnit.BYTES else read.events
        left = self.throttle.wait(amount, self.now(), read.delays.p50 if read.delays else None)
        while left > 0 and not self._stopping:
            self.sleep(min(1.0, left))
            left -= 1.0

    # ------------------------------------------------------------------- wait

    def _wait(self, query: StreamingQuery) -> None:
        try:
            while query.isActive:
                query.awaitTermination(_LOOK_SECONDS)
                self.listener.alive()
            query.awaitTermination(_LOOK_SECONDS)
        except Exception as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> BaseException:
        if isinstance(self._failure, BackfillError):
            return self._failure
        return self.reading.explain(error) or _full_disk(error) or self._failure or error

    @contextmanager
    def _stopped(self, query: StreamingQuery) -> Iterator[None]:
        """Stop the query at the end. A batch that is under way is finished first, for a bounded time."""
        try:
            yield
        finally:
            self._stopping = True
            if self._busy.acquire(timeout=_STOP_SECONDS):
                self._busy.release()
            query.stop()
            self._stopping = False


def _full_disk(error: Exception) -> LakehouseUnusable | None:
    """Spark reports a full disk, or a folder without permission, in an error of its own."""
    try:
        with explain_failure("The stream stopped"):
            raise OSError(str(error))
    except LakehouseUnusable as explained:
        return explained
    except OSError:
        return None
