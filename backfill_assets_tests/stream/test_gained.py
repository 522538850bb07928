"""Batches that wait for the facts add up to one following, and raw is ahead of them by a bounded amount."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from backfill_assets.stream.gained import MOST_BATCHES, MOST_EVENTS, NOTHING, Gained, GainedBatch, rest_for_facts

FIRST = date(2026, 3, 2)


def gained(*batches: tuple[int, int]) -> Gained:
    """By how many days after the first, and how many events."""
    found = NOTHING
    for day, events in batches:
        found = found.plus(GainedBatch(frozenset([FIRST, FIRST + timedelta(days=day)]), events))
    return found


def test_batches_that_wait_are_one_following_of_all_of_their_days() -> None:
    waits = gained((1, 10), (3, 20), (1, 5))
    assert waits.days == {FIRST, FIRST + timedelta(days=1), FIRST + timedelta(days=3)}
    assert (len(waits.batches), waits.events) == (3, 35)
    assert waits and not NOTHING and NOTHING.days == frozenset()


@pytest.mark.parametrize(
    ("batches", "events", "why"),
    [
        (MOST_BATCHES - 1, 10, ""),
        (MOST_BATCHES, 10, "raw is 64 batches (640 events) ahead of the facts: it waits for them"),
        (1, MOST_EVENTS - 1, ""),
        (1, MOST_EVENTS, "raw is 1 batch (100,000 events) ahead of the facts: it waits for them"),
    ],
)
def test_raw_is_ahead_by_so_many_batches_and_by_so_many_events(batches: int, events: int, why: str) -> None:
    assert gained(*[(0, events)] * batches).too_far_ahead == why


def test_raw_leaves_half_of_the_time_to_facts_that_are_at_work() -> None:
    assert [rest_for_facts(took, 1.0) for took in (0.2, 0.5, 0.8, 2.0, 30.0)] == [0.0, 0.0, 0.8, 2.0, 3.0]
