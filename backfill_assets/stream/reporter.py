"""A stream's status, reported to people and programs: how late events are in raw, and in the facts.

Three threads report: the one that waits, raw's and that of the facts. What they share is behind one lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from backfill_assets import clock
from backfill_assets.errors import BackfillError
from backfill_assets.stream.batches import BatchRead, Reading
from backfill_assets.stream.delays import SHARES, Delays, Received, delays_of
from backfill_assets.stream.follower import Follower
from backfill_assets.stream.gained import Gained, GainedBatch
from backfill_assets.stream.lease import FollowedBatches, HeldEvents, StreamBatch, StreamLease

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
    """Looked at by its own thread, in what it reports."""
    _recent: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)
    _late: dict[str, Delays] = field(default_factory=dict)
    _held: tuple[HeldEvents, ...] = ()
    _boundary: str = ""
    _not_followed: list[GainedBatch] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._held = self._held_back()

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

    def slowed_down(self, why: str) -> None:
        self.lease.beat(note=why)

    def published(self, read: BatchRead, batch: StreamBatch) -> None:
        """By raw."""
        raw = self.lease.status.table
        if read.received and read.at:
            with self._lock:
                late = {raw: self._count(raw, [read.received], read.at)}
            batch = batch.model_copy(update={"delays": late})
        status = self.lease.status
        published = status.events + batch.events
        self._beat(events=published, batches=status.batches + 1, last=batch, note=batch.slowed_down)
        self.report(StreamEvent("batch", str(batch), batch.model_dump(mode="json")))

    def followed(self, gained: Gained, seconds: float) -> None:
        """By the facts. Batches count once all of their days have followed; those held back if others have."""
        table = self._last_table()
        if not table:
            return
        self._not_followed = [*self._not_followed, *gained.batches][-_REMEMBERED:]
        done = self._take_followed()
        self._beat_of_facts(
            followed := FollowedBatches(
                at=clock.now(),
                batches=len(gained.batches),
                events=sum(batch.events for batch in done),
                seconds=round(seconds, 3),
                delays=self._count_followed(table, done),
                held_back="; ".join(map(str, self._held_back())),
            )
        )
        self.report(StreamEvent("followed", str(followed), followed.model_dump(mode="json")))

    def followed_again(self) -> None:
        """By the facts, where no batch came."""
        done = self._take_followed()
        if self._count_followed(self._last_table(), done) or self._held_back() != self.lease.status.held_back:
            self._beat_of_facts(self.lease.status.followed)

    def looked(self) -> None:
        self.lease.note(positions=self.reading.positions)

    def overtaken(self) -> BackfillError | None:
        return self.lease.lost()

    def _beat_of_facts(self, followed: FollowedBatches | None) -> None:
        with self._lock:
            self._held = self._held_back()
            self.lease.beat(delays=dict(self._late), held_back=self._held, followed=followed)

    def _held_back(self) -> tuple[HeldEvents, ...]:
        return tuple(self.follower.held[day] for day in sorted(self.follower.held)) if self.follower else ()

    def _beat(self, **changes: Any) -> None:
        if not self._boundary and self.reading.is_live:
            self._boundary = self.reading.boundary_text
        with self._lock:
            self.lease.beat(
                state="live" if self.reading.is_live else "history",
                boundary=self._boundary,
                positions=self.reading.positions,
                delays=dict(self._late),
                held_back=self._held,
                error="",
                **changes,
            )

    def _take_followed(self) -> list[GainedBatch]:
        batches, self._not_followed = self._not_followed, []
        for batch in batches:
            if self._waits(batch):
                self._not_followed.append(batch)
        return [batch for batch in batches if not self._waits(batch)]

    def _waits(self, batch: GainedBatch) -> bool:
        days, follower = batch.days, self.follower
        return follower is not None and (bool(days & follower.pending) or days <= follower.held.keys())

    def _count_followed(self, table: str, done: Sequence[GainedBatch]) -> dict[str, Delays]:
        received = [batch.received for batch in done if batch.received]
        if not received:
            return {}
        with self._lock:
            return {table: self._count(table, received, clock.now())}

    def _count(self, table: str, received: Sequence[Received], at: datetime) -> Delays:
        """Returns those of ``received``, and keeps those of the last minutes."""
        weighted = [each for some in received for each in some.weighted(at)]
        recent = self._recent.setdefault(table, deque(maxlen=_REMEMBERED))
        recent.extend(weighted)
        self._late[table] = delays_of(recent)
        return delays_of(weighted)

    def _last_table(self) -> str:
        return self.follower.steps[-1].name if self.follower and self.follower.steps else ""
