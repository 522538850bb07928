"""How late events are: from receipt by the source until readers see them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

SHARES = (0.0, 0.002, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Quantiles of a batch's times, oldest first; dense where they decide the 99th percentile."""


@dataclass(frozen=True)
class Delays:
    p50: float
    p99: float

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f} s, p99 {self.p99:.1f} s"


@dataclass(frozen=True)
class Received:
    """Receipt times of a batch at :data:`SHARES`, in milliseconds since 1970."""

    events: int
    at_ms: tuple[int, ...]

    @classmethod
    def of(cls, events: int, times_ms: Iterable[int]) -> Received:
        times = sorted(times_ms)
        return cls(events, tuple(times[min(len(times) - 1, int(share * len(times)))] for share in SHARES))

    def weighted(self, now: datetime) -> list[tuple[float, float]]:
        """Seconds and number of events; never below 0, as clocks of two machines may differ."""
        at = now.timestamp() * 1000
        shares = zip(SHARES, SHARES[1:], self.at_ms, strict=False)
        return [(max(0.0, (at - ms) / 1000), self.events * (end - first)) for first, end, ms in shares]

    def delays(self, now: datetime) -> Delays:
        return delays_of(self.weighted(now))


def delays_of(weighted: Iterable[tuple[float, float]]) -> Delays:
    ordered = sorted(weighted)
    return Delays(_percentile(ordered, 0.5), _percentile(ordered, 0.99))


def _percentile(ordered: list[tuple[float, float]], share: float) -> float:
    wanted, seen = share * sum(weight for _, weight in ordered), 0.0
    for value, weight in ordered:
        seen += weight
        if seen >= wanted:
            return value
    return ordered[-1][0]
