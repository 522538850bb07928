from collections.abc import Collection
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.days import Cadence, DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.graph import Days
from backfill_assets.plan.records import PlannedStep
from backfill_assets.plan.waves import Shares, ahead_of_turn, days_of_wave, waves
from backfill_assets.state.diagnosis import Cause

NINETY = list(DayRange.parse("2017-03-01..2017-05-29"))


def test_ninety_days_are_a_canary_of_one_a_pilot_of_nine_half_and_all() -> None:
    found = waves(NINETY)
    assert [(wave.name, len(wave.days), len(wave.so_far)) for wave in found] == [
        ("canary", 1, 1),
        ("pilot", 8, 9),
        ("half", 36, 45),
        ("all", 45, 90),
    ]
    assert found[0].days == (date(2017, 5, 29),)
    assert found[-1].days[0] == date(2017, 3, 1)


@given(st.sets(st.dates(date(2017, 1, 1), date(2019, 1, 1)), max_size=200))
def test_every_day_is_in_exactly_one_wave(days: set[date]) -> None:
    found = waves(days)
    assert sorted(day for wave in found for day in wave.days) == sorted(days)
    assert all(wave.days for wave in found)
    assert all(wave.so_far == tuple(sorted(d for w in found[: n + 1] for d in w.days)) for n, wave in enumerate(found))


def test_waves_of_ones_own() -> None:
    assert [len(wave.days) for wave in waves(NINETY, Shares.parse("50%,100%"))] == [45, 45]
    assert str(Shares.parse("2.5%, 100%")) == "2.5%,100%"


@given(st.lists(st.decimals("0.000001", 100, places=6), min_size=1))
def test_shares_are_written_as_they_are_read(percents: list[Decimal]) -> None:
    shares = Shares.parse(",".join(f"{percent:f}%" for percent in sorted({*percents, Decimal(100)})))
    assert Shares.parse(str(shares)) == shares


def test_shares_that_are_nearly_equal_are_written_and_named_apart() -> None:
    assert str(Shares.parse("98.99999%,100%")) == "98.99999%,100%"
    assert str(Shares.parse("99.99999%,100%")) == "99.99999%,100%"
    assert [wave.name for wave in waves(NINETY[:30], Shares.parse("66.66665%,66.66668%,100%"))] == [
        "66.66665 percent",
        "66.66668 percent",
        "100 percent",
    ]


@pytest.mark.parametrize(
    "text",
    ["10%,5%,100%", "10%", "ten,100%", "0%,100%", "0.1,100%", "200%", "²%,100%", "1e-05%,100%", ".%,100%", "%"],
)
def test_shares_that_do_not_ascend_to_all_days_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Shares.parse(text)


def test_a_week_is_taken_when_all_of_its_planned_days_are() -> None:
    days = DayRange.parse("2017-03-01..2017-03-14")
    steps = [
        PlannedStep(tables=("fact",), version="v2", rebuild={Cause.ASKED_FOR: (str(days),)}),
        PlannedStep(
            tables=("week",),
            version="v1",
            cadence=Cadence.WEEKLY,
            rebuild={Cause.ASKED_FOR: tuple(str(day) for day in Cadence.WEEKLY.starts(days))},
        ),
    ]
    canary, pilot, half, everything = waves(days)
    assert days_of_wave(steps, canary) == {"fact": (date(2017, 3, 14),)}
    assert days_of_wave(steps, pilot)["week"] == (date(2017, 3, 13),), "Monday 13 and Tuesday 14 are all there is of it"
    assert days_of_wave(steps, half)["week"] == (date(2017, 3, 13),), "8 to 14 March leave 6 and 7 March out"
    assert days_of_wave(steps, everything)["week"] == (date(2017, 2, 27), date(2017, 3, 6), date(2017, 3, 13))


def test_months_of_a_plan_without_daily_tables_are_in_waves_themselves() -> None:
    months = tuple(str(date(2015 + number // 12, number % 12 + 1, 1)) for number in range(24))
    steps = [
        PlannedStep(tables=("report",), version="v2", cadence=Cadence.MONTHLY, rebuild={Cause.CODE_CHANGED: months})
    ]
    found = [days_of_wave(steps, wave) for wave in waves(day for step in steps for day in step.days)]
    assert [len(days["report"]) for days in found] == [1, 3, 12, 24]


def test_earlier_days_that_a_wave_looks_back_to_come_before_their_turn() -> None:
    """Directly or not; what is not planned stays, and no other day comes along."""
    span = "2017-03-02..2017-03-20"
    source, rates, fact = (
        PlannedStep(tables=(name,), version="v1", rebuild={Cause.ASKED_FOR: (span,)})
        for name in ("source", "rates", "fact")
    )

    def reads(step: PlannedStep, days: Collection[date]) -> Days:
        back, table = {"rates": (0, "source"), "fact": (2, "rates")}.get(step.name, (0, "raw"))
        return {table: {day - timedelta(days=number) for day in days for number in range(back + 1)}}

    steps = [source, rates, fact]
    canary, *_, everything = waves(DayRange.parse(span))
    newest, back = (date(2017, 3, 20),), tuple(DayRange.parse("2017-03-18..2017-03-20"))
    assert days_of_wave(steps, canary) == dict.fromkeys(("source", "rates", "fact"), newest)
    assert ahead_of_turn(steps, days_of_wave(steps, canary), reads) == {"source": back, "rates": back, "fact": newest}
    all_days = days_of_wave(steps, everything)
    assert ahead_of_turn(steps, all_days, reads) == all_days
