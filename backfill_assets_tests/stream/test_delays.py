"""The delay of events over the batches of the last minutes."""

from __future__ import annotations

from backfill_assets.stream.delays import Delays, RecentDelays, describe_batch


def test_a_delay_counts_with_the_events_of_its_batch() -> None:
    recent = RecentDelays()
    assert recent.summary() is None
    recent.add(0, Delays(99, 99))
    assert recent.summary() is None
    recent.add(1_000, Delays(2, 3))
    recent.add(10, Delays(50, 60))
    assert recent.summary() == Delays(2, 3)
    recent.add(100, Delays(50, 60))
    found = recent.summary()
    assert found is not None and found.p99 == 50


def test_a_batch_is_described_in_one_line() -> None:
    assert describe_batch(7, 1, 1.26, Delays(2.04, 3)) == "batch 7: 1 event in 1.3 s, delay p50 2.0 s, p99 3.0 s"
    assert describe_batch(7, 2_000, 1.26, None) == "batch 7: 2,000 events in 1.3 s"
    slow = describe_batch(7, 2_000, 1.26, None, "the source took 4.1 s: reading at 250 records/s")
    assert slow == "batch 7: 2,000 events in 1.3 s; slowed down: the source took 4.1 s: reading at 250 records/s"
