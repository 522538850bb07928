"""UTC days and ranges, in which history is kept and rebuilt."""

from __future__ import annotations

import calendar
import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple

from backfill_assets.errors import InvalidRequest

_DAY, _MONTH = re.compile(r"\d{4}-\d{2}-\d{2}"), re.compile(r"\d{4}-\d{2}")
_MOST_DAYS = 36_525
"""Written ranges end here; computed ones may be longer."""
_EARLIEST, _LATEST = date(101, 1, 1), date(9899, 12, 31)
"""Days around a written one must exist."""


@lru_cache(maxsize=65_536)
def day_or_none(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def parse_day(text: str) -> date:
    """Raises :class:`InvalidRequest` unless it is ``YYYY-MM-DD``."""
    if (day := day_or_none(text)) is not None:
        return day
    raise InvalidRequest(f"{text!r} is not a day.", hint="Write days as YYYY-MM-DD, for example 2017-03-01.")


class TableDay(NamedTuple):
    """The unit of publishing. A week or month is its first day."""

    table: str
    day: date

    def __str__(self) -> str:
        return f"{self.table} {self.day}"


def by_table(keys: Iterable[tuple[str, date]]) -> dict[str, set[date]]:
    found: dict[str, set[date]] = {}
    for table, day in keys:
        found.setdefault(table, set()).add(day)
    return found


def all_days(parts: Iterable[Mapping[str, Iterable[date]]]) -> dict[str, set[date]]:
    found: dict[str, set[date]] = {}
    for part in parts:
        for table, days in part.items():
            found.setdefault(table, set()).update(days)
    return found


@dataclass(frozen=True, order=True)
class DayRange:
    """An inclusive range, written ``2017-03-01..2017-05-29``."""

    first: date
    last: date

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise InvalidRequest(
                f"The day range {self.first}..{self.last} ends before it starts.",
                hint=f"Did you mean {self.last}..{self.first}?",
            )

    @classmethod
    def parse(cls, text: str) -> DayRange:
        """``A..B`` or ``A``. Raises :class:`InvalidRequest`, also beyond a hundred years, or the calendar's end."""
        first, dots, last = text.partition("..")
        if day_or_none(first) is None or (dots and day_or_none(last) is None):
            raise _no_range(text)
        found = cls(parse_day(first), parse_day(last if dots else first))
        if len(found) > _MOST_DAYS:
            raise InvalidRequest(
                f"The day range {found} has {len(found):,} days, more than a hundred years.",
                hint="End it with yesterday at the latest.",
            )
        if found.first < _EARLIEST or found.last > _LATEST:
            raise InvalidRequest(
                f"The day range {found} is at the end of the calendar, where days before or after it do not exist.",
                hint=f"Choose days within {_EARLIEST}..{_LATEST}.",
            )
        return found

    @classmethod
    def of_months(cls, text: str) -> DayRange:
        """:meth:`parse`, or a month: ``2017-03``."""
        if not _MONTH.fullmatch(text) or day_or_none(f"{text}-01") is None:
            return cls.parse(text)
        return Cadence.MONTHLY.period(parse_day(f"{text}-01"))

    @classmethod
    def of(cls, day: date) -> DayRange:
        return cls(day, day)

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"

    def __len__(self) -> int:
        return (self.last - self.first).days + 1

    def __iter__(self) -> Iterator[date]:
        return map(date.fromordinal, range(self.first.toordinal(), self.last.toordinal() + 1))

    def __contains__(self, day: object) -> bool:
        return isinstance(day, date) and self.first <= day <= self.last

    def widened(self, *, before: int = 0, after: int = 0) -> DayRange:
        return DayRange(self.first - timedelta(days=before), self.last + timedelta(days=after))

    def split(self, length: int) -> list[DayRange]:
        if length < 1:
            raise InvalidRequest(f"A range cannot be split into pieces of {length} days.")
        starts = range(0, len(self), length)
        return [
            DayRange(self.first + timedelta(days=n), min(self.first + timedelta(days=n + length - 1), self.last))
            for n in starts
        ]


def _no_range(text: str) -> InvalidRequest:
    days = [day for each in _DAY.findall(text) if (day := day_or_none(each))]
    meant = f"Did you mean {days[0]}..{days[1]}?" if len(days) == 2 else ""
    what = "a day or a range of days" if not text or ".." in text or meant else "a day"
    return InvalidRequest(
        f"{text!r} is not {what}.", hint=meant or "Write 2017-03-01 for one day, or 2017-03-01..2017-03-07 for a range."
    )


class Cadence(enum.StrEnum):
    """Partitions, each named by its first day."""

    DAILY = "daily"
    WEEKLY = "weekly"
    """ISO weeks, Monday to Sunday."""
    MONTHLY = "monthly"

    @property
    def noun(self) -> str:
        match self:
            case Cadence.DAILY:
                return "day"
            case Cadence.WEEKLY:
                return "week"
            case Cadence.MONTHLY:
                return "month"

    def period(self, day: date) -> DayRange:
        first = self.start(day)
        match self:
            case Cadence.DAILY:
                return DayRange.of(day)
            case Cadence.WEEKLY:
                return DayRange(first, first + timedelta(days=6))
            case Cadence.MONTHLY:
                return DayRange(first, day.replace(day=calendar.monthrange(day.year, day.month)[1]))

    def starts(self, days: Iterable[date]) -> list[date]:
        return sorted(set(days) if self is Cadence.DAILY else set(map(self.start, days)))

    def start(self, day: date) -> date:
        match self:
            case Cadence.DAILY:
                return day
            case Cadence.WEEKLY:
                return day - timedelta(days=day.weekday())
            case Cadence.MONTHLY:
                return day.replace(day=1)


def contiguous(days: Iterable[date]) -> list[DayRange]:
    """The fewest ranges that cover exactly ``days``."""
    ends: list[tuple[date, date]] = []
    for day in sorted(set(days)):
        if ends and ends[-1][1].toordinal() + 1 == day.toordinal():
            ends[-1] = (ends[-1][0], day)
        else:
            ends.append((day, day))
    return [DayRange(first, last) for first, last in ends]
