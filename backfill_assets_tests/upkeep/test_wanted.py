"""What a decision does about each day, and the first builds that no incident keeps."""

from __future__ import annotations

import pytest

from backfill_assets.days import TableDay
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.repair import RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import RepairContext
from backfill_assets.upkeep.wanted import Wanted, first_builds, unrecorded, with_failed_builds
from backfill_assets_tests.plan.world import World
from backfill_assets_tests.upkeep.incident import OPENED_AT
from backfill_assets_tests.upkeep.weeks import DAYS, STEPS, D, E, late, one_version_world


@pytest.fixture
def world() -> World:
    return one_version_world()


def _decide(world: World, **seen: object) -> RepairDecision:
    return repairs_needed(RepairContext(STEPS, world.observed(), **seen))  # type: ignore[arg-type]


def test_a_repair_is_of_the_cause_that_it_was_launched_for(world: World) -> None:
    """Figures of the same day that are unusual are another thing: a person looks at these."""
    late(D)(world)
    unusual = {TableDay("bronze", E): {"as_usual": "rows 10, usual 90 to 110"}}
    wanted = Wanted.of(_decide(world, suspicions=unusual))
    assert set(wanted.launched) == {(TableDay("bronze", D), Cause.LATE)}
    assert wanted.acted_on == {*wanted.launched, (TableDay("bronze", E), Cause.UNUSUAL)}


def test_a_first_build_is_launched_and_kept_in_no_incident(world: World) -> None:
    world.forget("revenue", DAYS.last)
    decision = _decide(world)
    (build,) = first_builds(decision, OPENED_AT)
    assert unrecorded(decision, [], OPENED_AT) == [build] and set(build.days) == {"revenue"}
    assert [each.growing for each in with_failed_builds(decision, [build.id]).findings] == [False]
    assert with_failed_builds(decision, ["another"]) is decision


def test_a_day_between_others_that_was_never_built_is_none(world: World) -> None:
    world.forget("revenue", D)
    assert first_builds(_decide(world), OPENED_AT) == []
