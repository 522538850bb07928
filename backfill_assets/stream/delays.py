"""How late events are published: from the moment that a source received them until readers see them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from backfill_assets.text import format_count

_REMEMBERED = 600


@dataclass(frozen=True)
class Delays:
    """The delay of published events in seconds: half of them took at most ``p50``, 99 of 100 at most ``p99``."""

    p50: float
    p99: float

    def __str__(self) -> str:
        return f"delay p50 {self.p50:.1f} s, p99 {self.p99:.1f} s"


@dataclass
class RecentDelays:
    """The delays of the last batches, each with its events."""

    _batches: deque[tuple[int, Delays]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def add(self, events: int, delays: Delays) -> None:
        if events:
            self._batches.append((events, delays))

    def summary(self) -> Delays | None:
        """Over the events of all batches that are remembered; None without any.

        Of a batch, 98 of 100 events count with its p50 and the others with its p99: no more of it is kept.
        """
        if not self._batches:
            return None
        weighted = [
            (value, events * share)
            for events, each in self._batches
            for value, share in ((each.p50, 0.98), (each.p99, 0.02))
        ]
        return Delays(_percentile(weighted, 0.5), _percentile(weighted, 0.99))


def _percentile(weighted: Iterable[tuple[float, float]], share: float) -> float:
    ordered = sorted(weighted)
    wanted, seen = share * sum(weight for _, weight in ordered), 0.0
    for value, weight in ordered:
        seen += weight
        if seen >= wanted:
            return value
    return ordered[-1][0]


def describe_batch(number: int, events: int, seconds: float, delays: Delays | None, slowed_down: str = "") -> str:
    """One line about a batch, for people; ``slowed_down`` says why the stream reads more slowly, if it does."""
    late = f", {delays}" if delays else ""
    slow = f"; slowed down: {slowed_down}" if slowed_down else ""
    return f"batch {number}: {format_count(events, 'event')} in {seconds:.1f} s{late}{slow}"
