"""A delivery is due at a time that is declared, and has what its source says that it has."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from backfill_assets.quality.deliveries import Totals, as_sent, delivered, delivered_as_usual, usual_delivery

DAY, SIX_HOURS = date(2017, 3, 1), timedelta(hours=6)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("landed", "now", "said"),
    [
        (None, "2017-03-02T05:59", ""),
        (None, "2017-03-02T06:00", "failed: nothing landed, expected by 2017-03-02 06:00 UTC"),
        ("2017-03-01T23:00", "2017-03-01T23:30", "passed: landed 2017-03-01 23:00 UTC"),
        ("2017-03-02T06:00", "2017-03-03T00:00", "passed: landed 2017-03-02 06:00 UTC, expected"),
        ("2017-03-02T08:05", "2017-03-03T00:00", "passed: landed 2017-03-02 08:05 UTC, 2:05:00 late"),
    ],
)
def test_a_day_fails_from_when_its_delivery_is_due_until_it_lands(landed: str | None, now: str, said: str) -> None:
    """It passes however late it lands, and says so: nothing is missing any more."""
    outcome = delivered(DAY, SIX_HOURS, at(landed) if landed else None, at(now))
    if outcome is None:
        assert not said
    else:
        verdict = "passed" if outcome.passed else "failed"
        assert said
        assert f"{verdict}: {outcome.observed}, expected {outcome.expected}".startswith(said)
        assert bool(outcome.next_step) is not outcome.passed


def _sent(rows: int, value: str) -> Totals:
    return Totals(rows=rows, sums={"sales_value": Decimal(value)})


@pytest.mark.parametrize(
    ("sent", "landed", "passed"),
    [
        (Totals(rows=4025), Totals(rows=4025), True),
        (Totals(rows=4025), Totals(rows=4024), False),
        (_sent(2, "3.50"), _sent(2, "3.5"), True),
        (_sent(2, "3.50"), _sent(2, "3.49"), False),
        (Totals(rows=0), Totals(rows=0), True),
        (None, Totals(rows=4025), False),
    ],
)
def test_what_landed_is_compared_with_what_was_sent(sent: Totals | None, landed: Totals, passed: bool) -> None:
    outcome = as_sent(sent, landed, "_control.json")
    expected = str(sent) if sent else "_control.json beside the files"
    assert (outcome.passed, outcome.observed, outcome.expected) == (passed, str(landed), expected)


# ------------------------------------------------------------------ when it usually comes


TUESDAY = date(2017, 5, 2)


def each_morning(*without: int, hours: float = 4.75) -> dict[date, datetime]:
    """What landed on the 56 days before TUESDAY, a few minutes more or less after so many hours; on Sundays nothing."""
    days = [TUESDAY - timedelta(n) for n in range(1, 57) if n not in without]
    return {
        day: datetime.combine(day, datetime.min.time(), UTC) + timedelta(days=1, hours=hours, minutes=day.day % 5)
        for day in days
        if day.weekday() != 6
    }


@pytest.mark.parametrize(
    ("landed", "now", "said"),
    [
        (None, "2017-05-03T05:00", ""),
        (
            None,
            "2017-05-03T06:00",
            "failed: nothing yet, expected usually landed by 2017-05-03 05:48 UTC (learned from",
        ),
        ("2017-05-03T09:00", "2017-05-03T10:00", "passed: landed 2017-05-03 09:00 UTC, expected usually landed by"),
    ],
)
def test_a_day_that_never_landed_is_told_although_no_time_is_declared(landed: str | None, now: str, said: str) -> None:
    """A warning: no one has promised that time. One day of the past that was hours late moves it by nothing."""
    past = each_morning()
    past[TUESDAY - timedelta(7)] += timedelta(hours=9)
    outcome = delivered_as_usual(TUESDAY, usual_delivery(TUESDAY, past), at(landed) if landed else None, at(now))
    if outcome is None:
        assert not said
    else:
        assert outcome.severity == "warning" and bool(outcome.next_step) is not outcome.passed
        words = f"{'passed' if outcome.passed else 'failed'}: {outcome.observed}, expected {outcome.expected}"
        assert words.startswith(said)


def test_what_cannot_be_learned_is_not_asked_for() -> None:
    """A weekday on which nothing comes, a source that has just begun, and a history that was landed at once."""
    sunday, long_ago = TUESDAY - timedelta(2), datetime(2018, 1, 1, tzinfo=UTC)
    assert usual_delivery(sunday, each_morning()) is None
    assert usual_delivery(TUESDAY, each_morning(*range(22, 57))) is None
    assert usual_delivery(TUESDAY, dict.fromkeys(each_morning(), long_ago)) is None
    assert delivered_as_usual(TUESDAY, None, None, at("2017-05-09T00:00")) is None
