"""Throttles reading of history, to protect its source: declared rates by the hour, and backing off. Pure.

Decides a micro-batch's size and the wait after it; live events are not throttled. What a batch waits for facts
(``stream/gained.py``) is no answer of the source: it counts for a declared rate alone.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from enum import StrEnum
from itertools import combinations
from statistics import median

from backfill_assets.errors import InvalidRequest
from backfill_assets.text import format_count, format_size

LIVE_BELOW_SECONDS = 60.0
REMEMBERED_BATCHES = 50
FEWEST_BATCHES = 5
SLOW = 3.0
"""So many times the usual is slow."""
NOTICEABLE_SECONDS = 0.5
"""An answer is slow only if also so much later than usual."""
RECOVERY = 1.1
"""After each good answer: seven make up for one slow one."""
LOWEST_FACTOR = 1 / 64
LONGEST_PAUSE_SECONDS = 60.0
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(k|M|G|)(i?)(B?)(?:/s)?")
_HOURS = re.compile(r"([0-2]\d:[0-5]\d)-([0-2]\d:[0-5]\d)=(.+)")
_RATE_HINT = "Write records a second, such as 2000, or bytes a second, such as 5MB."
_HOURS_HINT = "Write hours in UTC and the rate in them, such as 06:00-22:00=500."


class RateUnit(StrEnum):
    RECORDS = "records"
    BYTES = "bytes"


@dataclass(frozen=True)
class Rate:
    per_second: float
    unit: RateUnit = RateUnit.RECORDS

    def __str__(self) -> str:
        if self.unit is RateUnit.BYTES:
            return f"{format_size(round(self.per_second))}/s"
        return f"{self.per_second:,.0f} records/s" if self.per_second >= 10 else f"{self.per_second:,.1f} records/s"

    def times(self, factor: float) -> Rate:
        return replace(self, per_second=self.per_second * factor)


def parse_rate(text: str) -> Rate:
    """``2000`` records, or bytes: ``5MB``, ``512KiB``; else raises :class:`InvalidRequest`."""
    found = _RATE.fullmatch(text.strip().replace("K", "k"))
    if found is None or float(found[1]) <= 0 or (found[3] and not found[4]) or (found[3] and not found[2]):
        raise InvalidRequest(f"{text!r} is not a rate.", hint=_RATE_HINT)
    power = ("", "k", "M", "G").index(found[2])
    amount = float(found[1]) * (1024 if found[3] else 1000) ** power
    return Rate(amount, RateUnit.BYTES if found[4] else RateUnit.RECORDS)


@dataclass(frozen=True)
class RateHours:
    """Hours of the day (UTC), end exclusive; they may go over midnight."""

    first: time
    end: time
    rate: Rate

    @classmethod
    def parse(cls, text: str) -> RateHours:
        """``06:00-22:00=500``; else raises :class:`InvalidRequest`."""
        found = _HOURS.fullmatch(text.strip())
        if found is None or found[1] == found[2]:
            raise InvalidRequest(f"{text!r} has no hours with a rate.", hint=_HOURS_HINT)
        return cls(_time(found[1]), _time(found[2]), parse_rate(found[3]))

    def __str__(self) -> str:
        return f"{self.first:%H:%M}-{self.end:%H:%M} UTC"

    def __contains__(self, moment: object) -> bool:
        if not isinstance(moment, time):
            return False
        if self.first < self.end:
            return self.first <= moment < self.end
        return moment >= self.first or moment < self.end

    def overlaps(self, other: RateHours) -> bool:
        return self.first in other or other.first in self


def _time(text: str) -> time:
    try:
        return time.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(f"{text!r} is no time of the day.", hint=_HOURS_HINT) from None


@dataclass(frozen=True)
class ReadLimit:
    """Without ``rate``, other hours are unlimited."""

    rate: Rate | None = None
    hours: tuple[RateHours, ...] = ()
    most: int | None = None
    """Landed files or events at once."""

    def __post_init__(self) -> None:
        for one, other in combinations(self.hours, 2):
            if one.overlaps(other):
                raise InvalidRequest(f"The hours {one} and {other} overlap.", hint="Give each hour one rate.")
        if len({rate.unit for rate in self._rates}) > 1:
            raise InvalidRequest("One rate counts records and another one bytes.", hint="Give all in one unit.")

    @classmethod
    def parse(cls, rates: Sequence[str] = (), most: int | None = None) -> ReadLimit:
        always = next((parse_rate(text) for text in rates if "=" not in text), None)
        return cls(always, tuple(RateHours.parse(text) for text in rates if "=" in text), most)

    @property
    def _rates(self) -> Sequence[Rate]:
        return [*([self.rate] if self.rate else []), *(hours.rate for hours in self.hours)]

    @property
    def unit(self) -> RateUnit:
        return self._rates[0].unit if self._rates else RateUnit.RECORDS

    def rate_at(self, now: datetime) -> Rate | None:
        return next((hours.rate for hours in self.hours if now.time() in hours), self.rate)

    def most_in(self, seconds: float, now: datetime, usual: int) -> int:
        most, rate = self.most or usual, self.rate_at(now)
        return most if rate is None else min(most, max(1, int(rate.per_second * seconds)))

    def __str__(self) -> str:
        base = str(self.rate) if self.rate else "no limit"
        return ", ".join([base, *(f"{hours.rate} at {hours}" for hours in self.hours)])


def answer_seconds(durations_ms: Mapping[str, float]) -> float | None:
    """Only ``latestOffset`` and ``getBatch`` ask the source."""
    asked = [durations_ms[name] for name in ("latestOffset", "getBatch") if name in durations_ms]
    return sum(asked) / 1000 if asked else None


@dataclass(frozen=True)
class Pace:
    factor: float = 1.0
    pause_seconds: float = 0.0
    reason: str = ""


@dataclass
class Throttle:
    """Halves the rate when the source is slow, and recovers step by step.

    Usual is the median of recent answers, slow ones too.
    """

    limit: ReadLimit = ReadLimit()
    pace: Pace = Pace()
    _answers: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))
    _errors: int = 0

    def answered(self, seconds: float, records: int, now: datetime) -> Pace:
        usual, self._errors = self._usual_seconds(records), 0
        self._answers.append((seconds, records))
        if usual is not None and seconds > SLOW * usual and seconds > usual + NOTICEABLE_SECONDS:
            took = f"the source took {seconds:.1f} s for {format_count(records, 'record')}, usually {usual:.1f} s"
            return self._set(max(LOWEST_FACTOR, self.pace.factor / 2), took, now)
        return self._set(min(1.0, self.pace.factor * RECOVERY), "the source answers as usual again", now)

    def failed(self, error: str, now: datetime) -> Pace:
        """Half the rate, and a pause that doubles with each error in a row."""
        pause = min(LONGEST_PAUSE_SECONDS, 2.0 ** min(self._errors, 10))
        self._errors += 1
        first_line = (error.strip().splitlines() or ["no message"])[0]
        why = f"the source answered with an error ({first_line})"
        return self._set(max(LOWEST_FACTOR, self.pace.factor / 2), why, now, pause)

    def wait(self, amount: float, took: float, now: datetime, lag_seconds: float | None) -> float:
        """Seconds until the next batch, after one of ``amount`` in the limit's unit. Without a rate, half speed means
        waiting as long again. An unknown lag is history.
        """
        if lag_seconds is not None and lag_seconds < LIVE_BELOW_SECONDS:
            return 0.0
        rate = self.limit.rate_at(now)
        return max(0.0, (amount / rate.per_second if rate else took) / self.pace.factor - took)

    def _usual_seconds(self, records: int) -> float | None:
        if len(self._answers) < FEWEST_BATCHES:
            return None
        return median(seconds * max(1.0, records / max(1, of)) for seconds, of in self._answers)

    def _set(self, factor: float, why: str, now: datetime, pause_seconds: float = 0.0) -> Pace:
        rate = self.limit.rate_at(now)
        at = str(rate.times(factor)) if rate else f"{factor:.0%} of the rate"
        self.pace = Pace(factor, pause_seconds, f"{why}: reading at {at}") if factor < 1 else Pace()
        return self.pace
