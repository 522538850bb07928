"""Which days the watchdogs look at: nothing new is passed over, and all of history has its turn."""

from __future__ import annotations

from datetime import date, timedelta

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.upkeep.watch_plan import TURNS, days_to_watch

YEAR = DayRange.parse("2017-01-01..2017-12-31")


def _state(day: date, sequence: int, content: DayContent | None) -> DayState:
    return DayState(table="bronze_sales", day=day, publication="p", sequence=sequence, physical="f", content=content)


def test_what_was_published_since_the_last_look_is_looked_at() -> None:
    """On any turn of the day."""
    states = [_state(day, sequence, DayContent(rows=1, checksum="1")) for sequence, day in enumerate(YEAR)]
    found = days_to_watch(states, looked_until=359, tonight=date(2018, 1, 1))["bronze_sales"]
    assert set(found) >= {day for day in YEAR if day > date(2017, 12, 26)}


def test_thirty_nights_see_every_day_and_no_night_sees_many() -> None:
    """Old files rot unseen; reading all of history every night would cost too much."""
    states = [_state(day, 1, DayContent(rows=1, checksum="1")) for day in YEAR]
    nights = [date(2018, 1, 1) + timedelta(days=n) for n in range(TURNS)]
    seen = [days_to_watch(states, looked_until=1, tonight=night)["bronze_sales"] for night in nights]
    assert {day for days in seen for day in days} == set(YEAR)
    assert max(map(len, seen)) == len(YEAR) // TURNS + 1


def test_a_withdrawn_day_is_no_failure() -> None:
    """There is nothing to compare."""
    assert days_to_watch([_state(YEAR.first, 5, None)], looked_until=-1, tonight=YEAR.first) == {}
