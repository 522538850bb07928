"""The status of each stream and, in the same file, the lease that keeps a second stream off its table.

The lease is a claim, whose file its holder writes anew with each beat. One that has lost it writes to its own old file,
which is not looked at any more. The lease saves work, it protects nothing: positions are compare-and-swap, so two
streams of one table would read twice and publish once. A process that is killed leaves its lease behind; it ends by its
expiry, and on the host of that process at once.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Literal

import psutil

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import AnotherStreamRuns, BackfillError, LakehouseUnusable
from backfill_assets.lakehouse.document import Numbered, Series
from backfill_assets.lakehouse.records import AuditRecord, DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.quarantine import rows_not_built
from backfill_assets.stream.delays import Delays
from backfill_assets.text import format_count

STREAMS = "_streams"
LEASE_SECONDS = 30
"""How long a lease lasts after a beat."""
BEAT_EVERY_SECONDS = 5.0
_SAME_START_SECONDS = 2.0
"""Two readings of when a process was started differ by less."""
RUN_VARIABLE = "BACKFILL_STREAM_RUN"
"""Names the run of Dagster that has started the process of a stream."""
StreamState = Literal["starting", "history", "live", "waiting", "stopped", "failed"]
"""``waiting``: for a hold, or for a source that is away. ``stopped`` and ``failed`` have ended."""
_ENDED: tuple[StreamState, ...] = ("stopped", "failed")


class StreamPosition(AuditRecord):
    """How far one partition of the source is read: the next offset, and the end of what the source has."""

    partition: str
    """``topic/0``; for landed files the folder of an arrival day."""
    position: int
    end: int | None = None
    """None while it is unknown."""

    @property
    def lag(self) -> int | None:
        """How many records or files are still to be read."""
        return None if self.end is None else max(0, self.end - self.position)


class StreamHolder(AuditRecord):
    """The process that a stream runs in."""

    host: str
    pid: int
    process_started: float
    """When the process was started (s, as the host says it): a later one with the same number has another."""
    run: str = ""
    """The run of Dagster that started it; empty for one that was started by hand."""
    lease: str
    """A random name of this lease."""

    @classmethod
    def this_process(cls) -> StreamHolder:
        pid = os.getpid()  # noqa: TID251 - others see whether it is gone
        run = os.environ.get(RUN_VARIABLE, "")
        started = psutil.Process(pid).create_time()
        return cls(host=socket.gethostname(), pid=pid, process_started=started, run=run, lease=clock.token(8))

    def is_gone(self) -> bool:
        """True if the process was on this host and has ended. Of another host nothing is known: False."""
        if self.host != socket.gethostname():
            return False
        try:
            process = psutil.Process(self.pid)
            is_another = abs(process.create_time() - self.process_started) > _SAME_START_SECONDS
            return is_another or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True
        except psutil.Error:
            return False

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" + (f", run {self.run}" if self.run else "")


class HeldEvents(AuditRecord):
    """Events that are in raw and that a gate keeps from the tables that follow: those of one day."""

    table: str
    day: date
    rule: str
    """The gate."""
    why: str
    """What it saw, and what it expects."""
    events: int
    """That raw has, and what is published of the table was not built from."""
    since: datetime
    version: str = ""
    """Of the logic that was tried: another one may let the day through."""
    rejected: int = 0
    """Rows that would be in quarantine, of a table that rejects rows."""
    reasons: dict[str, int] = {}  # noqa: RUF012 - a field of pydantic, which copies it
    """Why, in general form; of each file the first 10,000 rows are counted."""
    do: str = ""
    """The command that publishes the day all the same; empty if the gate has none."""

    def __str__(self) -> str:
        events, since = format_count(self.events, "event"), f"{self.since:%Y-%m-%d %H:%M:%S}Z"
        return f"{events} of {self.day} held back by {self.rule} of {self.table} since {since}"


class StreamBatch(AuditRecord):
    """One micro-batch that was published, as it is reported and as the status has it."""

    at: datetime
    batch: int
    """Its number in the query of Spark."""
    events: int
    seconds: float
    """Until the days that it touched were followed."""
    answer_seconds: float | None = None
    """How long the source itself took for the batch before; None if that is not known."""
    pace: float = 1.0
    """The share of the rate that the stream reads at."""
    slowed_down: str = ""
    """Why it reads more slowly, with the figures; empty at the full rate."""
    publication: str = ""
    days: tuple[date, ...] = ()
    delays: dict[str, Delays] = {}  # noqa: RUF012 - a field of pydantic, which copies it
    """Of its events, by table in which readers have them."""
    held_back: str = ""
    """What gates keep from the tables that follow, in words."""

    def __str__(self) -> str:
        held = f"; {self.held_back}" if self.held_back else ""
        late = "".join(f"; in {table} after {each}" for table, each in self.delays.items())
        slow = f"; slowed down: {self.slowed_down}" if self.slowed_down else ""
        return f"batch {self.batch}: {format_count(self.events, 'event')} in {self.seconds:.1f} s{late}{held}{slow}"


class StreamStatus(AuditRecord):
    """One stream as it was at its last beat. It stays after the stream has ended, until the next one begins."""

    table: str
    source: str
    holder: StreamHolder
    started: datetime
    beat: datetime
    until: datetime
    """The lease ends then, unless there is another beat."""
    state: StreamState = "starting"
    positions: tuple[StreamPosition, ...] = ()
    events: int = 0
    """Published since the start."""
    batches: int = 0
    """Published since the start, too."""
    last: StreamBatch | None = None
    delays: dict[str, Delays] = {}  # noqa: RUF012 - a field of pydantic, which copies it
    """Of the events of the last minutes, by table: raw, and the last table that follows. A table without any is not
    there."""
    boundary: str = ""
    """Where history ended and live reading began, in words; empty while it is not reached."""
    held_back: tuple[HeldEvents, ...] = ()
    """What gates keep from the tables that follow."""
    note: str = ""
    """What slows the stream down, or what a start is doing, with the figures; empty if nothing does."""
    error: str = ""
    """The last error; it stays until a batch is published."""

    @property
    def events_per_second(self) -> float:
        """Of the last batch."""
        return round(self.last.events / self.last.seconds, 1) if self.last and self.last.seconds else 0.0

    @property
    def ended(self) -> bool:
        """The stream has stopped by itself or with an error; False also for one that was killed."""
        return self.state in _ENDED

    @property
    def lag(self) -> int | None:
        """What is still to be read of all partitions; None if the end of one is unknown."""
        lags = [each.lag for each in self.positions]
        return None if None in lags or not lags else sum(lag or 0 for lag in lags)

    def is_running(self, now: datetime) -> bool:
        """Whether the stream is known to run: its lease is fresh, and its process has not ended."""
        return not self.ended and self.until > now and not self.holder.is_gone()


@dataclass
class StreamLease:
    """The lease that this process has. Each beat renews it and writes the status."""

    storage: Storage
    status: StreamStatus
    number: int = -1
    """Of the claim; below 0 before there is one."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _lost: AnotherStreamRuns | None = None

    def beat(self, **changes: Any) -> StreamStatus:
        """Renew the lease and write the status with ``changes``; raises if another stream has taken the table.

        A table that another one took and has left since is taken again.
        """
        with self._lock:
            if self._lost:
                raise self._lost
            self._renew_status(**changes)
            while (newest := self._claims.newest()) is None or newest.number != self.number:
                if refused := self._refusal(newest):
                    raise refused
                claimed = self._claims.claim(self.status, newest)
                self.number = claimed.number if claimed else -1
            self._write()
            return self.status

    def lost(self) -> AnotherStreamRuns | None:
        """Why this stream has to end, if another one runs in its place."""
        newest = self._claims.newest()
        return None if newest is None or newest.number == self.number else self._refusal(newest)

    def _refusal(self, newest: Numbered | None) -> AnotherStreamRuns | None:
        found = _status(self._claims, newest)
        if found is None or not found.is_running(clock.now()):
            return None
        return refusal(found) if self.number < 0 else overtaken(self.status, found)

    def note(self, **changes: Any) -> None:
        """What the next beat writes; raises if another stream has taken the table."""
        with self._lock:
            if self._lost:
                raise self._lost
            self.status = self.status.model_copy(update=changes)

    def release(self, error: str = "") -> None:
        """The stream has ended: ``stopped``, or ``failed`` with an error. The lease of another stream is left alone."""
        with self._lock:
            state = "failed" if error else "stopped"
            self._renew_status(state=state, error=error or self.status.error, until=clock.now())
            if self.number >= 0:
                self._write()

    @property
    def _claims(self) -> Series[StreamStatus]:
        return _claims(self.storage, self.status.table)

    def _renew_status(self, **changes: Any) -> None:
        now = clock.now()
        moments = {"beat": now, "until": now + timedelta(seconds=LEASE_SECONDS)}
        self.status = StreamStatus.model_validate({**dict(self.status), **moments, **changes})

    def _write(self) -> None:
        self._claims.rewrite(self.number, self.status)

    @contextmanager
    def renewed(self, every_seconds: float = BEAT_EVERY_SECONDS) -> Iterator[StreamLease]:
        """Renew the lease in a thread of its own: a batch may take longer than the lease lasts.

        Released when the block ends. A table lost to another stream meanwhile is reported by the next beat.
        """
        ended = threading.Event()
        thread = threading.Thread(target=self._renew, args=(ended, every_seconds), daemon=True, name="stream-lease")
        thread.start()
        error = ""
        try:
            yield self
        except Exception as failure:
            error = str(failure)
            raise
        finally:
            ended.set()
            thread.join()
            # What ended the block matters more than a disk that is full now: an unreleased lease expires.
            with suppress(BackfillError, OSError):
                self.release(error)

    def _renew(self, ended: threading.Event, every_seconds: float) -> None:
        while not ended.wait(every_seconds):
            try:
                self.beat()
            except AnotherStreamRuns as lost:
                self._lost = lost
                return
            except Exception:  # noqa: S112 - a disk that is full for a moment: the next beat tries again
                continue


def acquire_stream(storage: Storage, table: str, source: str) -> StreamLease:
    """Take the lease of a table; a stream that runs already raises :class:`AnotherStreamRuns`, which names it.

    Of two that start at once, one has it. What the stream before it held back is held until it has looked.
    """
    holder, started = StreamHolder.this_process(), clock.now()
    before = read_stream(storage, table)
    status = StreamStatus(
        table=table,
        source=source,
        holder=holder,
        started=started,
        beat=started,
        until=started,
        held_back=before.held_back if before else (),
    )
    lease = StreamLease(storage, status)
    lease.beat()
    return lease


def refusal(running: StreamStatus) -> AnotherStreamRuns:
    """The error that names the stream which runs already."""
    since, holder = f"{running.started:%Y-%m-%d %H:%M:%S}Z", running.holder
    stop = f"terminate its run {holder.run} in the UI" if holder.run else f"kill -INT {holder.pid} on {holder.host}"
    return AnotherStreamRuns(
        f"A stream of {running.table} runs already: {holder}, from {running.source}, since {since}. "
        "This one has read nothing.",
        hint=f"Stop that one first ({stop}), or let it run.",
    )


def overtaken(status: StreamStatus, running: StreamStatus) -> AnotherStreamRuns:
    """The error of a stream that was suspended for longer than its lease lasts, and finds another one in its place."""
    kept = f"{format_count(status.events, 'event')} in {format_count(status.batches, 'batch')}"
    return AnotherStreamRuns(
        f"{running.holder} has streamed into {running.table} since {running.started:%Y-%m-%d %H:%M:%S}Z, while this"
        f" process was suspended: this stream ends, and what it published stays ({kept}).",
        hint="Nothing is lost: the other one reads on from where raw ends.",
    )


def read_stream(storage: Storage, table: str) -> StreamStatus | None:
    """The status of the stream of a table; None if there was none, or if its file is damaged."""
    claims = _claims(storage, table)
    return _status(claims, claims.newest())


def still_held(held: Iterable[HeldEvents], raw: str, states: Mapping[TableDay, DayState]) -> list[HeldEvents]:
    """``held`` with as many events as there are by ``states``; without days that were published since."""
    counted = ((each, rows_not_built(states, raw, each.table, each.day)) for each in held)
    return [each.model_copy(update={"events": events}) for each, events in counted if events]


def held_back(storage: Storage, states: Mapping[TableDay, DayState]) -> list[HeldEvents]:
    """What gates keep from the tables that follow a stream, also one that has ended; ``states`` are those of now."""
    return [each for status in read_streams(storage) for each in still_held(status.held_back, status.table, states)]


def read_streams(storage: Storage) -> list[StreamStatus]:
    """Every stream's status by table, those that have ended too."""
    return [status for table in storage.folders(STREAMS) if (status := read_stream(storage, table))]


def _status(claims: Series[StreamStatus], claim: Numbered | None) -> StreamStatus | None:
    try:
        return claims.value(claim) if claim else None
    except LakehouseUnusable:
        return None


def _claims(storage: Storage, table: str) -> Series[StreamStatus]:
    return Series(storage, f"{STREAMS}/{table}", StreamStatus)
