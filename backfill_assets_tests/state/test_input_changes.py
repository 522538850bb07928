"""Why a day is stale, by what came to its inputs since: a table of cases."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

from backfill_assets.days import TableDay
from backfill_assets.model.declaration import Reads, Version
from backfill_assets.model.deletion import DELETED
from backfill_assets.model.lateness import LATE_ROWS, Lateness
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.input_changes import InputChanges
from backfill_assets_tests.plan.world import STEPS, TABLES, D, World

BEFORE = D - timedelta(days=1)
MIXED = Version("v3", "", (Reads("raw"), Reads("rates", -2, 0)), dict)
"""Reads raw and rates."""


def _came(world: World, table: str, day: date, **metrics: int) -> None:
    """Something is published of ``day`` after all else, with what was measured of it."""
    key = TableDay(table, day)
    state = world.states[key]
    assert state.content is not None
    newest = max(each.sequence for each in world.states.values())
    content = replace(state.content, checksum=f"{state.content.checksum}1", metrics=metrics)
    world.states[key] = replace(state, sequence=newest + 1, content=content)


@pytest.fixture
def world() -> World:
    world = World({}, {}, {}, tuple(replace(s, lateness=Lateness(7, "ask")) if s.name == "raw" else s for s in STEPS))
    for table in TABLES:
        for day in (BEFORE - timedelta(days=1), BEFORE, D):
            world.publish(table, day)
    return world


def _signs(world: World, table: str, version: Version | None = None) -> dict[Cause, str]:
    step = next(each for each in world.steps if table in each.table_names)
    return dict(InputChanges(world.steps, world.observed()).signs(step, version or step.version(), D))


@pytest.mark.parametrize(
    ("table", "came", "causes"),
    [
        ("bronze", [("raw", D, {})], {Cause.LATE}),
        ("bronze", [("raw", D, {DELETED: 0})], {Cause.LATE}),
        ("bronze", [("raw", D, {DELETED: 1})], {Cause.CORRECTED}),
        ("bronze", [("raw", BEFORE, {DELETED: 1})], {Cause.LATE}),
        ("bronze", [("raw", D, {LATE_ROWS: 3})], {Cause.LATE, Cause.TOO_LATE}),
        ("fact", [("bronze", D, {})], {Cause.INPUT}),
        ("fact", [("rates", BEFORE, {})], {Cause.REFERENCE}),
        ("fact", [("rates", BEFORE, {}), ("bronze", D, {})], {Cause.INPUT}),
        ("fact", [], {Cause.INPUT}),
    ],
)
def test_what_came_is_the_cause(
    world: World, table: str, came: list[tuple[str, date, dict[str, int]]], causes: set[Cause]
) -> None:
    for name, day, metrics in came:
        _came(world, name, day, **metrics)
    assert set(_signs(world, table)) == causes


def test_what_came_too_late_is_told_in_words(world: World) -> None:
    _came(world, "raw", D, **{LATE_ROWS: 3})
    assert _signs(world, "bronze")[Cause.TOO_LATE] == "3 rows landed more than 7 days after their day"


def test_what_reads_raw_itself_has_late_rows_whatever_else_moved(world: World) -> None:
    """The log says of no day which rows of which input it lacks."""
    _came(world, "rates", BEFORE)
    assert set(_signs(world, "fact", MIXED)) == {Cause.LATE}


def test_what_was_published_before_the_day_is_in_it(world: World) -> None:
    _came(world, "raw", D, **{DELETED: 1})
    _came(world, "bronze", D)
    _came(world, "raw", D, **{LATE_ROWS: 1})
    changes = InputChanges(world.steps, world.observed())
    bronze = next(each for each in STEPS if each.name == "bronze")
    assert changes.moved(bronze, bronze.version(), D) == [TableDay("raw", D)]
    _came(world, "bronze", D)
    assert InputChanges(world.steps, world.observed()).moved(bronze, bronze.version(), D) == []
    assert changes.days_read(bronze, None, D) == []
