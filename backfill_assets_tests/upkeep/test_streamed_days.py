"""Days that a running stream follows are left to it, for a bounded time, and shown with the reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from backfill_assets.days import TableDay
from backfill_assets.upkeep.repair import RepairDecision, repairs_needed
from backfill_assets.upkeep.streamed_days import LEFT_FOR, tables_behind_streams
from backfill_assets.upkeep.trouble import RepairContext, RunningStreams
from backfill_assets_tests.plan.world import World
from backfill_assets_tests.upkeep.weeks import (
    DAYS,
    MONDAY,
    NEXT_WEEK,
    STEPS,
    WEEK,
    D,
    E,
    late_rows,
    one_version_world,
)

NOON = datetime(2017, 3, 15, 12, tzinfo=UTC)
OF_STREAM, OF_BACKFILL = "20170315t115900-stream-raw-sales-1", "20170315t115900-bronze-1"


@pytest.fixture
def world() -> World:
    return one_version_world()


def published_by(world: World, publication: str, table: str, *days: date) -> None:
    """The newest publication of these days."""
    for day in days:
        key = TableDay(table, day)
        world.states[key] = replace(world.states[key], publication=publication)


def decide(world: World, *tables: str, ago: timedelta = timedelta(seconds=12)) -> RepairDecision:
    """With streams of these raw tables; all but the first publications were made so long ago."""
    moments = {OF_STREAM: NOON - ago, OF_BACKFILL: NOON - ago, "p": NOON - timedelta(days=1)}
    streams = RunningStreams(tables, NOON, moments.get)
    return repairs_needed(RepairContext(STEPS, world.observed(), streams=streams))


def repaired(decision: RepairDecision) -> dict[str, tuple[date, ...]]:
    return {table: days for repair in decision.launch for table, days in repair.days.items()}


def test_days_that_a_running_stream_has_just_extended_are_left_to_it(world: World) -> None:
    """The tick says so; nothing is launched."""
    late_rows(world, D, E)
    published_by(world, OF_STREAM, "raw", D, E)
    decision = decide(world, "raw")
    assert decision.launch == ()
    assert decision.waiting == (f"bronze {D}, {E}: left to the running stream for 10 minutes",)


def test_without_a_stream_they_are_repaired(world: World) -> None:
    """Its lease has ended, or it appends to another table."""
    late_rows(world, D)
    published_by(world, OF_STREAM, "raw", D)
    for tables in ((), ("raw_rates",)):
        assert set(repaired(decide(world, *tables))["bronze"]) == {D}


def test_days_that_it_has_not_followed_in_ten_minutes_are_repaired(world: World) -> None:
    """A stream that runs and does not follow must not hide stale days."""
    late_rows(world, D)
    published_by(world, OF_STREAM, "raw", D)
    assert repaired(decide(world, "raw", ago=LEFT_FOR - timedelta(seconds=1))) == {}
    assert repaired(decide(world, "raw", ago=LEFT_FOR))["bronze"] == (D,)


def test_rows_that_a_backfill_has_brought_are_repaired(world: World) -> None:
    """A stream follows its own rows only. Days of both are one decision."""
    late_rows(world, D, E)
    published_by(world, OF_BACKFILL, "raw", D)
    published_by(world, OF_STREAM, "raw", E)
    decision = decide(world, "raw")
    assert repaired(decision)["bronze"] == (D,)
    assert decision.waiting == (f"bronze {E}: left to the running stream for 10 minutes",)


def test_other_reasons_are_repaired_at_once(world: World) -> None:
    """A foreign write is no late row, on the same day too."""
    world.write_past_the_protocol("bronze", D)
    published_by(world, OF_STREAM, "raw", D)
    assert repaired(decide(world, "raw"))["bronze"] == (D,)


def test_a_report_that_it_does_not_follow_is_repaired_at_most_every_ten_minutes(world: World) -> None:
    """Its week changes with every batch: a backfill for each would be one a minute."""
    world.publish("fact", D, checksum="8")
    world.publish("revenue", D)
    for table in ("fact", "revenue"):
        published_by(world, OF_STREAM, table, D)
    assert repaired(decide(world, "raw")) == {"weekly": (MONDAY,)}
    published_by(world, OF_BACKFILL, "weekly", MONDAY)
    decision = decide(world, "raw")
    assert (decision.launch, decision.waiting) == (
        (),
        (f"weekly {MONDAY}: left to the running stream for 10 minutes",),
    )
    assert repaired(decide(world, "raw", ago=LEFT_FOR)) == {"weekly": (MONDAY,)}


def test_a_day_of_the_stream_whose_rates_change_is_repaired_at_once(world: World) -> None:
    """The stream would extend it with every batch, and it would never be its turn."""
    world.publish("rates", NEXT_WEEK, checksum="8")
    published_by(world, OF_STREAM, "fact", *DAYS)
    assert NEXT_WEEK in repaired(decide(world, "raw"))["fact"]


def test_what_a_stream_may_change_is_known_from_the_declarations(world: World) -> None:
    seen = RepairContext(STEPS, world.observed(), streams=RunningStreams(("raw_rates",)))
    assert tables_behind_streams(seen) == {"raw_rates", "rates", "fact", "revenue", "weekly"}
    assert WEEK.first == MONDAY
