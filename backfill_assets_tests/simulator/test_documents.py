"""Leases of streams and names of timelines: documents that many claim at once, judged at each answer."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets_tests.simulator.judges.leases import LeaseJudge
from backfill_assets_tests.simulator.play import play_seed, play_turns
from backfill_assets_tests.simulator.schedule import Turn

pytestmark = pytest.mark.protocol
NOW, LATER = datetime(2017, 4, 3, 9, tzinfo=UTC), timedelta(seconds=30)
FEW, MANY, STEPS = 40, 2_000, 500
KEPT = {"leaser leaser leaser": (95,), "claimer claimer claimer": (298, 332), "claimer claimer time": (176,)}
"""Seeds that find what the few others do not: a claim over another one; a renaming that its twin takes back, or who has
an older revision; and one that is taken back under who relies on it.
"""
CASTS = {
    "leaser leaser leaser": ("leases", "leases lost", "AnotherStreamRuns"),
    "leaser leaser time": ("leases", "leases lost", "AnotherStreamRuns"),
    "claimer claimer claimer": ("timelines named", "timelines renamed", "InvalidRequest", "PublicationRefused"),
    "claimer claimer time": ("timelines named", "timelines renamed", "InvalidRequest", "PublicationRefused"),
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("seeds", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.long)])
def test_one_of_many_has_it(cast: str, seeds: int) -> None:
    """However they overtake each other, are suspended, meet a storage that fails, and die."""
    tally = Counter[str]()
    for seed in [*range(1, seeds + 1), *KEPT.get(cast, ())]:
        played = play_seed(seed, STEPS, cast.split())
        assert played.failure is None, f"{played.line}: {played.failure}"
        tally += played.tally
    assert not [what for what in (*CASTS[cast], "deaths") if not tally[what]], tally


def test_a_second_stream_beside_one_whose_lease_is_in_force_is_named() -> None:
    judge = LeaseJudge()
    for stream in ("one", "other"):
        with judge.asks("raw", stream) as told:
            if stream == "one":
                told(NOW + LATER, NOW)
            else:
                with pytest.raises(AssertionError, match="other and one both stream into raw"):
                    told(NOW + LATER, NOW)
    with judge.asks("raw_more", "other") as told:
        told(NOW + LATER, NOW)


def test_a_lease_that_has_ended_or_was_given_back_is_in_nobody_s_way() -> None:
    judge = LeaseJudge()
    with judge.asks("raw", "one") as told:
        told(NOW + LATER, NOW)
    with judge.asks("raw", "other") as told:
        told(NOW + 2 * LATER, NOW + LATER)
    judge.ended("raw", "other")
    with judge.asks("raw", "one") as told:
        told(NOW + 2 * LATER, NOW + LATER)


def test_a_commit_that_is_lost_to_another_writer_is_made_again() -> None:
    """Who publishes is killed at each step; a writer without put-if-absent puts his own commit over the newest one."""
    lost = 0
    for step in range(60, 260, 8):
        turns = [Turn("publisher-1", step, "dies"), Turn("overwriter-1", 12), Turn("publisher-2", 300)]
        played = play_turns(11, [turn.actor for turn in turns], turns)
        assert played.failure is None, f"{played.line}: {played.failure}"
        lost += played.tally["overwritten"]
    assert lost > 2
