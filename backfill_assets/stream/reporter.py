"""A stream's status, reported to people and programs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import Any

from backfill_assets import clock
from backfill_assets.errors import BackfillError
from backfill_assets.stream.batches import BatchRead, Reading
from backfill_assets.stream.delays import SHARES, Delays, Received, delays_of
from backfill_assets.stream.follower import Follower
from backfill_assets.stream.lease import HeldEvents, StreamBatch, StreamLease

_REMEMBERED = 600 * (len(SHARES) - 1)
"""600 batches."""


@dataclass(frozen=True)
class StreamEvent:
    kind: str
    text: str
    figures: Mapping[str, Any] = field(default_factory=dict)


Report = Callable[[StreamEvent], None]


@dataclass
class StreamReporter:
    lease: StreamLease
    reading: Reading
    report: Report
    follower: Follower | None
    _recent: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)
    _boundary: str = ""
    _not_followed: list[tuple[Received, frozenset[date]]] = field(default_factory=list)

    def started(self) -> None:
        if start := self.reading.start:
            self.report(StreamEvent("started", f"{self.lease.status.source} {start.reason}", asdict(start)))
        if self.lease.status.state == "starting":
            source = self.lease.status.source
            self.report(StreamEvent("reading", f"Reading {source}. The first batch takes longest."))
        self._beat(note="")

    def waiting(self, why: str) -> None:
        self.report(StreamEvent("waiting", f"Waiting: {why}"))
        self.lease.beat(state="waiting", note=why)

    def stopping(self, why: str) -> None:
        self.report(StreamEvent("stopping", why))

    def published(self, read: BatchRead, batch: StreamBatch) -> None:
        late: dict[str, Delays] = {}
        if read.received and read.at:
            raw = self.lease.status.table
            late[raw] = self._count(raw, read.received, read.at)
            if table := self._last_table():
                self._not_followed.append((read.received, frozenset(read.days)))
                followed = self._count_followed(table)
                late |= {table: followed} if followed else {}
        told = {"delays": late, "held_back": "; ".join(map(str, self._held_back()))}
        status, batch = self.lease.status, batch.model_copy(update=told)
        published = status.events + batch.events
        self._beat(events=published, batches=status.batches + 1, last=batch, note=batch.slowed_down)
        self.report(StreamEvent("batch", str(batch), batch.model_dump(mode="json")))

    def looked(self) -> None:
        self.lease.note(positions=self.reading.positions)

    def overtaken(self) -> BackfillError | None:
        return self.lease.lost()

    def followed(self) -> None:
        if self._count_followed(self._last_table()) or self._held_back() != self.lease.status.held_back:
            self.lease.beat(delays=self._delays(), held_back=self._held_back())

    def _held_back(self) -> tuple[HeldEvents, ...]:
        return tuple(self.follower.held[day] for day in sorted(self.follower.held)) if self.follower else ()

    def _beat(self, **changes: Any) -> None:
        if not self._boundary and self.reading.is_live:
            self._boundary = self.reading.boundary_text
        self.lease.beat(
            state="live" if self.reading.is_live else "history",
            boundary=self._boundary,
            positions=self.reading.positions,
            delays=self._delays(),
            held_back=self._held_back(),
            error="",
            **changes,
        )

    def _count_followed(self, table: str) -> Delays | None:
        """Delays of the last batch whose days have all followed; those held back count if others have."""
        followed = [received for received, days in self._not_followed if not self._waits(days)]
        self._not_followed = [each for each in self._not_followed if self._waits(each[1])][-_REMEMBERED:]
        counted = [self._count(table, received, clock.now()) for received in followed]
        return counted[-1] if counted else None

    def _waits(self, days: frozenset[date]) -> bool:
        follower = self.follower
        return follower is not None and (bool(days & follower.pending) or days <= follower.held.keys())

    def _count(self, table: str, received: Received, at: datetime) -> Delays:
        self._recent.setdefault(table, deque(maxlen=_REMEMBERED)).extend(received.weighted(at))
        return received.delays(at)

    def _delays(self) -> dict[str, Delays]:
        return {table: delays_of(recent) for table, recent in self._recent.items()}

    def _last_table(self) -> str:
        return self.follower.steps[-1].name if self.follower and self.follower.steps else ""
