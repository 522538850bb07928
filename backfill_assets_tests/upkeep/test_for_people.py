"""What is left to people: in the words of what was seen, about the earliest table, and not beside a plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.days import TableDay
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.failed_checks import HeldByGates
from backfill_assets.upkeep.repair import RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import RepairContext, RunningStreams
from backfill_assets_tests.plan.world import World
from backfill_assets_tests.upkeep.test_held_back import failed_on
from backfill_assets_tests.upkeep.weeks import D, E, happened, late, one_version_world, overwritten, published_by

STREAMED, AT = "20170401t120000-stream-raw-1", datetime(2017, 4, 1, 12, tzinfo=UTC)
USUAL = {"as_usual": "rows 10, usual 90 to 110"}


@pytest.fixture
def world() -> World:
    return one_version_world()


def _decide(world: World, **seen: object) -> RepairDecision:
    return repairs_needed(RepairContext(world.steps, world.observed(), **seen))  # type: ignore[arg-type]


def test_a_suspicion_is_told_of_the_earliest_table(world: World) -> None:
    suspicions = {TableDay(table, D): USUAL for table in ("fact", "raw", "bronze")}
    (action,) = _decide(world, suspicions={**suspicions, TableDay("fact", E): USUAL}).for_people[:1]
    assert (action.table, action.days, action.why) == ("raw", (D,), USUAL["as_usual"])
    told = {(each.table, each.days) for each in _decide(world, suspicions=suspicions).for_people}
    assert told == {("raw", (D,))}


def test_a_table_that_is_made_of_a_wrong_day_is_no_news(world: World) -> None:
    """The repair of what is above it changes its figures."""
    happened(world, overwritten("bronze", D))
    assert _decide(world, suspicions={TableDay("fact", D): USUAL}).for_people == ()


def test_days_of_one_check_are_one_action(world: World) -> None:
    suspicions = {TableDay("raw", day): {"as_declared": f"tier {day}"} for day in (D, E)}
    (action,) = _decide(world, suspicions=suspicions).for_people
    assert action.days == (D, E) and action.diagnosis and action.diagnosis.cause is Cause.DRIFT


def test_a_day_that_its_gates_hold_back_is_left_to_the_plan_that_is_rebuilding_it(world: World) -> None:
    """Its campaign holds the day back by itself, and says so."""
    happened(world, late(D))
    gates = failed_on(world, TableDay("bronze", D))
    assert len(_decide(world, failed_gates=gates).for_people) == 1
    decision = _decide(world, failed_gates=gates, rebuilt_by={TableDay("bronze", D): "plan-1"})
    assert decision.for_people == () and "plan-1 is rebuilding these days" in decision.waiting[0]


def test_an_unknown_gate_leaves_the_day_to_a_repair(world: World) -> None:
    happened(world, late(D))
    decision = _decide(world, failed_gates={TableDay("bronze", D): HeldByGates("30 %")})
    assert decision.launch and decision.for_people == ()


def test_a_held_back_day_behind_a_running_stream_is_told_when_the_stream_has_had_its_time(world: World) -> None:
    """It follows its own rows; a day that its gates hold back stays stale, and no repair is tried in vain."""
    happened(world, late(D), published_by(STREAMED, "raw", D))
    gates = failed_on(world, TableDay("bronze", D))
    for minutes, told in ((5, 0), (11, 1)):
        streams = RunningStreams({"raw"}, lambda name: AT if name == STREAMED else None)
        decision = _decide(world, failed_gates=gates, streams=streams, now=AT + timedelta(minutes=minutes))
        assert (len(decision.for_people), decision.launch) == (told, ())
        assert bool(decision.waiting) is not bool(told)
