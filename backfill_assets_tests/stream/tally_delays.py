"""How late events were in the facts, from two records alone: what the producer had sent when, and the publication log.

The share of winners among the events is the same all the time, so a count of facts is the count of events behind it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets_tests.protocol.audit import log_rows

_SAMPLES = 20
"""Of the events that one publication made visible."""


@dataclass(frozen=True)
class Visible:
    """From ``at`` on (seconds since 1970), readers saw ``rows`` of a table."""

    at: float
    rows: int


@dataclass(frozen=True)
class DelayedEvents:
    """``events`` that became visible ``at`` this moment, ``delay`` seconds after they were sent."""

    at: float
    delay: float
    events: float


@dataclass
class SentCurve:
    """How many events were sent by when: one point each time it was looked at."""

    moments: list[float] = field(default_factory=list)
    events: list[int] = field(default_factory=list)

    def add(self, moment: float, events: int) -> None:
        if not self.events or events > self.events[-1]:
            self.moments.append(moment)
            self.events.append(events)

    def sent_at(self, number: float) -> float:
        """When event ``number`` was sent: between two points, as if they came evenly."""
        place = min(max(bisect_left(self.events, number), 1), len(self.events) - 1)
        low, high = self.events[place - 1], self.events[place]
        share = min(1.0, max(0.0, (number - low) / (high - low)))
        return self.moments[place - 1] + share * (self.moments[place] - self.moments[place - 1])


def visible_rows(storage: Storage, table: str, beside: str) -> Iterator[Visible]:
    """How many rows ``table`` had after each publication that also brought ``beside``, all days together."""
    by_day: dict[str, int] = {}
    log = PublicationLog(storage)
    columns = ["sequence", "at", "event", "table", "day", "rows"]
    entries: dict[int, list[dict[str, object]]] = {}
    for row in log_rows(log, "published", columns=columns):
        entries.setdefault(int(str(row["sequence"])), []).append(row)
    for _, rows in sorted(entries.items()):
        for row in rows:
            if row["table"] == table:
                by_day[str(row["day"])] = int(str(row["rows"] or 0))
        if any(row["table"] == beside for row in rows):
            at = rows[0]["at"]
            yield Visible(at.timestamp(), sum(by_day.values()))  # type: ignore[attr-defined]


def delayed(steps: Sequence[Visible], sent: SentCurve, events_a_row: float) -> Iterator[DelayedEvents]:
    """The delay of what each step made visible; ``events_a_row`` events are behind each row."""
    seen = 0.0
    for step in steps:
        now = step.rows * events_a_row
        for part in range(_SAMPLES if now > seen else 0):
            number = seen + (part + 0.5) / _SAMPLES * (now - seen)
            yield DelayedEvents(step.at, max(0.0, step.at - sent.sent_at(number)), (now - seen) / _SAMPLES)
        seen = max(seen, now)


def percentile(found: Sequence[DelayedEvents], share: float) -> float | None:
    """The delay in seconds that ``share`` of the events did not exceed; None without events."""
    ordered = sorted(found, key=lambda each: each.delay)
    left = share * sum(each.events for each in ordered)
    for each in ordered:
        left -= each.events
        if left <= 0:
            return each.delay
    return ordered[-1].delay if ordered else None
