"""What a check said of a day when it failed: a watchdog, or the gates of a run or of a stream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from backfill_assets.quality.watchdogs import CONTENT, FILES

_NUMBER = re.compile(r"(?<![\w.,])[+-]?\d[\d,]*(?:\.\d+)?(?![\w.]*\w)")


@dataclass(frozen=True)
class Disagreement:
    """A rule of the watchdog that failed on a published day."""

    rule: str
    expected: str
    observed: str

    def __str__(self) -> str:
        """With by how much, where each side names one number."""
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
    """A watchdog that failed, and what it looked at: it says nothing about what was published since."""

    table: str
    day: date
    publication: str
    physical: str
    broken: tuple[str, ...] = (CONTENT,)
    """The rules that failed."""
    lost: bool = False
    """Files of it are gone or damaged."""
    disagreements: tuple[Disagreement, ...] = ()
    """What these rules expected and observed."""
    beside: str = ""
    """A digest of what its sums were compared with; empty where that is not known."""

    @property
    def holds_others(self) -> bool:
        """Its files or rows are not those of its publication."""
        return not {FILES, CONTENT}.isdisjoint(self.broken)

    @property
    def differs(self) -> bool:
        """It is not what was published: more than a sum that disagrees."""
        return self.lost or self.holds_others


@dataclass(frozen=True)
class HeldByGates:
    """What the gates said of a day when it was built last and was not published."""

    words: str
    made_of: str = ""
    """The input fingerprint of what was built; empty where that is not known."""
    run: str = ""
    """The run that built it."""


@dataclass(frozen=True)
class HeldByStream:
    """What a gate keeps of a day that a stream has read into raw."""

    words: str
    events: int
    """In raw, and in no table that follows."""
    since: datetime
    release: str = ""
    """The command that publishes the day all the same; empty if its gate has none."""
    shown_by: str = ""
    """The command that shows what was rejected; empty if no row was."""
    run: str = ""
    """The run of the stream."""
    evidence: str = ""
    """The same however many events come."""
