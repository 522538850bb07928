"""The delay of events over the batches of the last minutes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.stream.delays import Delays, Received, delays_of

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


def ago(events: int, *seconds: float) -> Received:
    """Events that were received so long ago, in equal parts."""
    return Received.of(events, [round((NOW.timestamp() - each) * 1000) for each in seconds])


def test_delays_are_those_of_events_and_not_of_batches() -> None:
    """One slow batch of few events is not the 99th percentile of all; one slow fiftieth of a batch is."""
    recent = [*ago(1_000, 2).weighted(NOW), *ago(5, 60).weighted(NOW)]
    assert delays_of(recent) == Delays(2, 2)
    recent += ago(1_000, *[2.0] * 48, 40.0, 40.0).weighted(NOW)
    assert delays_of(recent) == Delays(2, 40)


def test_the_percentiles_of_a_batch_are_exact_where_times_are_kept() -> None:
    hundred = ago(100, *map(float, range(1, 101)))
    found = hundred.delays(NOW)
    assert found.p50 == pytest.approx(50, abs=1) and found.p99 == pytest.approx(99, abs=1)
    later = hundred.delays(NOW + timedelta(seconds=10))
    assert (later.p50 - found.p50, later.p99 - found.p99) == (10, 10)


def test_a_clock_that_is_behind_gives_no_negative_delay() -> None:
    assert ago(3, -5).delays(NOW) == Delays(0, 0)
