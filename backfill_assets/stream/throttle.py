"""How fast history is read, so that its source is protected: declared rates by the hour, and backing off. Pure.

Only history is throttled. What is live passes: its amount is what the source itself sends. No clock is read here: every
moment is a parameter.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from enum import StrEnum
from itertools import combinations
from statistics import median

from backfill_assets.errors import InvalidRequest
from backfill_assets.text import format_count, format_size

MOST_EVENTS = 100_000
"""A micro-batch reads no more events unless that is asked for: its rows are held in memory."""
LIVE_BELOW_SECONDS = 60.0
"""A stream that is less than this behind its source is live."""
REMEMBERED_BATCHES = 50
"""The usual response time is the median over so many batches."""
FEWEST_BATCHES = 5
"""With fewer there is no usual response time yet."""
SLOW = 3.0
"""An answer that takes so many times the usual is slow."""
NOTICEABLE_SECONDS = 0.5
"""An answer is slow only if it is also so much later than usual: below it is chance."""
RECOVERY = 1.1
"""After each good answer the rate rises by this factor: seven good answers make up for one slow one."""
LOWEST_FACTOR = 1 / 64
LONGEST_PAUSE_SECONDS = 60.0
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(k|M|G|)(i?)(B?)(?:/s)?")
_HOURS = re.compile(r"([0-2]\d:[0-5]\d)-([0-2]\d:[0-5]\d)=(.+)")
_RATE_HINT = "Write records a second, such as 2000, or bytes a second, such as 5MB."
_HOURS_HINT = "Write hours in UTC and the rate in them, such as 06:00-22:00=500."


class RateUnit(StrEnum):
    """What a rate counts."""

    RECORDS = "records"
    BYTES = "bytes"


@dataclass(frozen=True)
class Rate:
    """An amount a second, more than zero."""

    per_second: float
    unit: RateUnit = RateUnit.RECORDS

    def __str__(self) -> str:
        if self.unit is RateUnit.BYTES:
            return f"{format_size(round(self.per_second))}/s"
        return f"{self.per_second:,.0f} records/s" if self.per_second >= 10 else f"{self.per_second:,.1f} records/s"

    def times(self, factor: float) -> Rate:
        return replace(self, per_second=self.per_second * factor)


def parse_rate(text: str) -> Rate:
    """``2000`` records, or bytes with their unit: ``5MB``, ``512KiB``; anything else raises :class:`InvalidRequest`."""
    found = _RATE.fullmatch(text.strip().replace("K", "k"))
    if found is None or float(found[1]) <= 0 or (found[3] and not found[4]) or (found[3] and not found[2]):
        raise InvalidRequest(f"{text!r} is not a rate.", hint=_RATE_HINT)
    power = ("", "k", "M", "G").index(found[2])
    amount = float(found[1]) * (1024 if found[3] else 1000) ** power
    return Rate(amount, RateUnit.BYTES if found[4] else RateUnit.RECORDS)


@dataclass(frozen=True)
class RateHours:
    """Hours of the day (UTC) with a rate of their own, the end excluded: 22:00-06:00 goes over midnight."""

    first: time
    end: time
    rate: Rate

    @classmethod
    def parse(cls, text: str) -> RateHours:
        """``06:00-22:00=500``; anything else raises :class:`InvalidRequest`."""
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
    """The declared rate at which history is read. Without ``rate``, the hours that have none are not limited."""

    rate: Rate | None = None
    hours: tuple[RateHours, ...] = ()
    files_in_flight: int = 4
    """Landed files that are read at once."""
    events_in_flight: int = MOST_EVENTS
    """Events of a topic that are read at once."""

    def __post_init__(self) -> None:
        for amount, what in ((self.files_in_flight, "files"), (self.events_in_flight, "events")):
            if amount < 1:
                raise InvalidRequest(f"{amount} {what} in flight read nothing.", hint="Allow at least 1.")
        for one, other in combinations(self.hours, 2):
            if one.overlaps(other):
                raise InvalidRequest(f"The hours {one} and {other} overlap.", hint="Give each hour one rate.")
        if len({rate.unit for rate in self.rates}) > 1:
            raise InvalidRequest("One rate counts records and another one bytes.", hint="Give all in one unit.")

    @classmethod
    def parse(
        cls,
        rate: str | None = None,
        hours: Iterable[str] = (),
        files_in_flight: int = 4,
        events_in_flight: int = MOST_EVENTS,
    ) -> ReadLimit:
        """From the options of a command: ``--rate 2000 --rate 06:00-22:00=500``."""
        declared = parse_rate(rate) if rate else None
        return cls(declared, tuple(map(RateHours.parse, hours)), files_in_flight, events_in_flight)

    @property
    def rates(self) -> Sequence[Rate]:
        """Every rate that is declared."""
        return [*([self.rate] if self.rate else []), *(hours.rate for hours in self.hours)]

    @property
    def unit(self) -> RateUnit:
        return self.rates[0].unit if self.rates else RateUnit.RECORDS

    def rate_at(self, now: datetime) -> Rate | None:
        """The rate at a moment (UTC); None if it is not limited."""
        return next((hours.rate for hours in self.hours if now.time() in hours), self.rate)

    def __str__(self) -> str:
        base = str(self.rate) if self.rate else "no limit"
        return ", ".join([base, *(f"{hours.rate} at {hours}" for hours in self.hours)])


@dataclass
class TokenBucket:
    """Lets ``rate`` tokens a second pass, and after a pause ``burst`` of them at once.

    What is more than the bucket holds becomes a debt that is waited for: a file larger than the burst passes too.
    Moments are seconds of any clock; one that goes back gives no tokens.
    """

    rate: float
    burst: float
    tokens: float = field(init=False)
    _filled: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.burst < 0:
            raise InvalidRequest(f"A bucket of {self.burst} tokens at {self.rate} a second lets nothing pass.")
        self.tokens = self.burst

    def take(self, amount: float, now: float) -> float:
        """Take tokens; how many seconds to wait before using them."""
        self._fill(now)
        self.tokens -= amount
        return max(0.0, -self.tokens / self.rate)

    def change(self, rate: float, burst: float, now: float) -> None:
        """Another rate from ``now`` on: a debt is paid at the new one."""
        self._fill(now)
        self.rate, self.burst = rate, burst
        self.tokens = min(self.tokens, burst)

    def _fill(self, now: float) -> None:
        passed = 0.0 if self._filled is None else max(0.0, now - self._filled)
        self.tokens = min(self.burst, self.tokens + passed * self.rate)
        self._filled = now


def answer_seconds(durations_ms: Mapping[str, float]) -> float | None:
    """How long the source itself took, of what Spark reports of a batch; None if it was not asked.

    It is asked twice: what there is (``latestOffset``), and for the batch (``getBatch``). What is done with the rows
    afterwards says nothing about it.
    """
    asked = [durations_ms[name] for name in ("latestOffset", "getBatch") if name in durations_ms]
    return sum(asked) / 1000 if asked else None


@dataclass(frozen=True)
class BatchAnswered:
    """How long the source took for one batch."""

    seconds: float
    records: int
    batch_seconds: float
    """For all of the batch: what was done with the records too."""

    def for_records(self, records: int) -> float:
        """The seconds for so many: a larger batch takes longer in proportion, a smaller one up to as long."""
        return self.seconds * max(1.0, records / max(1, self.records))


@dataclass(frozen=True)
class Pace:
    """How to go on reading: the share of the declared rate, seconds to pause first, and why in one sentence."""

    factor: float = 1.0
    pause_seconds: float = 0.0
    """Only after an error."""
    reason: str = ""
    """Empty at the full rate."""


@dataclass
class BackOff:
    """Reads more slowly when the source does: half at once after a slow answer or an error, faster by and by.

    What is usual is the median of the last answers, slow ones too: a source that stays slow for half of them is usual.
    """

    pace: Pace = Pace()
    _answers: deque[BatchAnswered] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))
    _errors: int = 0

    def answered(
        self, seconds: float, records: int, rate: Rate | None = None, batch_seconds: float | None = None
    ) -> Pace:
        """After a batch of ``records`` that the source took ``seconds`` for; ``rate`` is the declared one.

        ``batch_seconds`` is what all of the batch took, if that is more.
        """
        answer, usual = BatchAnswered(seconds, records, batch_seconds or seconds), self.usual_seconds(records)
        self._answers.append(answer)
        self._errors = 0
        if usual is not None and seconds > SLOW * usual and seconds > usual + NOTICEABLE_SECONDS:
            took = f"the source took {seconds:.1f} s for {format_count(records, 'record')}, usually {usual:.1f} s"
            return self._slow_down(took, rate or self.usual_rate())
        return self._recover(rate or self.usual_rate())

    def failed(self, error: str, rate: Rate | None = None) -> Pace:
        """After an error of the source: half the rate, and a pause that doubles with each error in a row."""
        self._errors += 1
        first_line = (error.strip().splitlines() or ["no message"])[0]
        self._slow_down(f"the source answered with an error ({first_line})", rate or self.usual_rate())
        self.pace = replace(self.pace, pause_seconds=min(LONGEST_PAUSE_SECONDS, 2.0 ** min(self._errors - 1, 10)))
        return self.pace

    def usual_seconds(self, records: int) -> float | None:
        """How long a batch of so many usually takes; None while too few are known."""
        if len(self._answers) < FEWEST_BATCHES:
            return None
        return median(answer.for_records(records) for answer in self._answers)

    def usual_rate(self) -> Rate | None:
        """What was usually read, in records; None while too few answers are known."""
        if len(self._answers) < FEWEST_BATCHES:
            return None
        return Rate(median(max(1, each.records) / max(1e-3, each.batch_seconds) for each in self._answers))

    def _slow_down(self, why: str, rate: Rate | None) -> Pace:
        factor = max(LOWEST_FACTOR, self.pace.factor / 2)
        self.pace = Pace(factor, reason=f"{why}: reading at {_share(rate, factor)}")
        return self.pace

    def _recover(self, rate: Rate | None) -> Pace:
        factor = min(1.0, self.pace.factor * RECOVERY)
        again = f"the source answers as usual again: reading at {_share(rate, factor)}"
        self.pace = Pace(factor, reason=again) if factor < 1 else Pace()
        return self.pace


def _share(rate: Rate | None, factor: float) -> str:
    return str(rate.times(factor)) if rate else f"{factor:.0%} of the rate"


@dataclass
class Throttle:
    """The limit, the bucket and the backing off of one stream, together.

    Before reading an amount: :meth:`wait`. After the source has answered: ``back_off.answered`` or ``failed``.
    """

    limit: ReadLimit = ReadLimit()
    back_off: BackOff = field(default_factory=BackOff)
    live_below_seconds: float = LIVE_BELOW_SECONDS
    burst_seconds: float = 1.0
    """The bucket holds what passes in so many seconds."""
    _bucket: TokenBucket | None = None

    def is_history(self, lag_seconds: float | None) -> bool:
        """Whether what is read is history, and so throttled; an unknown lag is."""
        return lag_seconds is None or lag_seconds >= self.live_below_seconds

    def rate(self, now: datetime) -> Rate | None:
        """The rate of this moment, backed off; None if nothing limits it."""
        declared, factor = self.limit.rate_at(now), self.back_off.pace.factor
        if declared is None and factor < 1:
            declared = self._usual_rate()
        return declared and declared.times(factor)

    def _usual_rate(self) -> Rate | None:
        """What is backed off from in hours without a rate; in the limit's unit."""
        if self.limit.unit is RateUnit.BYTES:
            return max(self.limit.rates, key=lambda rate: rate.per_second)
        return self.back_off.usual_rate()

    def wait(self, amount: float, now: datetime, lag_seconds: float | None) -> float:
        """Seconds to wait before reading ``amount`` records or bytes (the limit's unit); 0 for what is live."""
        rate = self.rate(now) if self.is_history(lag_seconds) else None
        if rate is None:
            return 0.0
        return self._filled(rate, now.timestamp()).take(amount, now.timestamp())

    def most_in(self, seconds: float, now: datetime, lag_seconds: float | None = None) -> int | None:
        """The most records (or bytes) of a batch every ``seconds``, at least 1; None if it is not limited."""
        rate = self.rate(now) if self.is_history(lag_seconds) else None
        return None if rate is None else max(1, int(rate.per_second * seconds))

    def _filled(self, rate: Rate, now: float) -> TokenBucket:
        burst = rate.per_second * self.burst_seconds
        if self._bucket is None:
            self._bucket = TokenBucket(rate.per_second, burst)
        self._bucket.change(rate.per_second, burst, now)
        return self._bucket
