"""What raw has gained and the facts have not: batches of raw that wait for the next following, which takes all. Pure.

However many wait, they are one following of the union of their days: the later it comes, the more it takes at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from backfill_assets.stream.delays import Received
from backfill_assets.text import format_count

MOST_BATCHES = 64
"""A minute of live batches: the log names what a day gained since, and is searched some 500 entries back."""
MOST_EVENTS = 100_000
"""As many as the largest batch of a topic: a following computes what it takes in one go."""

LONGEST_REST_SECONDS = 3.0


@dataclass(frozen=True)
class GainedBatch:
    days: frozenset[date]
    events: int = 0
    received: Received | None = None
    """None for rows that a killed stream had staged."""


@dataclass(frozen=True)
class Gained:
    batches: tuple[GainedBatch, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.batches)

    def plus(self, batch: GainedBatch) -> Gained:
        return Gained((*self.batches, batch))

    @property
    def days(self) -> frozenset[date]:
        return frozenset().union(*(batch.days for batch in self.batches))

    @property
    def events(self) -> int:
        return sum(batch.events for batch in self.batches)

    @property
    def too_far_ahead(self) -> str:
        """Why raw waits until the next following has taken these batches; empty if it may read on."""
        if len(self.batches) < MOST_BATCHES and self.events < MOST_EVENTS:
            return ""
        ahead = f"{format_count(len(self.batches), 'batch')} ({format_count(self.events, 'event')})"
        return f"raw is {ahead} ahead of the facts: it waits for them"


NOTHING = Gained()


def rest_for_facts(took: float, every_seconds: float) -> float:
    """Seconds that raw rests after a batch while facts are at work: as long as it ``took``, so that it leaves them half
    of the time. Batches that take less than half of the time between them do so already.
    """
    return min(took, LONGEST_REST_SECONDS) if 2 * took > every_seconds else 0.0
