"""A day that its gates hold back is for a person at once, in their words, until its inputs or its logic change."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.upkeep.failed_checks import HeldByGates, HeldByStream
from backfill_assets.upkeep.repair import RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import RepairContext
from backfill_assets_tests.plan.world import World, noon_of
from backfill_assets_tests.upkeep.weeks import STEPS, D, E, happened, late, one_version_world

WORDS = "rejected_at_most: expected at most 1 %, observed 30 % -> correct the file"


@pytest.fixture
def world() -> World:
    """Two days got late rows."""
    return happened(one_version_world(), late(D, E))


def failed_on(world: World, key: TableDay, code: str = "v2") -> dict[TableDay, HeldByGates]:
    """The day failed its gates when it was built from what there is now, by the version ``code``."""
    built = one_version_world()
    built.states, built.newest, built.pinned = dict(world.states), world.newest, world.pinned
    inputs = built._inputs(key.table, key.day, code)
    return {key: HeldByGates(WORDS, fingerprints.input_fingerprint(code, "", inputs))}


def decide(world: World, gates: dict[TableDay, HeldByGates]) -> RepairDecision:
    return repairs_needed(RepairContext(STEPS, world.observed(), failed_gates=gates))


@pytest.mark.parametrize("table", ["bronze", "quarantine"])
def test_what_would_fail_again_is_for_a_person_and_the_others_are_repaired(world: World, table: str) -> None:
    """Whichever table of the step it was: they are built together."""
    decision = decide(world, failed_on(world, TableDay(table, D)))
    (repair,), (action,) = decision.launch, decision.for_people
    assert repair.days["bronze"] == (E,)
    assert str(action) == (
        f"bronze {D}: its gates hold it back, and would again ({D}: {WORDS}) -> "
        f"put the source or the logic right, then backfill run bronze+ --days {D}"
    )


def test_other_inputs_or_other_logic_are_another_attempt(world: World) -> None:
    """What was said of other rows says nothing of these; and where it is not known what was built, it is tried."""
    key = TableDay("bronze", D)
    gates = failed_on(world, key)
    world.publish("raw", D, checksum="9", rows=3)
    for other in (gates, failed_on(world, key, code="v1"), {key: replace(gates[key], made_of="")}):
        decision = decide(world, other)
        assert decision.launch[0].days["bronze"] == (D, E) and not decision.for_people


def test_a_day_that_was_never_built_is_not_tried_once_more(world: World) -> None:
    """Its daily job has failed; a repair would fail as that did."""
    for table in ("bronze", "quarantine"):
        del world.states[TableDay(table, D)], world.newest[table][D], world.pinned[table][D]
    decision = decide(world, failed_on(world, TableDay("bronze", D)))
    assert WORDS in str(decision.for_people[0])
    assert all(D not in repair.days.get("bronze", ()) for repair in decision.launch)


def test_many_days_of_a_table_are_one_line_with_an_example(world: World) -> None:
    gates = failed_on(world, TableDay("bronze", D)) | failed_on(world, TableDay("bronze", E))
    decision = decide(world, gates)
    (action,) = decision.for_people
    assert (decision.launch, action.days) == ((), (D, E)) and f"({D}: " in action.why


def test_what_a_stream_holds_back_of_today_is_told_and_other_days_of_today_are_not(world: World) -> None:
    """The day has no partition yet, and no repair builds it: the stream does."""
    streamed = HeldByStream("60 events reach no table", 60, datetime(2017, 3, 7, 9, tzinfo=UTC), "release it")
    seen = RepairContext(STEPS, world.observed(), now=noon_of(D), is_built=lambda *_: False)
    assert not repairs_needed(seen).for_people
    decision = repairs_needed(replace(seen, held_by_streams={TableDay("bronze", D): streamed}))
    (action,) = decision.for_people
    assert (action.table, action.days, action.why, decision.launch) == ("bronze", (D,), streamed.words, ())
    assert action.next_step == "to publish the day without them: release it"
