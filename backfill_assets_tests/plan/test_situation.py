"""What a plan asks of the situation: steps and versions, what days hold, and which periods have begun."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from backfill_assets.days import DayRange, TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets_tests.plan.world import D, World, situation_of, world_of

AFTER = D + timedelta(days=1)


@pytest.fixture
def world() -> World:
    return world_of(window=DayRange.of(D))


def test_days_from_the_beginning_to_yesterday_have_begun(world: World) -> None:
    """Neither the day before the first one, nor today."""
    situation = situation_of(world, begins=D, today=D + timedelta(days=3))
    days = [D + timedelta(days=n) for n in range(-2, 6)]
    assert situation.begun_periods(situation.step_of("fact"), days) == {D, AFTER, D + timedelta(days=2)}
    assert situation.begun_periods(situation.step_of("fact"), []) == set()


def test_weeks_and_months_have_begun_that_hold_the_first_day_or_a_day_before_today(world: World) -> None:
    """A Monday that is today has not: its week has no day yet."""
    situation = situation_of(world, begins=D, today=date(2017, 3, 21))
    mondays = [date(2017, 2, 27), date(2017, 3, 6), date(2017, 3, 13), date(2017, 3, 20), date(2017, 3, 27)]
    assert situation.begun_periods(situation.step_of("weekly"), mondays) == set(mondays[1:4])
    months = [date(2017, 2, 1), date(2017, 3, 1), date(2017, 4, 1)]
    assert situation.begun_periods(situation.step_of("monthly"), months) == {date(2017, 3, 1)}
    on_a_monday = situation_of(world, begins=D, today=date(2017, 3, 20))
    assert on_a_monday.begun_periods(on_a_monday.step_of("weekly"), mondays) == set(mondays[1:3])


@pytest.mark.parametrize(
    ("published", "newest", "pinned", "logical"),
    [
        (None, "", "", fingerprints.NEVER_PUBLISHED),
        (None, "files", "files", fingerprints.foreign("files")),
        (0, "", "", fingerprints.logical(0, "7")),
        (1, "", "", fingerprints.logical(1, "7")),
        (1, "files", "", fingerprints.logical(1, "7")),
        (1, "files", "files", fingerprints.foreign("files")),
    ],
    ids=["never", "files alone", "no rows", "rows", "overwritten since the last entry", "overwritten"],
)
def test_a_day_is_what_a_build_would_read_of_it(
    world: World, published: int | None, newest: str, pinned: str, logical: str
) -> None:
    """By the last closed entry's versions; a day of files that no publication brought is foreign."""
    if published is not None:
        world.publish("fact", AFTER, rows=published)
    for files, now in ((world.newest, newest), (world.pinned, pinned)):
        files["fact"] |= {AFTER: now} if now else {}
    observed, key = world.observed(), TableDay("fact", AFTER)
    assert observed.logical(key) == logical
    assert observed.is_foreign(key) is bool(pinned)
    content = observed.content(key)
    assert (content and content.rows) == published
    assert bool(observed.publication(key)) is (published is not None)
