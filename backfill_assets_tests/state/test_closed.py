"""Closed days in statuses and accounts: one word for what is not fresh, and the rows of raw that wait."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.days import TableDay
from backfill_assets.model.declaration import FROM, Metrics
from backfill_assets.state.closed import books_of, waiting_rows, with_closed, with_waiting
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.status import day_statuses, diagnosed
from backfill_assets_tests.plan.test_closed import with_received, world_with_late_rows
from backfill_assets_tests.plan.world import PIPELINE, D, World, noon_of

NEXT = D + timedelta(days=1)
NOW = datetime(2017, 5, 3, tzinfo=UTC)


@pytest.fixture
def world() -> World:
    return world_with_late_rows()


@pytest.mark.parametrize(
    ("signs", "word"),
    [({}, Cause.CLOSED), ({Cause.LOST_FILES}, Cause.LOST_FILES), ({Cause.HELD_BACK}, Cause.CLOSED)],
    ids=["late rows", "damage is damage", "a gate"],
)
def test_the_status_says_closed_of_what_is_not_fresh(world: World, signs: set[Cause], word: Cause) -> None:
    observed = world.observed()
    books, statuses = books_of(observed, PIPELINE, NOW), day_statuses(PIPELINE, observed)
    beside: Mapping[TableDay, set[Cause]] = {TableDay("bronze", D): signs} if signs else {}
    found = diagnosed(statuses, with_closed(beside, statuses, books))
    assert (found["bronze"][D], found["fact"][D]) == (word, None), "fact is as bronze is"
    assert found["bronze"][NEXT] is Cause.LATE and found["raw"][D] is None


def test_the_accounts_of_a_closed_day_have_what_waits_by_the_log(world: World) -> None:
    """What was measured of raw stays: rows that raw has lost do not wait."""
    names, key = ("received", "content_hash_sum", "deleted"), TableDay("bronze", D)
    for table, prefix, numbers in (("raw", "", (12, 900, 2)), ("bronze", f"{FROM}raw.", (10, 700, 1))):
        with_received(world, table, D, **{f"{prefix}{name}": each for name, each in zip(names, numbers, strict=True)})
    measured: Metrics = {"received": 11, "content_hash_sum": "800", "deleted": 2}
    found = with_waiting(world.observed(), key, "raw", measured)
    waiting = {"waiting": "2", "waiting_hash_sum": "200", "deleted": "1", "deleted_hash_sum": "0"}
    assert found == {**measured, **waiting}
    world.forget("bronze", D)
    assert with_waiting(world.observed(), key, "raw", measured) == measured


def test_rows_that_wait_are_those_that_raw_has_received_since(world: World) -> None:
    for table, metrics in (("raw", {"received": 12}), ("bronze", {f"{FROM}raw.received": 10})):
        for day in (D, NEXT):
            with_received(world, table, day, **metrics)
    observed = world.observed()
    books = books_of(observed, PIPELINE, noon_of(NEXT))
    assert waiting_rows(observed, PIPELINE, books) == {TableDay("bronze", D): 2}
    world.forget("bronze", D)
    observed = world.observed()
    assert waiting_rows(observed, PIPELINE, books) == {TableDay("bronze", D): 12}, "all of them, if it was never built"
