"""The delay of events over the batches of the last minutes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.stream.delays import Delays, Received, RecentDelays, describe_batch

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


def ago(events: int, *seconds: float) -> Received:
    """Events that were received so long ago, in equal parts."""
    return Received.of(events, [round((NOW.timestamp() - each) * 1000) for each in seconds])


def test_delays_are_those_of_events_and_not_of_batches() -> None:
    """One slow batch of few events is not the 99th percentile of all; one slow fiftieth of a batch is."""
    recent = RecentDelays()
    assert recent.summary() is None
    recent.add(ago(1_000, 2), NOW)
    recent.add(ago(5, 60), NOW)
    assert recent.summary() == Delays(2, 2)
    recent.add(ago(1_000, *[2.0] * 48, 40.0, 40.0), NOW)
    assert recent.summary() == Delays(2, 40)


def test_the_percentiles_of_a_batch_are_exact_where_times_are_kept() -> None:
    hundred = ago(100, *map(float, range(1, 101)))
    found = hundred.delays(NOW)
    assert found.p50 == pytest.approx(50, abs=1) and found.p99 == pytest.approx(99, abs=1)
    later = hundred.delays(NOW + timedelta(seconds=10))
    assert (later.p50 - found.p50, later.p99 - found.p99) == (10, 10)


def test_a_clock_that_is_behind_gives_no_negative_delay() -> None:
    assert ago(3, -5).delays(NOW) == Delays(0, 0)


def test_a_batch_is_described_in_one_line() -> None:
    late = {"raw_sales": Delays(2.04, 3), "fact_daily_revenue": Delays(8, 9.51)}
    text = "batch 7: 1 event in 1.3 s; in raw_sales after p50 2.0 s, p99 3.0 s; in fact_daily_revenue after p50 8.0 s"
    assert describe_batch(7, 1, 1.26, late) == f"{text}, p99 9.5 s"
    assert describe_batch(7, 2_000, 1.26, {}) == "batch 7: 2,000 events in 1.3 s"
    slow = describe_batch(7, 2_000, 1.26, {}, "the source took 4.1 s: reading at 250 records/s")
    assert slow == "batch 7: 2,000 events in 1.3 s; slowed down: the source took 4.1 s: reading at 250 records/s"
