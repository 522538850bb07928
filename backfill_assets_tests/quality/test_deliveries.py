"""A delivery is due at a time that is declared, and has what its source says that it has."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from backfill_assets.quality.deliveries import Totals, as_sent, delivered

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
