"""Charts of a difference by period: sums before and after, their change, what became of rows. Pure.

SVG without scripts, for browsers, paper and screen readers; patterns repeat colours. A single period is a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.days import Cadence
from backfill_assets.difference.difference import ROWS, RowCounts, Sums, TableCompared
from backfill_assets.difference.verdict import change, unit
from backfill_assets.report.answer import Chart
from backfill_assets.text import amount, column_label, format_count, percent, period

if TYPE_CHECKING:
    from jinja2 import Template

WIDTH, HEIGHT = 560, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 10, 10, 24
_LENGTH_DAYS = {Cadence.DAILY: 1, Cadence.WEEKLY: 7, Cadence.MONTHLY: 30}
_BAR_SHARE = 0.8
_MOST_LABELS, _MOST_TICKS = 5, 4
_DOTS_UP_TO = 45
BEFORE, AFTER, UP, DOWN = "before", "after", "up", "down"
ROW_LOOKS = ("unchanged", "changed", "added", "removed")


@dataclass(frozen=True)
class AxisTick:
    at: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True)
class PeriodBar:
    look: str
    x: float
    y: float
    width: float
    height: float
    tip: str


@dataclass(frozen=True)
class SumLine:
    look: str
    points: tuple[tuple[float, float, str], ...]
    dots: bool

    @property
    def path(self) -> str:
        return " ".join(f"{x},{y}" for x, y, _ in self.points)


@dataclass(frozen=True)
class PeriodChart:
    title: str
    words: str
    x_ticks: tuple[AxisTick, ...]
    y_ticks: tuple[AxisTick, ...]
    bars: tuple[PeriodBar, ...] = ()
    lines: tuple[SumLine, ...] = ()
    legend: tuple[str, ...] = ()
    zero: float | None = None
    right: float = WIDTH - _RIGHT
    left: float = _LEFT


def charts_of(table: TableCompared) -> list[Chart]:
    return [
        Chart(chart.title, _template().render(chart=chart, width=WIDTH, height=HEIGHT).strip(), chart.words)
        for chart in period_charts(table)
    ]


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("chart.svg")


def period_charts(table: TableCompared) -> list[PeriodChart]:
    if len(table.days) < 2:
        return []
    changing = [measure for measure in table.measures if any(day.of(measure).change for day in table.days)]
    found = [chart for measure in changing for chart in (sums_chart(table, measure), change_chart(table, measure))]
    return [chart for chart in (*found, rows_chart(table)) if chart is not None]


def period_sentences(table: TableCompared) -> list[str]:
    if len(table.days) != 1:
        return []
    (day,) = table.days
    name = period([day.day], table.cadence)
    sums = [
        f"{name}: {column_label(measure)} {amount(found.before)} before, {amount(found.after)} after ({change(found)})."
        for measure in (*table.measures, ROWS)
        if (found := day.of(measure)).differs
    ]
    return [*sums, f"{name}: rows: {_counts(day.rows)}."]


def sums_chart(table: TableCompared, measure: str) -> PeriodChart | None:
    known = [(day.day, found) for day in table.days if (found := day.of(measure)).change is not None]
    if len(known) < 2:
        return None
    values = [float(value or 0) for _, found in known for value in (found.before, found.after)]
    x, (y, y_ticks) = _x_of(table), _y_axis(min(values), max(values), _short)
    name = column_label(measure)

    def line(look: str, side: Callable[[Sums], Decimal | None]) -> SumLine:
        points = (
            (x(day), y(float(side(found) or 0)), f"{_name(day, table)}: {amount(side(found))} {look}")
            for day, found in known
        )
        return SumLine(look, tuple(points), dots=len(known) <= _DOTS_UP_TO)

    total = table.total(measure)
    return PeriodChart(
        title=f"{name} by {unit(table)}",
        words=f"{name} by {unit(table)}, together {amount(total.before)} before and {amount(total.after)} after.",
        x_ticks=_x_ticks(table, x),
        y_ticks=y_ticks,
        lines=(line(BEFORE, lambda found: found.before), line(AFTER, lambda found: found.after)),
        legend=(BEFORE, AFTER),
    )


def change_chart(table: TableCompared, measure: str) -> PeriodChart | None:
    known = [(day.day, found, found.share) for day in table.days if (found := day.of(measure)).share is not None]
    if len(known) < 2:
        return None
    shares = [float(share) * 100 for _, _, share in known]
    x, (y, y_ticks) = _x_of(table), _y_axis(min(0.0, *shares), max(0.0, *shares), _percent_text)
    width, zero = _bar_width(table), y(0.0)
    bars = tuple(
        PeriodBar(
            look=UP if share > 0 else DOWN,
            x=round(x(day) - width / 2, 1),
            y=min(zero, y(share)),
            width=width,
            height=round(abs(zero - y(share)), 1),
            tip=f"{_name(day, table)}: {found.change:+,} ({change(found)})",
        )
        for (day, found, _), share in zip(known, shares, strict=True)
        if share
    )
    name = column_label(measure)
    return PeriodChart(
        title=f"change of {name} in percent, by {unit(table)}",
        words=_change_words(name, table, known),
        x_ticks=_x_ticks(table, x),
        y_ticks=y_ticks,
        bars=bars,
        zero=zero,
    )


def rows_chart(table: TableCompared) -> PeriodChart:
    most = max(sum(getattr(day.rows, look) for look in ROW_LOOKS) for day in table.days)
    x, (y, y_ticks) = _x_of(table), _y_axis(0.0, float(max(1, most)), _short)
    width = _bar_width(table)
    bars = []
    for day in table.days:
        below = 0
        for look in ROW_LOOKS:
            if count := getattr(day.rows, look):
                top, bottom = y(float(below + count)), y(float(below))
                tip = f"{_name(day.day, table)}: {count:,} {look}"
                at = round(x(day.day) - width / 2, 1)
                bars.append(PeriodBar(look, at, top, width, round(bottom - top, 1), tip))
                below += count
    rows = table.rows
    there = tuple(look for look in ROW_LOOKS if getattr(rows, look))
    return PeriodChart(
        title=f"rows by {unit(table)}: {', '.join(f'{getattr(rows, look):,} {look}' for look in there)}",
        words=f"Rows of {format_count(len(table.days), unit(table))}: {_counts(rows)}.",
        x_ticks=_x_ticks(table, x),
        y_ticks=y_ticks,
        bars=tuple(bars),
        legend=there,
    )


def _counts(rows: RowCounts) -> str:
    return ", ".join(f"{getattr(rows, look):,} {look}" for look in ROW_LOOKS)


def _change_words(name: str, table: TableCompared, known: Sequence[tuple[date, Sums, Decimal | None]]) -> str:
    moved = [(share, day) for day, _, share in known if share]
    if not moved:
        return f"{name} changes in no {unit(table)}."
    (least, first), (most, last) = min(moved), max(moved)
    return (
        f"{name} changes in {len(moved)} of {format_count(len(known), unit(table))}: from {percent(least)}"
        f" ({_name(first, table)}) to {percent(most)} ({_name(last, table)})."
    )


# ------------------------------------------------------------------ axes


def _x_of(table: TableCompared) -> Callable[[date], float]:
    first, length = table.days[0].day.toordinal(), _LENGTH_DAYS[table.cadence]
    pixels = (WIDTH - _LEFT - _RIGHT) / _span(table)
    return lambda day: round(_LEFT + (day.toordinal() - first + length / 2) * pixels, 1)


def _span(table: TableCompared) -> int:
    return table.days[-1].day.toordinal() - table.days[0].day.toordinal() + _LENGTH_DAYS[table.cadence]


def _bar_width(table: TableCompared) -> float:
    return round(max(1.0, _BAR_SHARE * _LENGTH_DAYS[table.cadence] * (WIDTH - _LEFT - _RIGHT) / _span(table)), 1)


def _x_ticks(table: TableCompared, x: Callable[[date], float]) -> tuple[AxisTick, ...]:
    last = len(table.days) - 1
    most = min(_MOST_LABELS, len(table.days))
    chosen = sorted({round(n * last / (most - 1)) for n in range(most)}) if most > 1 else [0]
    anchors = {0: "start", last: "end"} if len(table.days) > _MOST_LABELS else {}
    return tuple(
        AxisTick(x(table.days[n].day), _label(table.days[n].day, table), anchors.get(n, "middle")) for n in chosen
    )


def _label(day: date, table: TableCompared) -> str:
    return f"{day:%b %Y}" if table.cadence is Cadence.MONTHLY else f"{day.day} {day:%b}"


def _name(day: date, table: TableCompared) -> str:
    return f"{day:%a} {day}" if table.cadence is Cadence.DAILY else period([day], table.cadence)


def _y_axis(
    low: float, high: float, text: Callable[[float], str]
) -> tuple[Callable[[float], float], tuple[AxisTick, ...]]:
    if low == high:
        low, high = (low - 1, high + 1) if low else (0.0, 1.0)
    step = _round_step((high - low) / _MOST_TICKS)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    bottom, height = HEIGHT - _BOTTOM, HEIGHT - _BOTTOM - _TOP

    def y(value: float) -> float:
        return round(bottom - (value / step - first) / (last - first) * height, 1)

    return y, tuple(AxisTick(y(n * step), text(_tidy(n * step))) for n in range(first, last + 1))


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _tidy(value: float) -> float:
    return float(f"{value:.10g}")


def _percent_text(value: float) -> str:
    return f"{value:+g} %" if value else "0 %"


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.7g}{letter}"
    return f"{value:,.7g}"
