"""A range that fails is halved until the bad days stand alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.days import DayRange
from backfill_assets.rebuild.walk import isolate_failing_days

DAYS = list(DayRange.parse("2017-03-01..2017-05-29"))


class Broken(Exception):
    """What an engine raises over a day that it cannot read."""


class Attempts:
    def __init__(self, bad: set[date]) -> None:
        self.bad = bad
        self.made: list[Sequence[date]] = []
        self.done: list[date] = []

    def __call__(self, days: Sequence[date]) -> None:
        self.made.append(days)
        if self.bad & set(days):
            raise Broken(str(min(self.bad & set(days))))
        self.done += days


def narrow(attempts: Attempts) -> dict[date, Exception]:
    return isolate_failing_days(attempts, DAYS, lambda error: isinstance(error, Broken), lambda _: None)


@given(st.sets(st.sampled_from(DAYS), max_size=3))
def test_the_bad_days_stand_alone_and_every_other_day_is_done_once(bad: set[date]) -> None:
    attempts = Attempts(bad)
    assert set(narrow(attempts)) == bad
    assert sorted(attempts.done) == sorted(set(DAYS) - bad)


def test_one_bad_day_of_ninety_is_found_in_few_attempts() -> None:
    attempts = Attempts({date(2017, 4, 17)})
    assert list(narrow(attempts)) == [date(2017, 4, 17)]
    assert len(attempts.made) <= 15


def test_logic_that_is_broken_everywhere_is_not_searched_for_a_bad_day() -> None:
    attempts = Attempts(set(DAYS))
    with pytest.raises(Broken, match="2017-03-01"):
        narrow(attempts)
    assert len(attempts.made) < 20


def test_an_error_that_is_not_about_days_is_raised_at_once() -> None:
    def gone(days: Sequence[date]) -> None:
        raise ConnectionError("the server is gone")

    with pytest.raises(ConnectionError):
        isolate_failing_days(gone, DAYS, lambda error: isinstance(error, Broken), lambda _: None)
