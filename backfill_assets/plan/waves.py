"""In which order a campaign takes its days: a canary first, then a pilot, then half, then all. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, localcontext
from fractions import Fraction

from backfill_assets.days import Cadence
from backfill_assets.errors import InvalidRequest
from backfill_assets.plan.records import PlannedStep

_NAMES = ("canary", "pilot", "half", "all")
_MOST_PLACES = 30
_SHARE = re.compile(rf"([0-9]{{0,3}}(?:\.[0-9]{{0,{_MOST_PLACES}}})?(?:e-[0-9]{{2}})?) *%")
"""Plans have been written with small shares as ``1e-05%``."""


@dataclass(frozen=True)
class Wave:
    """Days of the daily tables. ``so_far`` has those of the waves before it as well; both ascend."""

    name: str
    number: int
    days: tuple[date, ...]
    so_far: tuple[date, ...]


@dataclass(frozen=True)
class Shares:
    """Up to which share of all days each wave goes, ascending; the last one is all of them."""

    parts: tuple[Fraction, ...] = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(1))

    @classmethod
    def parse(cls, text: str) -> Shares:
        """Of ``1%,10%,50%,100%``; raises :class:`InvalidRequest` when they do not ascend to all days."""
        parts = tuple(_share(part) for part in text.split(","))
        if parts[-1] != 1 or any(after <= before for before, after in itertools.pairwise(parts)):
            raise InvalidRequest(f"The waves {text!r} do not ascend to 100%.", hint="Write them as 1%,10%,50%,100%.")
        return cls(parts)

    def __str__(self) -> str:
        """As :meth:`parse` reads it: rounded, 99.99999% would be a second 100%."""
        return ",".join(f"{_percent(part)}%" for part in self.parts)


def waves(days: Iterable[date], shares: Shares = Shares()) -> list[Wave]:
    """``days`` in waves, each of at least one day: the newest first, since people look at them first.

    Of few days, waves that would add none are left out. Days of one wave are neighbours, so one run can carry them.
    """
    newest_first = sorted(set(days), reverse=True)
    found: list[Wave] = []
    done = 0
    for number, share in enumerate(shares.parts):
        until = max(1, math.ceil(len(newest_first) * share)) if newest_first else 0
        if until > done:
            name = _NAMES[number] if shares == Shares() else f"{_percent(share)} percent"
            fresh, so_far = newest_first[done:until], newest_first[:until]
            found.append(Wave(name, len(found), tuple(sorted(fresh)), tuple(sorted(so_far))))
            done = until
    return found


def days_of_wave(steps: Sequence[PlannedStep], wave: Wave) -> dict[str, tuple[date, ...]]:
    """The days of each step, by its name, that belong to ``wave`` and those before it.

    A week or a month is taken when all of its days that the plan rebuilds are there: before, it would mix logics. Of a
    plan without daily tables, weeks and months are in waves themselves.
    """
    planned = daily_days(steps)
    missing = planned - set(wave.so_far)
    found = {}
    for step in steps:
        if not planned:
            chosen = tuple(day for day in step.days if day in wave.so_far)
        elif step.cadence is Cadence.DAILY:
            chosen = tuple(day for day in step.days if day in wave.so_far or day not in planned)
        else:
            chosen = tuple(day for day in step.days if not missing & set(step.cadence.period(day)))
        if chosen:
            found[step.name] = chosen
    return found


def daily_days(steps: Iterable[PlannedStep]) -> set[date]:
    """Every day that the plan rebuilds of a daily table."""
    return {day for step in steps if step.cadence is Cadence.DAILY and step.kind == "rebuild" for day in step.days}


def _share(text: str) -> Fraction:
    found = _SHARE.fullmatch(text.strip())
    try:
        share = Fraction(found[1]) / 100 if found else Fraction(0)
    except ValueError:
        share = Fraction(0)
    if not 0 < share <= 1:
        raise InvalidRequest(f"The wave {text.strip()!r} is no share of the days.", hint="Write it as 10%.")
    return share


def _percent(share: Fraction) -> str:
    """All digits of a share that :func:`_share` has read."""
    percent = share * 100
    with localcontext(prec=2 * _MOST_PLACES + 100):
        return f"{(Decimal(percent.numerator) / percent.denominator).normalize():f}"
