"""Days, ranges and periods: the units everything else counts in."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.days import Cadence, DayRange, contiguous, parse_day
from backfill_assets.errors import InvalidRequest

DAYS = st.dates(date(1990, 1, 1), date(2100, 12, 31))


@pytest.mark.parametrize("text", ["2017-02-30", "20170301", "2017-3-1", "2017-03-01 ", "yesterday", ""])
def test_what_is_no_day_is_refused(text: str) -> None:
    """Names and dates from outside are parsed before they reach a path or SQL."""
    with pytest.raises(InvalidRequest, match="is not a day"):
        parse_day(text)


@pytest.mark.parametrize("text", ["2017-03-01...2017-03-05", "2017-03-01:2017-03-05", "2017-03-01 to 2017-03-05"])
def test_a_range_with_something_else_between_its_days_is_refused_with_what_was_meant(text: str) -> None:
    """Dagster's three dots among them."""
    with pytest.raises(InvalidRequest) as refused:
        DayRange.parse(text)
    assert str(refused.value) == (
        f"{text!r} is not a day or a range of days.\n  -> Did you mean 2017-03-01..2017-03-05?"
    )
    for half in ("2017-03-01..", "..2017-03-05", "", "2017-3-1..2017-3-5", "soon"):
        with pytest.raises(
            InvalidRequest, match=r"is not a day.*\n  -> Write 2017-03-01 for one day, or 2017-03-01\.\."
        ):
            DayRange.parse(half)


@given(day=DAYS, cadence=st.sampled_from(Cadence))
def test_every_day_lies_in_exactly_one_period(day: date, cadence: Cadence) -> None:
    """The period after it begins on the next day: a week or month never shares a day with another."""
    period = cadence.period(day)
    assert day in period
    assert {cadence.period(each) for each in (period.first, period.last)} == {period}
    assert cadence.period(period.last + timedelta(days=1)).first == period.last + timedelta(days=1)


@pytest.mark.parametrize(
    ("cadence", "day", "period"),
    [
        (Cadence.WEEKLY, date(2017, 1, 1), "2016-12-26..2017-01-01"),
        (Cadence.WEEKLY, date(2018, 1, 1), "2018-01-01..2018-01-07"),
        (Cadence.MONTHLY, date(2016, 2, 29), "2016-02-01..2016-02-29"),
        (Cadence.MONTHLY, date(2017, 12, 31), "2017-12-01..2017-12-31"),
    ],
)
def test_weeks_are_iso_weeks_and_months_end_on_their_last_day(cadence: Cadence, day: date, period: str) -> None:
    """Also over the turn of a year and in a leap year."""
    assert str(cadence.period(day)) == period


def test_a_range_touches_the_periods_at_its_edges() -> None:
    """Ninety days cut a week at each end and a month at the last."""
    days = DayRange.parse("2017-03-01..2017-05-29")
    weeks = Cadence.WEEKLY.starts(days)
    assert (len(weeks), weeks[0], weeks[-1]) == (14, date(2017, 2, 27), date(2017, 5, 29))
    assert Cadence.MONTHLY.starts(days) == [date(2017, 3, 1), date(2017, 4, 1), date(2017, 5, 1)]
    assert Cadence.DAILY.starts(days) == list(days)


def test_a_range_that_is_meant_to_have_no_end_is_refused() -> None:
    """Each of its days would be looked at: plan and status would take hours, and all memory."""
    with pytest.raises(InvalidRequest, match="has 2,915,671 days, more than a hundred years"):
        DayRange.parse("2017-03-01..9999-12-31")
    assert len(DayRange.parse("1950-01-01..2049-12-31")) == 36_525


@given(days=st.sets(DAYS, max_size=30))
def test_contiguous_ranges_are_exactly_the_days(days: set[date]) -> None:
    """And as few as can be: no range begins on the day after another ends."""
    found = contiguous(days)
    assert {day for each in found for day in each} == days
    assert not {each.last + timedelta(days=1) for each in found} & {each.first for each in found}


@pytest.mark.parametrize("text", ["0001-01-01", "0100-12-31..0101-01-01", "9899-12-31..9900-01-01", "9999-12-31"])
def test_a_range_at_the_end_of_the_calendar_is_refused(text: str) -> None:
    """The days that it is computed from, or its week, may not exist."""
    with pytest.raises(InvalidRequest, match="is at the end of the calendar"):
        DayRange.parse(text)
    assert len(DayRange.parse("0101-01-01")) == len(DayRange.parse("9899-12-31")) == 1
