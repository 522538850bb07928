"""A clock that is ahead deletes nothing that the log does not bear out to be old; a pause stops nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.lakehouse.named_timelines import create_timeline, keep_timeline
from backfill_assets.publish import fold as log_fold
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets.timeline.rewind import new_timeline
from backfill_assets.upkeep.reclaim import believed_now, not_borne_out, reclaim, reclaimable
from backfill_assets_tests.protocol.lake import Lake


def steps(*days: float) -> timedelta:
    """What is not counted at the last of ``days``, which are moments of entries in the order of the log."""
    *entries, now = (datetime(2017, 6, 1, 12, tzinfo=UTC) + timedelta(days=day) for day in days)
    return not_borne_out(reversed(entries), now, timedelta(days=60))


TURNS = (0, 60, 1, 61, 2, 62, 3)
"""Machines that take turns: the clock of the second one is 60 days ahead."""


def test_a_long_step_of_the_clock_is_not_counted() -> None:
    """Before now, or between two entries; one within a week counts, and so does a pause of long ago."""
    for moments, uncounted in (
        ((5,), 0),
        ((0, 1, 8.5, 10), 0),
        ((0, 1, 41), 40),
        ((0, 1, 41, 42, 60), 58),
        ((0, 1, 41, 171, 172), 170),
        ((0, 1, 10, 19, 28, 37, 46, 55), 54),
        ((0, 9, *range(10, 71)), 0),
        ((*TURNS, 63), 63),
        ((*TURNS, 4), 3),
        ((60, 0, 1), 0),
    ):
        assert steps(*moments) == timedelta(days=uncounted), moments


@pytest.mark.protocol
@pytest.mark.parametrize(("published", "ahead"), [(0, 40), (1, 170), (12, 40)])
def test_a_clock_that_is_ahead_deletes_no_before_image(lake: Lake, published: int, ahead: int) -> None:
    """However it is asked for. When the clock is right again, yesterday's publication can be rolled back."""
    lake.publish_daily("t", 3)
    right = lake.clock
    lake.clock += timedelta(days=ahead)
    lake.publish_daily("t", published)
    newest = lake.clock if published else right
    assert reclaim(lake.publisher(), "t") == []
    lake.clock = right
    roll_back(lake.publisher(), f"p{newest:%Y%m%d}", id="undo", steps=())


@pytest.mark.protocol
def test_after_a_pause_it_goes_on_by_the_time_without_it(lake: Lake) -> None:
    lake.publish_daily("t", 2)
    lake.clock += timedelta(days=6)
    lake.publish_daily("t", 28, every=4)
    assert reclaim(lake.publisher(), "t") == []
    assert _missing(lake) == 10
    lake.publish_daily("t", 12, every=4)
    assert reclaim(lake.publisher(), "t")
    lake.publish_daily("t", 28, every=4)
    assert _missing(lake) == 0


def _missing(lake: Lake) -> float:
    """In days; bounds of files are kept in milliseconds."""
    return round((lake.clock - believed_now(lake.publisher())) / timedelta(days=1), 3)


@pytest.mark.protocol
def test_a_pause_within_folded_entries_is_seen(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_fold, "FOLD_FROM_FILES", 3)
    lake.clock = datetime(lake.clock.year, 3, 1, tzinfo=UTC)
    lake.publish_daily("t", 3)
    lake.clock += timedelta(days=14)
    lake.publish_daily("t", 3)
    lake.clock += timedelta(days=8)
    assert log_fold.fold(lake.publisher().log, lake.clock) and _missing(lake) == 15


@pytest.mark.protocol
def test_the_log_is_not_trimmed_by_a_clock_that_is_ahead(lake: Lake) -> None:
    lake.clock -= timedelta(days=12)
    lake.publish_daily("t", 12)
    lake.clock += timedelta(days=40)
    assert reclaim(lake.publisher(), LOG_TABLE) == []
    assert reclaim(lake.publisher(), LOG_TABLE, clock_checked=True)


@pytest.mark.protocol
def test_a_timeline_that_is_kept_for_some_days_is_kept_by_the_right_clock(lake: Lake) -> None:
    """What it reads through to is not deleted because a clock that is ahead takes its age for reached."""
    lake.publish_daily("t", 1)
    now, base = lake.clock, {f"t/{path}" for path in lake.state("t").active}
    made = create_timeline(lake.storage, new_timeline(lake.storage, "trial", "ana", now))
    keep_timeline(lake.storage, made, 90, now)
    lake.publish_daily("t", 40, every=4)
    lake.clock += timedelta(days=60)
    assert base.isdisjoint(reclaimable(lake.publisher(), "t"))
    assert base < {*reclaimable(lake.publisher(), "t", clock_checked=True)}
