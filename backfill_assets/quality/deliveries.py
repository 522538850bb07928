"""Whether a source delivered in time, and all it says it sent. Pure.

An undeclared time is learned (:mod:`backfill_assets.quality.as_usual`) from first files' delays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from pydantic import BaseModel, ConfigDict

from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.quality import as_usual
from backfill_assets.text import format_count, format_duration

DELIVERED_AS_USUAL = "delivered_as_usual"
_BEYOND = 6.0
"""In standard deviations after the median."""
_LEAST_DEVIATION = timedelta(minutes=10)
"""Punctual deliveries may begin to vary."""
_OF_HISTORY = timedelta(days=3)
"""Later first files are history or corrections."""
LEARNED_DAYS, _LEAST_SAME, _LEAST = 56, 4, 12


class Totals(BaseModel):
    """A source's rows of a day, and sums of some fields."""

    model_config = ConfigDict(frozen=True)

    rows: int
    sums: Mapping[str, Decimal] = {}

    def __str__(self) -> str:
        return ", ".join([f"rows {self.rows:,}", *(f"{name} {value:,}" for name, value in sorted(self.sums.items()))])


def as_sent(sent: Totals | None, landed: Totals, control: str) -> RuleOutcome:
    """Without the file ``control``, ``sent`` is None."""
    if sent is None:
        return _sent(str(landed), f"{control} beside the files", "Ask the source for it. The rows are taken in.")
    next_step = "Ask the source for the rest as a new file; if its totals are wrong, for a new control file."
    return _sent(str(landed), str(sent), "" if landed == sent else next_step)


def unreadable(problem: str, next_step: str) -> RuleOutcome:
    return _sent(problem, "files that can be read", next_step)


def _sent(observed: str, expected: str, next_step: str) -> RuleOutcome:
    return RuleOutcome("as_sent", "completeness", not next_step, observed, expected, next_step)


def delivered(day: date, within: timedelta, landed_at: datetime | None, now: datetime) -> RuleOutcome | None:
    """Due ``within`` a time after the day's end in UTC; None before."""
    due = _end_of(day) + within
    if landed_at is None and now < due:
        return None
    expected = f"by {due:%Y-%m-%d %H:%M} UTC"
    if landed_at is None:
        next_step = "Ask the source; if the day really has no rows, land an empty file. It passes as soon as it lands."
        return RuleOutcome("delivered", "timeliness", False, "nothing landed", expected, next_step)
    late = (landed_at - due).total_seconds()
    observed = f"landed {landed_at:%Y-%m-%d %H:%M} UTC" + (f", {format_duration(late)} late" if late > 0 else "")
    return RuleOutcome("delivered", "timeliness", True, observed, expected)


@dataclass(frozen=True)
class UsualDelivery:
    """The latest usual delay after a day's end."""

    within: timedelta
    learned_from: str


def usual_delivery(day: date, landed: Mapping[date, datetime]) -> UsualDelivery | None:
    """Returns None with fewer than four days of the weekday, or twelve in all: a source may rest on Sundays."""
    kinds: dict[int, list[float]] = {}
    for before in (day - timedelta(n) for n in range(1, LEARNED_DAYS + 1)):
        delay = landed[before] - _end_of(before) if before in landed else _OF_HISTORY
        if -timedelta(days=1) <= delay < _OF_HISTORY:
            kinds.setdefault(before.weekday(), []).append(delay.total_seconds())
    same = kinds.get(day.weekday(), [])
    if len(same) < _LEAST_SAME or sum(map(len, kinds.values())) < _LEAST:
        return None
    band = as_usual.learn(same, kinds.values(), _BEYOND, _LEAST_DEVIATION.total_seconds())
    return UsualDelivery(timedelta(seconds=round(band.centre + band.reach)), format_count(len(same), f"{day:%A}"))


def delivered_as_usual(
    day: date, usual: UsualDelivery | None, landed_at: datetime | None, now: datetime
) -> RuleOutcome | None:
    """A warning from the usual time until something lands."""
    due = _end_of(day) + usual.within if usual else None
    expected = f"usually landed by {due:%Y-%m-%d %H:%M} UTC (learned from {usual.learned_from})" if usual else ""
    if landed_at is not None:
        return RuleOutcome(
            DELIVERED_AS_USUAL, "timeliness", True, f"landed {landed_at:%Y-%m-%d %H:%M} UTC", expected, "", "warning"
        )
    if due is None or now < due:
        return None
    next_step = "Ask the source; if the day really has no rows, land an empty file. It passes as soon as it lands."
    return RuleOutcome(DELIVERED_AS_USUAL, "timeliness", False, "nothing yet", expected, next_step, "warning")


def _end_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC) + timedelta(days=1)
