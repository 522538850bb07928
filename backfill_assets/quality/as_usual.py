"""Whether a day is as usual, by the recent past in the publication log. Pure.

A figure is compared with its weekday's median; the tolerance comes from median deviations, which a few bad days hardly
move. Except at origins, a figure is a share of the input's rows: a quiet day is unusual once.
"""

from __future__ import annotations

import math
from calendar import day_name
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median
from typing import Literal

from backfill_assets.days import Cadence
from backfill_assets.model.declaration import FROM, OWN, Metrics, RuleOutcome, Step, Table
from backfill_assets.model.deletion import count_standing
from backfill_assets.text import format_count

RULE = "as_usual"
Counts = Literal["", "events", "groups"]
DaysMetrics = Mapping[date, Metrics]

_PERIODS = 56
_LEAST_SAME, _LEAST = 4, 12
_LONGEST_DAYS = {Cadence.DAILY: 1, Cadence.WEEKLY: 7, Cadence.MONTHLY: 31}
_OF_NORMAL = 1.4826
"""The standard deviation, if the median deviation is 1."""
_LEAST_SHARE = 0.01
"""Constant figures may begin to vary."""
_WORTH_A_NOTE = 0.05
_WEEKDAYS = tuple(day_name)
_NEXT_STEP = (
    "Compare the day with its source. If it is right, there is nothing to do: it is part of the past from now on. If "
    "the table varies more than that, set a greater unusual_beyond."
)


@dataclass(frozen=True)
class Figure:
    metric: str
    per: str = ""
    counts: Counts = ""
    """Deviate by at least the square root of n: ``events`` of the day's rows, ``groups`` of the usual rows."""

    @property
    def name(self) -> str:
        of = self.per.removeprefix(FROM).removesuffix("rows").removesuffix(".")
        return self.metric.removeprefix("total_") + " per row" * bool(self.per) + f" of {of}" * bool(of)

    def of(self, day: Metrics) -> float | None:
        """Returns None if not measured, or without rows."""
        of = _standing(day, self.per or "rows")
        value = _standing(day, self.metric)
        return None if value is None or not of else value / of if self.per else value

    def rows(self, day: Metrics) -> float:
        return (_standing(day, self.per) or 1.0) if self.per else 1.0

    def least_deviation(self, centre: float, day: Metrics, past: Iterable[Metrics]) -> float:
        if not self.counts:
            return abs(centre) * _LEAST_SHARE
        rows = self.rows(day) if self.counts == "events" else median(map(self.rows, past))
        return math.sqrt(max(centre * rows, 1.0)) / rows


def figures_of(table: Table, step: Step) -> tuple[Figure, ...]:
    """Volume, totals and steady counts, without totals that must agree with another table."""
    per = "rows" if step.is_origin else f"{FROM}{step.version().reads[0].table}.rows"
    kind: Counts = "events" if table.layer == "quarantine" else "groups" if table.layer == "report" else ""
    volume = Figure("rows") if step.is_origin else Figure("rows", per, kind)
    elsewhere = {name for rule in table.rules if rule.tables for name in rule.needs.get(OWN, ())}
    totals = [Figure(name, per) for name in (f"total_{each}" for each in table.totals) if name not in elsewhere]
    counted = [Figure(name, per, "events") for rule in table.rules for name in rule.steady]
    return volume, *totals, *counted


@dataclass(frozen=True)
class Band:
    centre: float
    reach: float

    def holds(self, value: float) -> bool:
        return abs(value - self.centre) <= self.reach


def learn(same: Sequence[float], kinds: Iterable[Sequence[float]], beyond: float, least: float = 0.0) -> Band:
    """Deviations of all ``kinds`` from their own medians."""
    deviations = [abs(each - centre) for values in kinds for centre in [median(values)] for each in values]
    return Band(median(same), beyond * max(_OF_NORMAL * median(deviations), least))


@dataclass(frozen=True)
class Finding:
    figure: Figure
    value: float
    band: Band | None
    compared_with: str

    @property
    def passed(self) -> bool:
        return self.band is None or self.band.holds(self.value)

    @property
    def usual(self) -> str:
        if self.band is None:
            return f"nothing learned yet: {self.compared_with}"
        centre, reach = self.band.centre, self.band.reach
        low = centre - reach if centre < 0 else max(centre - reach, 0.0)
        of = f"median {_number(centre)} of {self.compared_with}"
        return f"{_number(low)} to {_number(centre + reach)} ({of})"


def findings(table: Table, step: Step, days: DaysMetrics, day: date) -> list[Finding]:
    """By days before ``day``."""
    beyond = table.unusual_beyond or math.inf
    return [
        Finding(figure, value, *_band(figure, days, day, step.cadence, beyond))
        for figure in figures_of(table, step)
        if (value := figure.of(days[day])) is not None
    ]


def judge(table: Table, step: Step, days: DaysMetrics, day: date) -> RuleOutcome | None:
    """A warning, if the table is compared."""
    if table.unusual_beyond is None:
        return None
    found = findings(table, step, days, day)
    unusual = [each for each in found if not each.passed]
    words = [(f"{each.figure.name} {_number(each.value)}", each.usual) for each in unusual or found[:1]]
    if found and not unusual and (short := fewer_rows(step, days, day)):
        words = [(f"{words[0][0]}, {short}", words[0][1])]
    passed = not unusual
    if not found:
        # No rows, no figures: unusual only for a source that always had rows on such days.
        kind = _kind(day, step.cadence)
        same = [_rows(days[each]) for each in _past(days, day, step.cadence) if _kind(each, step.cadence) == kind]
        passed = step.source is None or len(same) < _LEAST_SAME or not all(same)
        words = [("no rows", "" if passed else f"rows, as on each of the {format_count(len(same), kind)} before")]
    observed, expected = ("; ".join(each) for each in zip(*words, strict=True))
    return RuleOutcome(RULE, "consistency", passed, observed, expected, "" if passed else _NEXT_STEP, "warning")


def fewer_rows(step: Step, days: DaysMetrics, day: date, least: float = _WORTH_A_NOTE) -> str:
    """Only a note: a tenth may be missing, but days vary by more."""
    kind = _kind(day, step.cadence)
    same = [days[each] for each in _past(days, day, step.cadence) if _kind(each, step.cadence) == kind]
    usual, rows = median(map(_rows, same)) if len(same) >= _LEAST_SAME else 0.0, _rows(days[day])
    if step.source is None or usual <= 0 or usual - rows < least * usual:
        return ""
    return f"{1 - rows / usual:.0%} fewer rows than usual on a {kind} (median {_number(usual)})".replace("%", " %")


def _rows(day: Metrics) -> float:
    return _standing(day, "rows") or 0.0


def _standing(day: Metrics, metric: str) -> float | None:
    """Without deleted rows and deletions."""
    if (value := day.get(metric)) is None:
        return None
    of = metric.removesuffix("rows")
    counts_rows = of != metric and (not of or of.endswith("."))
    return float(count_standing(day, of) if counts_rows else value)


def _band(figure: Figure, days: DaysMetrics, day: date, cadence: Cadence, beyond: float) -> tuple[Band | None, str]:
    past = {each: days[each] for each in _past(days, day, cadence)}
    kinds: dict[str, list[float]] = {}
    for each, measured in past.items():
        if (value := figure.of(measured)) is not None:
            kinds.setdefault(_kind(each, cadence), []).append(value)
    kind = _kind(day, cadence)
    same = kinds.get(kind, [])
    compared_with = format_count(len(same), kind)
    if len(same) < _LEAST_SAME or sum(map(len, kinds.values())) < _LEAST:
        return None, compared_with
    least = figure.least_deviation(median(same), days[day], past.values())
    return learn(same, kinds.values(), beyond, least), compared_with


def _past(days: DaysMetrics, day: date, cadence: Cadence) -> list[date]:
    first = day.toordinal() - _PERIODS * _LONGEST_DAYS[cadence]
    return [each for each in map(date.fromordinal, range(first, day.toordinal())) if each in days]


def _kind(day: date, cadence: Cadence) -> str:
    return _WEEKDAYS[day.weekday()] if cadence is Cadence.DAILY else cadence.noun


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"
