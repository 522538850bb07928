"""Closed days in plans, runs and repairs: nothing builds them, and each says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.declaration import FROM
from backfill_assets.plan.keep import require_open_days
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import days_of
from backfill_assets.plan.table_run import RunRequest, plan_run
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.repair import repairs_needed
from backfill_assets.upkeep.trouble import RepairContext
from backfill_assets_tests.plan.world import PIPELINE, D, World, asked, situation_of, whys, world_of

NEXT = D + timedelta(days=1)
NOW = datetime(2017, 5, 3, tzinfo=UTC)
DAYS = f"{D}..{NEXT}"
WORDS = f"bronze: {D} is closed by ana on 2017-05-02: reported. Left as it is:"


def world_with_late_rows() -> World:
    """On two days, the first of which is closed."""
    found = world_of()
    for day in (D, NEXT):
        found.publish("raw", day, checksum="late")
    found.close(D, D)
    return found


@pytest.fixture
def world() -> World:
    return world_with_late_rows()


def with_received(world: World, table: str, day: date, **metrics: int) -> None:
    key = TableDay(table, day)
    content = world.states[key].content
    assert content is not None
    world.states[key] = replace(world.states[key], content=replace(content, metrics={**content.metrics, **metrics}))


def test_a_plan_leaves_closed_days_out_and_says_what_would_have_changed(world: World) -> None:
    with_received(world, "raw", D, received=12)
    with_received(world, "bronze", D, **{f"{FROM}raw.received": 10})
    plan = make_plan(asked("bronze", DAYS), situation_of(world))
    assert whys(plan)["bronze"] == {str(NEXT): Cause.LATE}
    assert whys(plan)["fact"] == {str(NEXT): Cause.INPUT_REBUILT}
    assert "weekly" not in whys(plan) and "monthly" not in whys(plan), "they have the closed day in them"
    found = {each.table: each for each in plan.findings if each.kind == "closed"}
    assert list(found) == ["bronze", "monthly", "weekly"] and {each.severity for each in found.values()} == {"warns"}
    assert found["bronze"].message == f"{WORDS} stale: late rows on {D}; 2 rows are waiting in raw."
    assert found["bronze"].next_step.startswith(f"backfill reopen {D} --reason")
    assert found["weekly"].message.endswith("Left as it is: an input is rebuilt on 2017-03-06.")


def test_a_plan_of_closed_days_alone_is_stopped(world: World) -> None:
    plan = make_plan(asked("bronze", str(D)), situation_of(world))
    assert plan.stopped and not whys(plan)
    assert [(each.severity, each.table) for each in plan.findings if each.kind == "closed"] == [("stops", "bronze")]


def test_days_that_are_closed_since_the_plan_was_made_refuse_it(world: World) -> None:
    plan = make_plan(asked("bronze", DAYS), situation_of(world))
    require_open_days(plan, situation_of(world))
    world.close(NEXT, NEXT, "fact")
    with pytest.raises(InvalidRequest, match=f"fact {NEXT} is closed by ana"):
        require_open_days(plan, situation_of(world))


def test_a_run_leaves_them_out_forced_or_not(world: World) -> None:
    for force in (False, True):
        request = RunRequest(["bronze"], list(DayRange(D, NEXT)), force=force)
        plan = plan_run(request, PIPELINE, world.observed(), NEXT + timedelta(days=1))
        assert [(each.days, days_of(each.skipped)) for each in plan.steps] == [((NEXT,), [D])]
        assert [(each.kind, each.message.startswith(WORDS)) for each in plan.findings] == [("closed", True)]


def test_no_repair_builds_them_and_no_incident_is_opened(world: World) -> None:
    decision = repairs_needed(RepairContext(PIPELINE, world.observed(), now=NOW))
    (repair,) = decision.launch
    assert {name: days for name, days in repair.days.items() if D in days} == {}
    assert NEXT in repair.days["bronze"] and "weekly" not in repair.days
    found = {each.table: each for each in decision.findings if each.cause is Cause.CLOSED}
    assert found["bronze"].silent and found["bronze"].diagnosis.words == "closed by ana on 2017-05-02: reported"
