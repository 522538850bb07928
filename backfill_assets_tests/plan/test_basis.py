"""What a plan was computed from, and exactly which of it moved since: days, tables and code."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

from backfill_assets.days import DayRange, TableDay
from backfill_assets.landing.zone import LandedDay
from backfill_assets.model.declaration import Version
from backfill_assets.plan.basis import MovedTable, PlanDrift, drift_since
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import PlanFingerprint, Scope
from backfill_assets_tests.plan.world import PIPELINE, WINDOW, D, World, asked, situation_of, world_of


def test_days_that_may_move_are_taken_out_and_landed_files_stay() -> None:
    """A day of another table, or another day of the same table, is still drift."""
    later = D + timedelta(days=1)
    moved = PlanDrift(
        (
            MovedTable("fact", "rebuilds", (D, later), 3, 4),
            MovedTable("bronze", "reads", (D,), 1, 2),
            MovedTable("raw", "takes in", (D,), 1, 2),
        ),
        ("fact: other",),
    )
    assert moved.days == {TableDay("fact", D), TableDay("fact", later), TableDay("bronze", D)}
    left = moved.without({TableDay("fact", D), TableDay("bronze", D), TableDay("raw", D)})
    assert left.tables == (MovedTable("fact", "rebuilds", (later,), 3, 4), MovedTable("raw", "takes in", (D,), 1, 2))
    assert left.code == ("fact: other",)


def test_a_moved_table_has_the_role_and_the_versions_that_it_had_and_has(world: World) -> None:
    """One that is written comes before one that is read."""
    before = situation_of(world)
    before = replace(before, observed=replace(before.observed, versions={"bronze": 3, "daily": 7, "raw": 1}))
    plan = make_plan(asked("fact", force=True), before)
    for table in ("bronze", "daily"):
        world.publish(table, D, checksum="99")
    after = situation_of(world)
    after = replace(after, observed=replace(after.observed, versions={"bronze": 4, "daily": 8, "raw": 2}))
    assert drift_since(plan, after).tables == (
        MovedTable("daily", "rebuilds", (D,), 7, 8),
        MovedTable("bronze", "reads", (D,), 3, 4),
    )


def test_a_file_that_landed_or_was_taken_in_moves_a_plan_that_takes_in(world: World) -> None:
    """Files that were ingested before do not count, and neither does a day that the plan is not about."""
    landed = {"raw": {D: LandedDay(("a", "b"), waiting=("b",))}}
    plan = make_plan(asked("fact", scope=Scope.WHOLE), situation_of(world, landed=landed))
    moved = (MovedTable("raw", "takes in", (D,), None, None),)

    def now(days: dict[date, LandedDay]) -> tuple[MovedTable, ...]:
        return drift_since(plan, situation_of(world, landed={"raw": days})).tables

    waiting = LandedDay(("b",), waiting=("b",), bytes=9)
    assert now({D: waiting}) == ()
    assert now({D: LandedDay(("a", "b", "c"), waiting=("b", "c"))}) == moved
    assert now({D: LandedDay(("a", "b"))}) == moved
    assert now({}) == moved
    assert now({D: waiting, D + timedelta(days=1): waiting}) == ()


def test_a_basis_has_the_days_that_are_written_also_skipped_ones_and_the_days_that_are_read(world: World) -> None:
    """Of the steps that rebuild, every table; versions only of tables that the plan has to do with."""
    situation = situation_of(world)
    versions = {"bronze": 3, "rates": 4, "fact": 5, "raw": 6, "weekly": 7}
    situation = replace(situation, observed=replace(situation.observed, versions=versions, sequence=12))
    basis = make_plan(asked("fact"), situation).basis
    assert {table: list(days) for table, days in basis.written.items()} == {
        "fact": ["2017-03-08"],
        "daily": ["2017-03-08"],
        "weekly": ["2017-03-06"],
        "monthly": ["2017-03-01"],
    }
    assert (basis.read, basis.landed) == ({}, {}), "every day is fresh: nothing is built, so nothing is read"
    assert basis.versions == {"fact": 5, "weekly": 7} and basis.sequence == 12
    forced = make_plan(asked("fact", force=True), situation).basis
    assert {table: list(days)[:3] for table, days in forced.read.items()} == {
        "bronze": ["2017-03-08"],
        "daily": ["2017-03-01", "2017-03-02", "2017-03-03"],
        "fact": ["2017-03-06", "2017-03-07", "2017-03-09"],
        "rates": ["2017-03-06", "2017-03-07", "2017-03-08"],
    }
    assert forced.versions == {"bronze": 3, "rates": 4, "fact": 5, "weekly": 7}
    assert forced.code == {"fact": "v2", "daily": "v2", "weekly": "v2", "monthly": "v2"}


def test_a_day_that_is_withdrawn_or_published_first_has_moved() -> None:
    """No content is a state like any other."""
    world = world_of(window=DayRange(WINDOW.first, D))
    tomorrow = D + timedelta(days=1)
    plan = make_plan(asked("daily", f"{D}..{tomorrow}", force=True), situation_of(world))
    del world.states[TableDay("fact", D)], world.pinned["fact"][D]
    world.publish("fact", tomorrow)
    (moved,) = drift_since(plan, situation_of(world)).tables
    assert (moved.table, moved.role, moved.days) == ("fact", "reads", (D, tomorrow))


def test_a_plan_that_was_kept_without_fingerprints_has_moved_on_all_days(world: World) -> None:
    """What is not known to hold does not hold; a table that has fingerprints on one side alone is one that moved."""
    plan = make_plan(asked("bronze", scope=Scope.ONWARDS, force=True), situation_of(world))
    bare = plan.model_copy(update={"basis": PlanFingerprint(read={"gone": {str(D): "0"}})})
    moved = {(each.table, each.role): each.days for each in drift_since(bare, situation_of(world)).tables}
    assert moved["quarantine", "rebuilds"] == moved["bronze", "rebuilds"] == (D,)
    assert moved["gone", "reads"] == moved["raw", "reads"] == (D,)


@pytest.mark.parametrize(
    ("target", "table", "day", "moved"),
    [
        ("fact", "bronze", D, [("bronze", "reads")]),
        ("fact", "daily", D, [("daily", "rebuilds")]),
        ("fact", "rates", D - timedelta(days=2), [("rates", "reads")]),
        ("fact", "bronze", D - timedelta(days=1), []),
        ("fact", "raw", D, []),
        ("bronze", "quarantine", D, [("quarantine", "rebuilds")]),
    ],
    ids=[
        "an input gains rows",
        "a day of its own is rebuilt otherwise",
        "reference data that it looks back at",
        "a day before the range",
        "a table that it does not read",
        "a table that is built together with the target",
    ],
)
def test_what_has_moved_is_said_exactly(
    world: World, target: str, table: str, day: date, moved: list[tuple[str, str]]
) -> None:
    """Neither more nor less than the plan was computed from."""
    plan = make_plan(asked(target, force=True), situation_of(world))
    assert not drift_since(plan, situation_of(world))
    world.publish(table, day, checksum="99")
    found = drift_since(plan, situation_of(world))
    assert [(each.table, each.role, each.days) for each in found.tables] == [(*each, (day,)) for each in moved]
    assert bool(found) is bool(moved) and not found.code


def test_other_code_moves_a_plan_and_other_files_of_the_same_content_do_not(world: World) -> None:
    """A compaction changes nothing; a step with another version, or that is gone, is named; the days are where they
    were."""
    plan = make_plan(asked("daily", force=True), situation_of(world))
    fact = TableDay("fact", D)
    world.states[fact] = replace(world.states[fact], physical="compacted", publication="q")
    world.pinned["fact"][D] = world.newest["fact"][D] = "compacted"
    assert not drift_since(plan, situation_of(world))
    other = [
        replace(step, current="v3", versions=(Version("v3", "", step.version().reads, dict),))
        if step.name == "daily"
        else step
        for step in PIPELINE
        if step.name != "monthly"
    ]
    assert drift_since(plan, replace(situation_of(world), steps=other)) == PlanDrift(
        code=(
            "daily: the plan was made for v2, and the code has v3 now",
            "monthly: the plan was made for v2, and the code has no such step now",
        )
    )
    earlier = make_plan(asked("fact", version="v1"), situation_of(world))
    assert not drift_since(earlier, situation_of(world)), "it is compared by the version that was asked for"
    for table in ("fact", "daily"):
        state = world.states[TableDay(table, D)]
        assert state.content is not None
        world.states[TableDay(table, D)] = replace(state, content=replace(state.content, code_version="v1"))
    found = drift_since(plan, situation_of(world)).tables
    assert [(each.table, each.role) for each in found] == [("daily", "rebuilds")], "of what is read, content counts"


def test_a_moved_table_names_its_first_six_ranges_and_a_version_that_is_another() -> None:
    """Every day counts, also those of the ranges that are left out; tables come before code."""
    apart = tuple(D + timedelta(days=2 * n) for n in range(7))
    together = tuple(DayRange(D, D + timedelta(days=9)))
    tables = (MovedTable("fact", "rebuilds", apart, 3, 5), MovedTable("raw", "takes in", together, None, None))
    assert PlanDrift(tables, ("fact: other",)).lines() == [
        (
            "fact: 7 days that the plan rebuilds moved: 2017-03-08, 2017-03-10, 2017-03-12, 2017-03-14, 2017-03-16, "
            "2017-03-18 (version 3 -> 5)"
        ),
        "raw: 10 days that the plan takes in moved: 2017-03-08..2017-03-17",
        "fact: other",
    ]
