"""The order in which a campaign stages its days. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from backfill_assets.days import Cadence
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.graph import Days
from backfill_assets.plan.records import PlannedStep

_NAMES = ("canary", "pilot", "half", "all")
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) *%")
Reading = Callable[[PlannedStep, Collection[date]], Days]
"""What days of a step read, by table."""


@dataclass(frozen=True)
class Wave:
    """Days of daily tables. ``so_far`` includes earlier waves."""

    name: str
    number: int
    days: tuple[date, ...]
    so_far: tuple[date, ...]


@dataclass(frozen=True)
class Shares:
    """Percent of all days staged by the end of each wave."""

    percents: tuple[Decimal, ...] = (Decimal(1), Decimal(10), Decimal(50), Decimal(100))

    @classmethod
    def parse(cls, text: str) -> Shares:
        """``1%,10%,50%,100%``; raises :class:`InvalidRequest` if they do not ascend to 100."""
        percents = tuple(map(_percent, text.split(",")))
        if percents[-1] != 100 or any(after <= before for before, after in itertools.pairwise(percents)):
            raise InvalidRequest(f"The waves {text!r} do not ascend to 100%.", hint="Write them as 1%,10%,50%,100%.")
        return cls(percents)

    def __str__(self) -> str:
        return ",".join(f"{_written(each)}%" for each in self.percents)


def waves(days: Iterable[date], shares: Shares = Shares()) -> list[Wave]:
    """Newest days first, because people look at these first. A wave's days are neighbours, so that one run can take
    them.
    """
    newest_first = sorted(set(days), reverse=True)
    found: list[Wave] = []
    done = 0
    for number, percent in enumerate(shares.percents):
        until = max(1, math.ceil(len(newest_first) * percent / 100)) if newest_first else 0
        if until > done:
            name = _NAMES[number] if shares == Shares() else f"{_written(percent)} percent"
            fresh, so_far = newest_first[done:until], newest_first[:until]
            found.append(Wave(name, len(found), tuple(sorted(fresh)), tuple(sorted(so_far))))
            done = until
    return found


def days_of_wave(steps: Sequence[PlannedStep], wave: Wave) -> dict[str, tuple[date, ...]]:
    """Days by step, up to ``wave``. A week or month comes with its last planned day: earlier, it would mix logics.
    Without daily tables, waves are of periods.
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


def ahead_of_turn(
    steps: Sequence[PlannedStep], days: Mapping[str, tuple[date, ...]], reads: Reading
) -> dict[str, tuple[date, ...]]:
    """``days`` of a wave with the planned days that they read, directly or not: the newest day is staged once, and not
    again when an earlier one that it looks back to has its turn. ``steps`` are in build order.
    """
    found = {name: set(of_step) for name, of_step in days.items()}
    owners = {table: step for step in steps for table in step.tables}
    for step in reversed(steps):
        for table, read in reads(step, found.get(step.name, ())).items():
            if (owner := owners.get(table)) and (planned := set(owner.days).intersection(read)):
                found.setdefault(owner.name, set()).update(planned)
    return {step.name: tuple(sorted(found[step.name])) for step in steps if step.name in found}


def daily_days(steps: Iterable[PlannedStep]) -> set[date]:
    return {day for step in steps if step.cadence is Cadence.DAILY and step.kind == "rebuild" for day in step.days}


def _percent(text: str) -> Decimal:
    found = _SHARE.fullmatch(text.strip())
    percent = Decimal(found[1]) if found else Decimal(0)
    if not 0 < percent <= 100:
        raise InvalidRequest(f"The wave {text.strip()!r} is no share of the days.", hint="Write it as 10%.")
    return percent


def _written(percent: Decimal) -> str:
    return f"{percent.normalize():f}"
