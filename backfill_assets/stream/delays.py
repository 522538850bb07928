"""How late events are: from receipt by the source until readers see them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

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

    @classmethod
    def merged(cls, parts: Sequence[Received]) -> Received:
        """Each time stands for the share of its part's events up to the next one."""
        shares = [end - first for first, end in zip((0.0, *SHARES), (*SHARES, 1.0), strict=True)][1:]
        known = sorted((ms, share * of.events) for of in parts for ms, share in zip(of.at_ms, shares, strict=True))
        events = sum(each.events for each in parts)
        passed = [*accumulate(weight for _, weight in known)]
        at = (min(bisect_right(passed, share * passed[-1]), len(known) - 1) for share in SHARES[:-1])
        return cls(events, (*(known[number][0] for number in at), known[-1][0]))

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
