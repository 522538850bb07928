"""Runs a stream, micro-batch by micro-batch, from where raw ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from backfill_assets import clock
from backfill_assets.errors import BackfillError, LakehouseUnusable, SourceAway
from backfill_assets.lakehouse.disk import full_disk
from backfill_assets.stream.batches import BatchRead, Checkpoint, CheckpointGone, Reading
from backfill_assets.stream.follow_loop import Following
from backfill_assets.stream.gained import GainedBatch, rest_for_facts
from backfill_assets.stream.lease import StreamBatch
from backfill_assets.stream.reporter import StreamReporter
from backfill_assets.stream.throttle import RateUnit, Throttle, answer_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

STREAM_SETTINGS = {
    # Batches are small. Spark has no adaptive execution in streams, and would warn at each start.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.sql.streaming.metricsEnabled": "false",
}
_ON_A_DISK = {
    # Hadoop's default class for local files starts two processes for each file, to set modes; a batch makes a file for
    # each day of each table. Parquet pages have checksums as well.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}
"""A lakehouse in a folder needs no more; writers to a bucket need the default class for their local parts."""
_MEMORY, _JAVA = "spark.driver.memory", "spark.driver.extraJavaOptions"
_HEAP = "2g"
"""Java's default is a quarter of the machine."""
_GIVES_BACK = "-XX:+UseSerialGC -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"
_LOOK_SECONDS = 1
_PATIENCE_SECONDS = 60.0
_MOST_LOST = 3
_STOP_SECONDS = 60.0
_SEE_SOURCE = timedelta(seconds=5)
_FOLLOW_AGAIN = timedelta(seconds=60)
OnBatch = Callable[["DataFrame", int], None]


def stream_settings(profile: Mapping[str, str], usual_memory: str, *, on_s3: bool) -> dict[str, str]:
    """Memory in ``profile`` wins. ``usual_memory`` is a run's, which may be less than a stream's."""
    java = profile.get(_JAVA, "").replace("-XX:+UseParallelGC", _GIVES_BACK)
    heap = profile.get(_MEMORY) or min(_HEAP, usual_memory, key=lambda size: int(size.removesuffix("g")))
    return {**STREAM_SETTINGS, **({} if on_s3 else _ON_A_DISK), _JAVA: java, _MEMORY: heap}


@dataclass(frozen=True)
class Trigger:
    """Seconds between batches; or (``available_now``) all there is, and the end."""

    every_seconds: float = 1.0
    available_now: bool = False


def start_query(rows: DataFrame, folder: Path, trigger: Trigger, on_batch: OnBatch) -> StreamingQuery:
    """``on_batch`` gets each micro-batch with its number, in another thread."""
    writer = rows.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(folder))
    if trigger.available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{trigger.every_seconds:g} seconds").start()


@dataclass
class LiveStream:
    """A run of a stream into raw; ``following`` gets each batch, and is asked again in each minute without one.

    Two threads are here: that of :meth:`run`, which waits, and Spark's, which publishes batches. ``_busy`` is held by
    whoever publishes, and guards what belongs to a batch.
    """

    reading: Reading
    trigger: Trigger
    throttle: Throttle
    following: Following
    reporter: StreamReporter
    raw_turn: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever of this process publishes to raw."""
    _failure: BaseException | None = None
    _busy: threading.Lock = field(default_factory=threading.Lock)
    _stopping: bool = False
    _query: StreamingQuery | None = None
    _most: int = 0
    _lost: int = 0
    _last: StreamBatch | None = None
    _seen: datetime | None = None
    _quiet_since: datetime | None = None
    _ended: float | None = None
    _stop_by: float | None = None

    def run(self) -> None:
        """Read until everything is read and has followed (``available_now``), or forever; an absent broker is waited
        for.

        Raises :class:`SourceUnreadable` for a topic that is missing, was created again, or has deleted unread events,
        and :class:`LakehouseUnusable` for a full disk.
        """
        try:
            self._read_all()
            self._wait_for_all_facts()
        except KeyboardInterrupt:
            self._interrupted()
            raise
        finally:
            left = _STOP_SECONDS if self._stop_by is None else max(0.0, self._stop_by - clock.seconds())
            self.following.stop(left)

    def _read_all(self) -> None:
        waited = 0.0
        while True:
            try:
                if self._read():
                    return
            except SourceAway as away:
                if self.trigger.available_now and waited >= _PATIENCE_SECONDS:
                    raise
                pace = self.throttle.failed(away.message, clock.now())
                self.reporter.waiting(f"{away.message} Trying again in {pace.pause_seconds:.0f} s; {pace.reason}")
                self._rest(pace.pause_seconds)
                waited += pace.pause_seconds

    def _rest(self, seconds: float) -> None:
        while seconds > 0:
            self._look()
            clock.sleep(min(1.0, seconds))
            seconds -= 1.0

    def _read(self) -> bool:
        self._most = self._most_wanted()
        rows = self.reading.open(self._most)
        self._failure = self._last = None
        self.reporter.started()
        with TemporaryDirectory(prefix="backfill-stream-", ignore_cleanup_errors=True) as folder:
            checkpoint = Checkpoint(Path(folder))
            self._query = query = start_query(rows, Path(folder), self.trigger, self._on_batch(checkpoint))
            with self._stopped(query):
                return self._wait(query, checkpoint)

    def _most_wanted(self) -> int:
        usual = self.reading.usual_most
        if self.reading.counts_events and not self.reading.is_live:
            return self.throttle.limit.most_in(max(1.0, self.trigger.every_seconds), clock.now(), usual)
        return self.throttle.limit.most or usual

    # ---------------------------------------------------------------- batches

    def _on_batch(self, checkpoint: Checkpoint) -> OnBatch:
        def publish(rows: DataFrame, number: int) -> None:
            """Spark reports errors as text, so the error itself is kept for the waiting thread."""
            with self._busy:
                if self._stopping:
                    return
                try:
                    self._publish(rows, checkpoint, number)
                except BaseException as error:
                    self._failure = error
                    raise

        return publish

    def _publish(self, rows: DataFrame, checkpoint: Checkpoint, number: int) -> None:
        began = clock.seconds()
        progress = self._query.lastProgress if self._query else None
        answer = self._observe_answer(progress)
        slowed_down = self._wait_for_facts()
        if self._stopping:
            return
        with self.raw_turn:
            read = self.reading.publish(rows, checkpoint, number)
        self._last, self._lost = self._done(number, read, began, answer, slowed_down), 0
        took = clock.seconds() - began
        self._wait_for_rate(read, took)
        if self.following.is_at_work and not self._stopping:
            self.following.pause(rest_for_facts(took, self.trigger.every_seconds))

    def _wait_for_facts(self) -> str:
        """Returns why the batch had to wait."""
        why = self.following.waiting.too_far_ahead
        if why:
            self.reporter.slowed_down(why)
        while self.following.waiting.too_far_ahead and not self._stopping:
            self.following.pause(_LOOK_SECONDS)
        return why

    def _done(
        self, number: int, read: BatchRead, began: float, answer: float | None = None, slowed_down: str = ""
    ) -> StreamBatch:
        ended, before = clock.seconds(), self._ended
        batch = StreamBatch(
            at=clock.now(),
            batch=number,
            events=read.events,
            seconds=round(ended - began, 3),
            since_last=0.0 if before is None else round(ended - before, 3),
            answer_seconds=answer,
            pace=self.throttle.pace.factor,
            slowed_down="; ".join(filter(None, (self.throttle.pace.reason, slowed_down))),
            publication=read.publication,
            days=read.days,
        )
        if read.publication:
            self._ended, self._quiet_since = ended, clock.now()
            self.reporter.published(read, batch)
            self.following.add(GainedBatch(frozenset(read.days), read.events, read.received))
        return batch

    def _observe_answer(self, progress: StreamingQueryProgress | None) -> float | None:
        """Observes the batch before: Spark reports a batch once it has ended."""
        last, self._last = self._last, None
        if last is None or progress is None or progress.batchId != last.batch:
            return None
        seconds = answer_seconds(progress.durationMs)
        if seconds is not None:
            self.throttle.answered(seconds, last.events, clock.now())
        return seconds

    def _wait_for_rate(self, read: BatchRead, took: float) -> None:
        amount = read.bytes if self.throttle.limit.unit is RateUnit.BYTES else read.events
        left = self.throttle.wait(amount, took, clock.now(), read.delays.p50 if read.delays else None)
        while left > 0 and not self._stopping:
            clock.sleep(min(1.0, left))
            left -= 1.0

    # ------------------------------------------------------------------- wait

    def _wait(self, query: StreamingQuery, checkpoint: Checkpoint) -> bool:
        try:
            while query.isActive:
                query.awaitTermination(_LOOK_SECONDS)
                self._see_source(clock.now())
                self._look()
                # Spark fixes the batch size at the start of a query, but history ends and rates change.
                if not self.trigger.available_now and self._most_wanted() != self._most:
                    return False
            query.awaitTermination(_LOOK_SECONDS)
            self._see_source(clock.now(), at_once=True)
            return True
        except Exception as error:
            if self._goes_on_without(checkpoint, error):
                return False
            # Whatever failed may be due to another stream that took the table.
            raise self.reporter.overtaken() or self._explained(error) from error

    def _goes_on_without(self, checkpoint: Checkpoint, error: Exception) -> bool:
        """A lost checkpoint is only lost cache; if that repeats, raises :class:`LakehouseUnusable`."""
        is_gone = isinstance(self._failure, CheckpointGone) or (self._failure is None and not checkpoint.is_there)
        if isinstance(error, BackfillError) or not is_gone:
            return False
        if self._lost >= _MOST_LOST:
            hint = "Nothing is lost. Set TMPDIR to a folder that nothing cleans while the stream runs."
            raise LakehouseUnusable(f"{checkpoint.folder} was deleted before each batch.", hint=hint) from error
        self._lost += 1
        self.reporter.waiting("Spark's checkpoint is gone. It is a cache: reading goes on where raw ends.")
        return True

    def _look(self) -> None:
        self._raise_failure_of_facts()
        now = clock.now()
        self._quiet_since = self._quiet_since or now
        if now - self._quiet_since >= _FOLLOW_AGAIN and self._busy.acquire(blocking=False):
            try:
                self._read_again()
                self.following.again()
            except Exception as error:
                raise full_disk("The stream stopped between batches", error) or error from error
            finally:
                self._quiet_since = clock.now()
                self._busy.release()

    def _read_again(self) -> None:
        began = clock.seconds()
        with self.raw_turn:
            again = self.reading.read_again()
        if again is not None:
            self._done(self._last.batch if self._last else 0, again, began)

    def _raise_failure_of_facts(self) -> None:
        if self.following.failure is not None:
            self._failure = self.following.failure
            raise self._failure

    def _wait_for_all_facts(self) -> None:
        try:
            while self.following.is_at_work:
                self.following.pause(_LOOK_SECONDS)
            self._raise_failure_of_facts()
        except Exception as error:
            raise self.reporter.overtaken() or error from error

    def _see_source(self, now: datetime, *, at_once: bool = False) -> None:
        """Also during a batch: a slow one is when the backlog grows."""
        if at_once or self._seen is None or now - self._seen >= _SEE_SOURCE:
            self._seen = now
            self.reading.look()
            self.reporter.looked()

    def _explained(self, error: Exception) -> BaseException:
        if isinstance(error, BackfillError) or error is self.following.failure:
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
        """A running batch is finished first, for a bounded time."""
        try:
            yield
        except KeyboardInterrupt:
            self._interrupted()
            raise
        finally:
            self._stopping = True
            if self._busy.acquire(timeout=_STOP_SECONDS):
                self._busy.release()
            query.stop()
            self._stopping = False

    def _interrupted(self) -> None:
        if self._stop_by is None and (self._busy.locked() or self.following.is_at_work):
            self._stop_by = clock.seconds() + _STOP_SECONDS
            self.reporter.stopping(
                "Stopping: the batch under way is published first, and its facts, which may take"
                f" {_STOP_SECONDS:.0f} s. Ctrl-C again leaves them to the next start"
            )
