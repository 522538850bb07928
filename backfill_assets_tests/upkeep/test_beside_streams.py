"""What is left to a running stream, and what is repaired although it runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pytest

from backfill_assets.upkeep.beside_streams import LEFT_FOR, tables_behind_streams
from backfill_assets.upkeep.repair import RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import (
    RepairContext,
    RunningStreams,
)
from backfill_assets_tests.plan.world import World
from backfill_assets_tests.upkeep.weeks import (
    DAYS,
    MONDAY,
    NEXT_WEEK,
    STEPS,
    D,
    E,
    Event,
    happened,
    late,
    one_version_world,
    overwritten,
    published,
    published_by,
)


@pytest.fixture
def world() -> World:
    return one_version_world()


NOON = datetime(2017, 3, 15, 12, tzinfo=UTC)
OF_STREAM, OF_BACKFILL = "20170315t115900-stream-raw-sales-1", "20170315t115900-bronze-1"
LEFT = "left to the running stream for 10 minutes"
BATCH = (
    published("fact", D, checksum="8"),
    published("revenue", D),
    published_by(OF_STREAM, "fact", D),
    published_by(OF_STREAM, "revenue", D),
)


@dataclass(frozen=True)
class Streamed:
    """What happened ``ago`` while streams of ``tables`` run, what is repaired, and what is left to them."""

    name: str
    events: tuple[Event, ...]
    repaired: dict[str, tuple[date, ...]]
    waiting: tuple[str, ...] = ()
    tables: tuple[str, ...] = ("raw",)
    ago: timedelta = timedelta(seconds=12)


LATE_BY_STREAM = (late(D), published_by(OF_STREAM, "raw", D))
STREAMED = (
    Streamed(
        "days that a stream has just extended are left to it",
        (late(D, E), published_by(OF_STREAM, "raw", D, E)),
        {},
        (f"bronze {D}, {E}: {LEFT}",),
    ),
    Streamed("the lease has ended", LATE_BY_STREAM, {"bronze": (D,)}, tables=()),
    Streamed("it appends to another table", LATE_BY_STREAM, {"bronze": (D,)}, tables=("raw_rates",)),
    Streamed("within ten minutes", LATE_BY_STREAM, {}, (f"bronze {D}: {LEFT}",), ago=LEFT_FOR - timedelta(seconds=1)),
    Streamed("a stream that does not follow hides no stale day", LATE_BY_STREAM, {"bronze": (D,)}, ago=LEFT_FOR),
    Streamed(
        "rows that a backfill has brought are repaired",
        (late(D, E), published_by(OF_BACKFILL, "raw", D), published_by(OF_STREAM, "raw", E)),
        {"bronze": (D,)},
        (f"bronze {E}: {LEFT}",),
    ),
    Streamed(
        "a foreign write is repaired at once",
        (overwritten("bronze", D), published_by(OF_STREAM, "raw", D)),
        {"bronze": (D,)},
    ),
    Streamed("a report that it does not follow is repaired", BATCH, {"weekly": (MONDAY,)}),
    Streamed(
        "at most every ten minutes: a week changes with every batch",
        (*BATCH, published_by(OF_BACKFILL, "weekly", MONDAY)),
        {},
        (f"weekly {MONDAY}: {LEFT}",),
    ),
    Streamed(
        "and again after them",
        (*BATCH, published_by(OF_BACKFILL, "weekly", MONDAY)),
        {"weekly": (MONDAY,)},
        ago=LEFT_FOR,
    ),
    Streamed(
        "a day whose rates change is repaired at once: it would never be its turn",
        (published("rates", NEXT_WEEK, checksum="8"), published_by(OF_STREAM, "fact", *DAYS)),
        {"fact": (NEXT_WEEK, DAYS.last)},
    ),
)


@pytest.mark.parametrize("case", STREAMED, ids=lambda case: case.name)
def test_what_is_left_to_a_running_stream(world: World, case: Streamed) -> None:
    """The tick says so. All but the first publications were made so long ago."""
    happened(world, *case.events)
    moments = {OF_STREAM: NOON - case.ago, OF_BACKFILL: NOON - case.ago, "p": NOON - timedelta(days=1)}
    streams = RunningStreams(case.tables, moments.get)
    seen = RepairContext(world.steps, world.observed(), streams=streams, now=NOON)
    decision: RepairDecision = repairs_needed(seen)
    repaired = {table: days for repair in decision.launch for table, days in repair.days.items()}
    assert case.repaired.items() <= repaired.items() and bool(repaired) is bool(case.repaired)
    assert decision.waiting == case.waiting


def test_what_a_stream_may_change_is_known_from_the_declarations(world: World) -> None:
    seen = RepairContext(STEPS, world.observed(), streams=RunningStreams(("raw_rates",)))
    assert tables_behind_streams(seen) == {"raw_rates", "rates", "fact", "revenue", "weekly"}
