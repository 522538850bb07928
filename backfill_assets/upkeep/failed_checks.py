"""What a failed check said of a day: a watchdog, or gates of a run or stream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from backfill_assets.quality.watchdogs import CONTENT, FILES

_NUMBER = re.compile(r"(?<![\w.,])[+-]?\d[\d,]*(?:\.\d+)?(?![\w.]*\w)")


@dataclass(frozen=True)
class Disagreement:
    rule: str
    expected: str
    observed: str

    def __str__(self) -> str:
        by = _apart(self.expected, self.observed)
        return f"{self.rule}: expected {self.expected}, observed {self.observed}{f' ({by})' if by else ''}"


def _apart(expected: str, observed: str) -> str:
    sides = [_NUMBER.findall(text) for text in (observed, expected)]
    if any(len(numbers) != 1 for numbers in sides):
        return ""
    left, right = (Decimal(numbers[0].replace(",", "")) for numbers in sides)
    return f"{left - right:+,}"


@dataclass(frozen=True)
class FailedWatch:
    """A failed watchdog; it says nothing of later publications."""

    table: str
    day: date
    publication: str
    physical: str
    broken: tuple[str, ...] = (CONTENT,)
    lost: bool = False
    disagreements: tuple[Disagreement, ...] = ()
    beside: str = ""

    @property
    def holds_others(self) -> bool:
        return not {FILES, CONTENT}.isdisjoint(self.broken)

    @property
    def differs(self) -> bool:
        """Whether the day is not as published, which is worse than a sum that disagrees."""
        return self.lost or self.holds_others


@dataclass(frozen=True)
class NotRun:
    """The day's run ended before its gates were judged; ``held_back``: because of a gate of another day or table."""

    run: str
    held_back: bool = False


@dataclass(frozen=True)
class HeldByGates:
    words: str
    made_of: str = ""
    run: str = ""


@dataclass(frozen=True)
class HeldByStream:
    """A day whose events a gate keeps in a stream's raw table."""

    words: str
    events: int
    since: datetime
    release: str = ""
    shown_by: str = ""
    run: str = ""
    evidence: str = ""
    """Stays when more events come."""
