"""Each stream's status, and in the same file the lease on its table.

The holder rewrites its claim at each beat; a former one writes to its own old file, which nobody reads. A lease saves
work only: positions are compare-and-swap. It ends by expiry, or at once on the host of a dead process.
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
BEAT_EVERY_SECONDS = 5.0
_SAME_START_SECONDS = 2.0
RUN_VARIABLE = "BACKFILL_STREAM_RUN"
StreamState = Literal["starting", "history", "live", "waiting", "stopped", "failed"]
_ENDED: tuple[StreamState, ...] = ("stopped", "failed")


class StreamPosition(AuditRecord):
    partition: str
    position: int
    end: int | None = None

    @property
    def lag(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.position)


class StreamHolder(AuditRecord):
    host: str
    pid: int
    process_started: float
    """Seconds, by the host: another process may have its number."""
    run: str = ""
    lease: str

    @classmethod
    def this_process(cls) -> StreamHolder:
        pid = os.getpid()  # noqa: TID251 - others see whether it is gone
        run = os.environ.get(RUN_VARIABLE, "")
        started = psutil.Process(pid).create_time()
        return cls(host=socket.gethostname(), pid=pid, process_started=started, run=run, lease=clock.token(8))

    def is_gone(self) -> bool:
        """False for another host."""
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
    table: str
    day: date
    rule: str
    why: str
    events: int
    """Events in raw that the published table was not built from."""
    since: datetime
    version: str = ""
    """The version that was tried: another may let the day through."""
    rejected: int = 0
    reasons: dict[str, int] = {}  # noqa: RUF012 - a field of pydantic, which copies it
    """From the first 10,000 rows of each file."""
    do: str = ""
    """The command that publishes it anyway, or empty."""

    def __str__(self) -> str:
        events, since = format_count(self.events, "event"), f"{self.since:%Y-%m-%d %H:%M:%S}Z"
        return f"{events} of {self.day} held back by {self.rule} of {self.table} since {since}"


class StreamBatch(AuditRecord):
    at: datetime
    batch: int
    events: int
    seconds: float
    """Until raw had it, with what it waited for facts."""
    since_last: float = 0.0
    """Seconds since the one before ended; 0 for the first."""
    answer_seconds: float | None = None
    pace: float = 1.0
    slowed_down: str = ""
    """Why it reads more slowly, or empty."""
    publication: str = ""
    days: tuple[date, ...] = ()
    delays: dict[str, Delays] = {}  # noqa: RUF012 - a field of pydantic, which copies it
    """Until readers of raw had the events, keyed by its name."""

    def __str__(self) -> str:
        slow = f"; slowed down: {self.slowed_down}" if self.slowed_down else ""
        events = format_count(self.events, "event")
        return f"batch {self.batch}: {events} in {self.seconds:.1f} s{_until(self.delays)}{slow}"


class FollowedBatches(AuditRecord):
    """One following: it takes all batches that raw has gained since the one before."""

    at: datetime
    batches: int
    events: int
    """Those that readers of facts have by it, also of earlier batches; none of days that wait."""
    seconds: float
    delays: dict[str, Delays] = {}  # noqa: RUF012 - a field of pydantic, which copies it
    """Until readers of the last table that follows had the events, keyed by its name."""
    held_back: str = ""

    def __str__(self) -> str:
        held = f"; {self.held_back}" if self.held_back else ""
        events = f"{format_count(self.events, 'event')} in {self.seconds:.1f} s"
        return f"{format_count(self.batches, 'batch')} followed: {events}{_until(self.delays)}{held}"


def _until(delays: Mapping[str, Delays]) -> str:
    return "".join(f"; in {table} after {each}" for table, each in delays.items())


class StreamStatus(AuditRecord):
    """State at the last beat; kept until the next stream begins."""

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
    batches: int = 0
    last: StreamBatch | None = None
    followed: FollowedBatches | None = None
    delays: dict[str, Delays] = {}  # noqa: RUF012 - a field of pydantic, which copies it
    """Delays of the last minutes, in raw and in the last table that follows."""
    boundary: str = ""
    held_back: tuple[HeldEvents, ...] = ()
    note: str = ""
    error: str = ""

    @property
    def events_per_second(self) -> float:
        """Of the last batch; batches may lie apart."""
        seconds = max(self.last.seconds, self.last.since_last) if self.last else 0.0
        return round(self.last.events / seconds, 1) if self.last and seconds else 0.0

    @property
    def ended(self) -> bool:
        return self.state in _ENDED

    @property
    def lag(self) -> int | None:
        """Returns None if a partition's end is unknown."""
        lags = [each.lag for each in self.positions]
        return None if None in lags or not lags else sum(lag or 0 for lag in lags)

    def is_running(self, now: datetime) -> bool:
        return not self.ended and self.until > now and not self.holder.is_gone()


@dataclass
class StreamLease:
    storage: Storage
    status: StreamStatus
    number: int = -1
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _lost: AnotherStreamRuns | None = None

    def beat(self, **changes: Any) -> StreamStatus:
        """Renew the lease and write the status. Raises :class:`AnotherStreamRuns`.

        A table that another stream took and left is taken again.
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
        newest = self._claims.newest()
        return None if newest is None or newest.number == self.number else self._refusal(newest)

    def _refusal(self, newest: Numbered | None) -> AnotherStreamRuns | None:
        found = _status(self._claims, newest)
        if found is None or not found.is_running(clock.now()):
            return None
        return refusal(found) if self.number < 0 else overtaken(self.status, found)

    def note(self, **changes: Any) -> None:
        """Raises :class:`AnotherStreamRuns`."""
        with self._lock:
            if self._lost:
                raise self._lost
            self.status = self.status.model_copy(update=changes)

    def release(self, error: str = "") -> None:
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
        """Renew the lease in a thread, as a batch may outlast it. A lost table is reported by the next beat."""
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
            # What ended the block matters more than a full disk now: an unreleased lease expires.
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
    """Raises :class:`AnotherStreamRuns`; of two at once one gets the lease. What was held back is carried over."""
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
    since, holder = f"{running.started:%Y-%m-%d %H:%M:%S}Z", running.holder
    stop = f"terminate its run {holder.run} in the UI" if holder.run else f"kill -INT {holder.pid} on {holder.host}"
    return AnotherStreamRuns(
        f"A stream of {running.table} runs already: {holder}, from {running.source}, since {since}. "
        "This one has read nothing.",
        hint=f"Stop that one first ({stop}), or let it run.",
    )


def overtaken(status: StreamStatus, running: StreamStatus) -> AnotherStreamRuns:
    kept = f"{format_count(status.events, 'event')} in {format_count(status.batches, 'batch')}"
    return AnotherStreamRuns(
        f"{running.holder} has streamed into {running.table} since {running.started:%Y-%m-%d %H:%M:%S}Z, while this"
        f" process was suspended: this stream ends, and what it published stays ({kept}).",
        hint="Nothing is lost: the other one reads on from where raw ends.",
    )


def read_stream(storage: Storage, table: str) -> StreamStatus | None:
    """Returns None if there was none, or if its file is damaged."""
    claims = _claims(storage, table)
    return _status(claims, claims.newest())


def still_held(held: Iterable[HeldEvents], raw: str, states: Mapping[TableDay, DayState]) -> list[HeldEvents]:
    """Updates event counts, and drops days published since."""
    counted = ((each, rows_not_built(states, raw, each.table, each.day)) for each in held)
    return [each.model_copy(update={"events": events}) for each, events in counted if events]


def held_back(storage: Storage, states: Mapping[TableDay, DayState]) -> list[HeldEvents]:
    return [each for status in read_streams(storage) for each in still_held(status.held_back, status.table, states)]


def read_streams(storage: Storage) -> list[StreamStatus]:
    return [status for table in storage.folders(STREAMS) if (status := read_stream(storage, table))]


def _status(claims: Series[StreamStatus], claim: Numbered | None) -> StreamStatus | None:
    try:
        return claims.value(claim) if claim else None
    except LakehouseUnusable:
        return None


def _claims(storage: Storage, table: str) -> Series[StreamStatus]:
    return Series(storage, f"{STREAMS}/{table}", StreamStatus)
