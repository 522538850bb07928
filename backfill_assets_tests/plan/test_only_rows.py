"""Some rows of days are planned by the version that the days have, or refused with what can be done instead."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import date

import pytest
from pyspark.sql import types as T

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Step, Table
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import Plan, PlanRequest, Scope
from backfill_assets.plan.situation import PlanContext
from backfill_assets.state.diagnosis import Cause
from backfill_assets_tests.plan.world import PIPELINE, D, World, asked, situation_of, whys, world_of

NEXT = date(2017, 3, 9)
WHERE = "store in (7, 3)"


class Sold(Contract):
    store: T.StringType = Field(key=True)
    day: T.DateType = Field()


def keyed(step: Step, *names: str) -> Step:
    tables = tuple(Table(name, "fact", "", Sold, key=("store",)) for name in names or step.table_names)
    return replace(step, tables=tables)


@pytest.fixture
def world() -> World:
    return world_of(tuple(keyed(step) if step.name in ("bronze", "fact", "raw") else step for step in PIPELINE))


def plan(world: World, days: str = str(D), **more: object) -> Plan:
    return make_plan(asked("fact", days, where=WHERE, **more), situation_of(world))


def test_the_target_is_rebuilt_by_its_own_version_and_what_follows_whole(world: World) -> None:
    world.publish("fact", D, code="v1")
    found = plan(world)
    assert (found.asked.where, found.asked.version) == ("store in ('3', '7')", "v1")
    assert {table: set(days.values()) for table, days in whys(found).items()} == {
        "fact": {Cause.ASKED_FOR},
        "daily": {Cause.INPUT_REBUILT},
        "weekly": {Cause.INPUT_REBUILT},
        "monthly": {Cause.INPUT_REBUILT},
    }
    assert found.steps[0].version == "v1"
    again = make_plan(found.asked, situation_of(world))
    assert again.id == found.id and Plan.from_json(found.to_json()) == found
    assert shlex.split(found.command())[-4:] == ["--version", "v1", "--where", found.asked.where]


def refusals(world: World) -> dict[str, tuple[PlanContext, PlanRequest]]:
    here, request = situation_of(world), asked("fact", f"{D}..{NEXT}", where=WHERE)
    mixed, absent, gone = world.copy(), world.copy(), world.copy()
    mixed.publish("fact", NEXT, code="v1")
    absent.forget("fact", NEXT)
    for day in (D, NEXT):
        gone.publish("fact", day, code="v0")
    foreign = world.copy()
    foreign.write_past_the_protocol("fact", D)
    return {
        "neither of its key": (here, request.model_copy(update={"where": "rate = 1"})),
        "--scope whole is not": (here, request.model_copy(update={"scope": Scope.WHOLE})),
        "--scope source is not": (here, request.model_copy(update={"scope": Scope.SOURCE})),
        "taken in as they land": (here, request.model_copy(update={"target": "raw"})),
        "accounted for by whole days": (here, request.model_copy(update={"target": "bronze"})),
        "not as published on 2017-03-09": (situation_of(absent), request),
        "not as published on 2017-03-08": (situation_of(foreign), request),
        "has several: v1: 2017-03-09; v2: 2017-03-08": (situation_of(mixed), request),
        "with v0 on 2017-03-08..2017-03-09, which is not declared": (situation_of(gone), request),
        "rows by v1 would mix": (here, request.model_copy(update={"version": "v1"})),
    }


def test_rows_that_cannot_be_rebuilt_by_themselves_are_refused(world: World) -> None:
    for said, (situation, request) in refusals(world).items():
        with pytest.raises(InvalidRequest) as refused:
            make_plan(request, situation)
        assert said in refused.value.message and refused.value.hint


def test_a_table_that_is_built_with_the_target_needs_the_columns_too(world: World) -> None:
    step = next(step for step in world.steps if step.name == "fact")
    both = replace(step, tables=(*step.tables, Table("beside", "fact", "", Contract, key=())))
    steps = tuple(both if step is each else each for each in world.steps)
    with pytest.raises(InvalidRequest, match="beside is built with fact, and has no store"):
        make_plan(asked("fact", where=WHERE), situation_of(replace(world, steps=steps)))
    assert TableDay("fact", D) in world.states
