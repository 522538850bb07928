"""Charts say what the numbers say, on axes with round numbers and names of days; one period is a sentence."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest

from backfill_assets.days import Cadence
from backfill_assets.difference.charts import (
    HEIGHT,
    WIDTH,
    PeriodChart,
    change_chart,
    charts_of,
    period_charts,
    period_sentences,
    rows_chart,
    sums_chart,
)
from backfill_assets.difference.difference import DayCompared, RowCounts, TableCompared
from backfill_assets_tests.difference.compared_month import MARCH, a_day, month, sums, unmeasured

FIRST = MARCH.first


def sums_of(*days: tuple[str, str]) -> TableCompared:
    """Days from the first of March on, with a sum before and after."""
    known = {"how": "compared", "rows": RowCounts(changed=1)}
    found = [{"day": FIRST + timedelta(n), **known, "sums": {"revenue_eur": sums(*of)}} for n, of in enumerate(days)]
    return month(0, days=found)


def drawn(chart: PeriodChart | None) -> PeriodChart:
    assert chart is not None
    return chart


def test_a_table_of_one_period_has_sentences_and_no_chart() -> None:
    """With the name of the period: an axis of a single point says nothing."""
    one = month(0, days=[a_day(FIRST, "99.43")], cadence=Cadence.MONTHLY)
    assert charts_of(one) == [] and period_charts(one) == []
    assert period_sentences(one) == [
        "March 2017: revenue eur 100 before, 99.43 after (-0.57 %).",
        "March 2017: rows: 2 unchanged, 3 changed, 0 added, 0 removed.",
    ]
    assert period_sentences(month(2)) == []
    assert [chart.title for chart in charts_of(month(2))] == [
        "revenue eur by day",
        "change of revenue eur in percent, by day",
        "rows by day: 149 unchanged, 6 changed",
    ]
    assert [chart.title for chart in charts_of(month(0))] == ["rows by day: 155 unchanged"], "no measure changes"


def test_a_chart_is_a_picture_with_words_and_a_legend() -> None:
    """The legend has the shapes of the lines and bars; the picture says in words what it shows."""
    lines, bars, rows = charts_of(month(2))
    assert lines.words in lines.svg and 'role="img"' in lines.svg and ">before</text>" in lines.svg
    assert "<title>Wed 2017-03-01: -0.57 (-0.57 %)</title>" in bars.svg and ">removed</text>" not in rows.svg


def test_a_measure_that_is_known_of_one_period_alone_has_no_chart() -> None:
    table = month(0, days=[a_day(FIRST, "99"), unmeasured(MARCH.last)])
    assert sums_chart(table, "revenue_eur") is change_chart(table, "revenue_eur") is None


def test_there_is_no_point_where_a_sum_is_unknown() -> None:
    table = month(0, days=[a_day(FIRST, "99"), unmeasured(FIRST + timedelta(1)), a_day(FIRST + timedelta(2), "100")])
    before, after = drawn(sums_chart(table, "revenue_eur")).lines
    assert [tip for _, _, tip in before.points] == ["Wed 2017-03-01: 100 before", "Fri 2017-03-03: 100 before"]
    assert [tip for _, _, tip in after.points] == ["Wed 2017-03-01: 99 after", "Fri 2017-03-03: 100 after"]


def test_points_are_where_their_values_are() -> None:
    """Between the marks of the axis, in proportion; up is more."""
    chart = drawn(sums_chart(sums_of(("0", "0"), ("50", "100")), "revenue_eur"))
    ticks = {tick.text: tick.at for tick in chart.y_ticks}
    (_, low, _), (_, high, _) = chart.lines[1].points
    assert low == ticks["0"] and high == ticks["100"] and low > high
    assert chart.lines[0].points[1][1] == pytest.approx((low + high) / 2, abs=0.1)
    assert chart.words == "revenue eur by day, together 50 before and 100 after."


def test_bars_go_up_and_down_from_zero() -> None:
    """What the colour says is said by the direction; a day that stays the same has none."""
    chart = drawn(change_chart(sums_of(("100", "110"), ("100", "80"), ("100", "100"), ("0", "5")), "revenue_eur"))
    up, down = chart.bars
    assert (up.look, down.look) == ("up", "down") and chart.zero is not None
    assert up.y + up.height == pytest.approx(chart.zero, abs=0.1) and down.y == chart.zero
    assert down.height == pytest.approx(2 * up.height, abs=0.2)
    assert down.tip == "Thu 2017-03-02: -20 (-20.0 %)"
    assert chart.words == (
        "revenue eur changes in 2 of 3 days: from -20.0 % (Thu 2017-03-02) to +10.0 % (Wed 2017-03-01)."
    )
    assert drawn(change_chart(month(0), "revenue_eur")).words == "revenue eur changes in no day."


def test_rows_are_stacked_to_their_number() -> None:
    """Each kind once in the legend and in the title, with its number; kinds that do not occur are in neither."""
    days = [
        DayCompared(day=FIRST, how="compared", rows=RowCounts(added=10, unchanged=30)),
        DayCompared(day=FIRST + timedelta(1), how="compared", rows=RowCounts(removed=40)),
    ]
    chart = rows_chart(TableCompared(table="report", days=tuple(days)))
    heights = [(bar.look, bar.height) for bar in chart.bars]
    assert [look for look, _ in heights] == ["unchanged", "added", "removed"]
    assert heights[0][1] + heights[1][1] == pytest.approx(heights[2][1], abs=0.2)
    assert heights[0][1] == pytest.approx(3 * heights[1][1], abs=0.3)
    assert chart.legend == ("unchanged", "added", "removed")
    assert chart.title == "rows by day: 30 unchanged, 10 added, 40 removed"
    assert chart.words == "Rows of 2 days: 30 unchanged, 0 changed, 10 added, 40 removed."


@pytest.mark.parametrize(
    ("cadence", "days", "labels"),
    [
        (Cadence.DAILY, [date(2017, 3, 1), date(2017, 3, 2)], ["1 Mar", "2 Mar"]),
        (Cadence.WEEKLY, [date(2017, 2, 27), date(2017, 3, 6), date(2017, 3, 13)], ["27 Feb", "6 Mar", "13 Mar"]),
        (Cadence.MONTHLY, [date(2017, 3, 1), date(2017, 4, 1)], ["Mar 2017", "Apr 2017"]),
        (Cadence.DAILY, [FIRST + timedelta(n) for n in range(31)], ["1 Mar", "9 Mar", "16 Mar", "23 Mar", "31 Mar"]),
    ],
)
def test_the_axis_of_time_has_names_of_periods(cadence: Cadence, days: list[date], labels: list[str]) -> None:
    """The first and the last one always; never a part of a day."""
    table = month(0, days=[a_day(day, "99") for day in days], cadence=cadence)
    for chart in period_charts(table):
        assert [tick.text for tick in chart.x_ticks] == labels
        assert [tick.at for tick in chart.x_ticks] == sorted(tick.at for tick in chart.x_ticks)


@pytest.mark.parametrize("values", [("0", "0"), ("100", "100"), ("1049449.0438", "1049527.9545"), ("-3", "0.004")])
def test_the_axis_of_values_is_round_and_holds_all_of_them(values: tuple[str, str]) -> None:
    """At most six marks, each of another text, at any size."""
    chart = drawn(sums_chart(sums_of(values, values), "revenue_eur"))
    texts = [tick.text for tick in chart.y_ticks]
    assert 2 <= len(texts) <= 6 and len(set(texts)) == len(texts), texts
    assert all(re.fullmatch(r"-?[\d,]+(\.\d+)?[kMG]?", text) for text in texts), texts
    for line in chart.lines:
        assert all(0 <= y <= HEIGHT and 0 <= x <= WIDTH for x, y, _ in line.points)


def test_everything_is_within_the_picture() -> None:
    """Bars of many days and of few, of days and of months."""
    tables = [
        month(5),
        month(0, days=[a_day(FIRST + timedelta(n), "99") for n in range(400)]),
        month(0, days=[a_day(date(2017, n, 1), "99") for n in (1, 2, 12)], cadence=Cadence.MONTHLY),
    ]
    for chart in (chart for table in tables for chart in period_charts(table)):
        for bar in chart.bars:
            assert chart.left - 1 <= bar.x and bar.x + bar.width <= chart.right + 1, (chart.title, bar)
            assert bar.y >= 0 and bar.y + bar.height <= HEIGHT and bar.height >= 0
