"""Facts that read planes as of their day: which of them are stale after any changes, by a search in plain Python."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.records import DayRecord
from backfill_assets.model.declaration import AsOf, Reads
from backfill_assets.plan.basis import drift_since
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import Scope
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.status import day_statuses, stale_readers
from backfill_assets.upkeep.trouble import RepairContext, find_stale_days
from backfill_assets_tests.plan.world import World, a_step, asked, situation_of, whys

STEPS = (
    a_step("raw_planes", source=True),
    a_step("raw", source=True),
    a_step("bronze_planes", reads=(Reads("raw_planes"),)),
    a_step("bronze", reads=(Reads("raw"),)),
    a_step("fact", reads=(Reads("bronze"), AsOf("planes", first=-40))),
    a_step("revenue", reads=(Reads("fact"),)),
)
DAYS = DayRange.parse("2017-03-01..2017-03-12")
FIRST = DAYS.first
Seats = dict[date, int]
"""What the state of each day says; 0 for a day without rows."""
changes = st.dictionaries(st.sampled_from(list(DAYS)), st.integers(0, 3), max_size=5)


def published(world: World, planes: Seats) -> World:
    for day, seats in sorted(planes.items()):
        for table in ("raw_planes", "bronze_planes"):
            world.publish(table, day, checksum=str(seats), rows=min(seats, 1))
    return world


def held(planes: Seats, day: date) -> tuple[date, int] | None:
    """The newest state with rows up to a day."""
    found = [(each, seats) for each, seats in planes.items() if each <= day and seats]
    return max(found, default=None)


def a_world(planes: Seats) -> World:
    """All trips, and all facts that there can be."""
    world = published(World({}, {}, {}, STEPS), planes)
    for day in DAYS:
        for table in ("raw", "bronze", "fact", "revenue"):
            if held(planes, day) or table in ("raw", "bronze"):
                world.publish(table, day)
    return world


def differing(then: Seats, now: Seats) -> set[date]:
    """The days of which another state holds, and held before."""
    return {day for day in DAYS if held(then, day) and held(then, day) != held(now, day)}


def stale(world: World, table: str) -> set[date]:
    found = day_statuses(STEPS, world.observed(), DAYS)[table]
    return {day for day, status in found.items() if status is Cause.INPUT}


@settings(max_examples=20)
@given(changes, changes)
def test_just_the_days_that_read_another_state_are_stale_and_repaired(then: Seats, more: Seats) -> None:
    """By the status of days, by the readers of what changed, and by what repairs launch: after any publications."""
    world, now = a_world(then), {**then, **more}
    changed = {day for day, seats in more.items() if then.get(day) != seats}
    published(world, {day: more[day] for day in changed})
    expected = differing(then, now)
    assert stale(world, "fact") == expected and stale(world, "revenue") == set()
    readers = stale_readers(STEPS, world.observed(), {"bronze_planes": changed})
    assert set(readers.get("fact", ())) == expected
    seen = RepairContext(STEPS, world.observed())
    _, others = find_stale_days(seen, day_statuses(STEPS, seen.observed, as_published=True))
    found = {each.day for each in others if each.table == "fact"}
    assert found == expected | {day for day in DAYS if held(now, day) and not held(then, day)}


@settings(max_examples=20)
@given(changes, st.sampled_from(list(DAYS)), st.integers(1, 3))
def test_a_plan_of_a_state_rebuilds_what_reads_it(then: Seats, day: date, seats: int) -> None:
    """Downstream of a changed state just the days that it holds on; with the state that each of them reads."""
    then = {FIRST: 1, **then}
    world = a_world(then)
    world.publish("raw_planes", day, checksum="9", rows=seats)
    plan = make_plan(asked("bronze_planes", str(day), scope=Scope.ONWARDS), situation_of(world, begins=FIRST))
    found = {name: set(days) for name, days in whys(plan).items()}
    now = {**then, day: 9}
    assert found.get("bronze_planes", set()) == {str(day)}
    assert found.get("fact", set()) == {str(each) for each in DAYS if held(now, each) == (day, 9)}


@settings(max_examples=20)
@given(changes, st.sampled_from(list(DAYS)))
def test_a_state_that_comes_between_is_drift_of_a_plan(then: Seats, day: date) -> None:
    """Just where days of the plan would read another state; and nothing is said to be missing."""
    then = {FIRST: 1, **then}
    world, chosen = a_world(then), DayRange(FIRST + timedelta(days=4), DAYS.last)
    plan = make_plan(asked("fact", str(chosen), force=True), situation_of(world, begins=FIRST))
    assert not any(pinned.absent for pinned in plan.pinned)
    published(world, {day: 9})
    moved = {each.table: each.days for each in drift_since(plan, situation_of(world, begins=FIRST)).tables}
    reached = {each for each in differing(then, {**then, day: 9}) if each in chosen}
    assert moved == ({"bronze_planes": (day,)} if reached else {})


@settings(max_examples=20)
@given(changes, st.sampled_from(list(DAYS)))
def test_days_that_come_out_equal_make_nothing_stale(then: Seats, day: date) -> None:
    """A state that changes what no trip has: its days are built again, and their readers stay as they are."""
    then = {FIRST: 1, **then}
    world = published(a_world(then), {day: 7})
    for each in stale(world, "fact"):
        world.publish("fact", each)
    assert stale(world, "fact") == stale(world, "revenue") == set()


def test_a_day_that_is_taken_back_makes_what_reads_it_stale() -> None:
    """As an undo of its first publication leaves it."""
    world = a_world({FIRST: 1, FIRST + timedelta(days=4): 2, FIRST + timedelta(days=6): 3})
    gone = FIRST + timedelta(days=4)
    view = world.observed().over({"bronze_planes": {gone: DayRecord(day=gone)}})
    readers = stale_readers(STEPS, view, {"bronze_planes": {gone}})
    assert readers == {"fact": (gone, gone + timedelta(days=1))}
