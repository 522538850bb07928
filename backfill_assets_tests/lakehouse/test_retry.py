"""Loops around a commit end, wait between their attempts, and say what they wait for."""

from __future__ import annotations

import pytest

from backfill_assets import clock
from backfill_assets.errors import LakehouseBusy
from backfill_assets.lakehouse.retry import MOST_ATTEMPTS, Retry
from backfill_assets_tests.clock import FakeClock


def test_it_waits_longer_and_longer_reports_and_gives_up() -> None:
    """Bounded, with jitter; first milliseconds, for a race is over at once, and never more than two seconds."""
    time, told = FakeClock(), list[str]()
    gave_up = rf"Publishing p1: gave up after {MOST_ATTEMPTS} attempts in .* of others"
    with clock.use(time):
        retry = Retry("Publishing p1", report=told.append)
        for number in range(MOST_ATTEMPTS - 1):
            assert number > 5 or told == [], "a few lost rounds are everyday life"
            retry.lost("the log was full of others")
        with pytest.raises(LakehouseBusy, match=gave_up):
            retry.lost("the log was full of others")
    assert len(time.slept) == MOST_ATTEMPTS - 1 and len(set(time.slept)) > MOST_ATTEMPTS / 2
    assert max(time.slept[:3]) <= 0.04 and max(time.slept) <= 2
    assert 60 < sum(time.slept) < 400
    assert len(told) > 5 and told[0].startswith("Publishing p1: ")
