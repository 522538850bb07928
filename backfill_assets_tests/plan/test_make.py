"""A plan has exactly the days that follow from what reads what, says why, and is the same however it was found."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.declaration import Reads, Step
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import Plan, PlanTerms, Scope, Span, days_of
from backfill_assets.plan.situation import Machine
from backfill_assets.state.diagnosis import Cause
from backfill_assets_tests.plan.world import (
    WINDOW,
    D,
    World,
    a_report,
    a_step,
    asked,
    situation_of,
    whys,
    world_of,
)
from backfill_assets_tests.strategies.how_many import drawn


def test_another_version_reaches_each_day_week_and_month(world: World) -> None:
    """The table itself for its code, what is made of it for its input."""
    plan = make_plan(asked("fact", "2017-03-04..2017-03-07", version="v1"), situation_of(world))
    days = [f"2017-03-0{n}" for n in (4, 5, 6, 7)]
    assert whys(plan) == {
        "fact": dict.fromkeys(days, Cause.CODE_CHANGED),
        "daily": dict.fromkeys(days, Cause.INPUT_REBUILT),
        "weekly": dict.fromkeys(["2017-02-27", "2017-03-06"], Cause.INPUT_REBUILT),
        "monthly": {"2017-03-01": Cause.INPUT_REBUILT},
    }
    assert plan.steps[0].version == "v1" and plan.basis.code["fact"] == "v1"
    assert [(each.first, each.last, each.days) for each in plan.as_of] == [(-3, -1, ("2017-03-01..2017-03-06",))]
    pinned = {each.table: each.days for each in plan.pinned}
    assert pinned["rates"] == ("2017-03-01..2017-03-06",) and pinned["bronze"] == ("2017-03-04..2017-03-07",)
    cut = [finding for finding in plan.findings if finding.kind == "cut period"]
    assert [(each.table, each.severity) for each in cut] == [("weekly", "warns")] and "Mixed logic" in cut[0].message


def test_newest_first_is_part_of_the_plan_with_the_days_that_come_before_their_turn(world: World) -> None:
    """Only days that the plan builds too: rates of the two days before, also for facts that come along."""
    question = asked("fact", "2017-03-04..2017-03-07", scope=Scope.WHOLE, force=True)
    plain, newest = (
        make_plan(each, situation_of(world)) for each in (question, question.model_copy(update={"newest_first": True}))
    )
    assert plain.ahead == () and "newest" not in plain.to_json() and plain.id != newest.id
    assert [(each.step, each.table, each.days) for each in newest.ahead] == [
        ("fact", "rates", ("2017-03-02..2017-03-07",))
    ]
    assert newest.command() == f"{plain.command()} --newest-first" and Plan.from_json(newest.to_json()) == newest


def test_time_and_cost_come_from_earlier_publications_or_are_unknown(world: World) -> None:
    """By the bytes that a day reads; a step that was never timed is named, and not guessed."""
    for key in (TableDay("fact", date(2017, 3, 1)), TableDay("fact", date(2017, 3, 2))):
        state = world.states[key]
        assert state.content is not None
        timed = replace(state.content, staged_ms=3000)
        world.states[key] = replace(state, content=timed)
    sizes = {"bronze": dict.fromkeys(WINDOW, 1000) | {D: 2000}}
    machine = Machine(cores=2, core_hour_price=Decimal("0.5"))
    plan = make_plan(asked("fact", force=True), situation_of(world, bytes=sizes, machine=machine))
    fact = plan.steps[0].estimate
    assert (fact.time, fact.rows_written) == (Span(median=6.0, low=6.0, high=6.0, samples=2), 1)
    assert plan.cost.unknown == ("daily", "monthly", "weekly")
    assert (plan.cost.core_seconds, plan.cost.money) == (12.0, Decimal("0.0017"))


def test_what_a_first_build_reads_is_unknown(world: World) -> None:
    """Of a table of which nothing was ever published, and that the plan builds first: not 0 rows."""
    for key in [key for key in world.states if key.table in ("fact", "daily")]:
        del world.states[key], world.newest[key.table][key.day], world.pinned[key.table][key.day]
    plan = make_plan(asked("fact"), situation_of(world))
    daily = next(step for step in plan.steps if step.name == "daily").estimate
    assert (daily.rows_read, daily.bytes_read, daily.rows_written) == (None, None, None)
    assert plan.steps[0].estimate.rows_read == 4, "its inputs are published"
    assert (plan.cost.time, plan.cost.core_seconds, plan.cost.money) == (None, None, None), "no step was timed"


@st.composite
def chains(draw: st.DrawFn) -> tuple[Step, ...]:
    """A raw table and up to five that read what is before them, at any offsets; weeks and months read and are not."""
    steps = [a_step("t0", source=True)]
    daily = ["t0"]
    for number in range(1, draw(st.integers(2, 6))):
        cadence = draw(st.sampled_from(list(Cadence)))
        reads = []
        for table in draw(st.lists(st.sampled_from(daily), min_size=1, max_size=2, unique=True)):
            first = draw(st.integers(-9, 0))
            reads.append(Reads(table, first, draw(st.integers(first, 0)), partial=draw(st.booleans())))
        steps.append(a_report(f"t{number}", *reads, cadence=cadence))
        daily += [f"t{number}"] * (cadence is Cadence.DAILY)
    return tuple(steps)


def _reached(steps: Iterable[Step], target: str, days: DayRange) -> dict[str, set[date]]:
    """By asking each period of each table whether it reads a day that is rebuilt."""
    found: dict[str, set[date]] = {}
    for step in steps:
        if step.name == target:
            found[step.name] = {step.cadence.period(day).first for day in days}
            continue
        for start in {step.cadence.period(day).first for day in WINDOW}:
            period = step.cadence.period(start)
            reads = () if step.source else step.version().reads
            if any(day in found.get(read.table, ()) for read in reads for day in read.days(period)):
                found.setdefault(step.name, set()).add(start)
    return found


@settings(max_examples=drawn(12))
@given(chains(), st.data())
def test_a_plan_has_exactly_the_days_that_can_be_reached(steps: tuple[Step, ...], data: st.DataObject) -> None:
    """Closure by brute force; the plan goes to JSON and back; its id does not depend on the order of anything."""
    target = data.draw(st.sampled_from([step.name for step in steps if step.source is None]))
    first = data.draw(st.integers(7, len(WINDOW) - 8))
    length = data.draw(st.integers(0, 5))
    days = DayRange(WINDOW.first + timedelta(days=first), WINDOW.first + timedelta(days=first + length))
    world = world_of(steps)
    question = asked(target, str(days), force=data.draw(st.just(True)))
    plan = make_plan(question, situation_of(world))
    planned = {table: set(found) for table, found in plan.rebuilds.items()}
    everything = {step.name: set(step.days) | set(days_of(step.skipped)) for step in plan.steps}
    assert planned == everything == _reached(steps, target, days)
    again = Plan.from_json(plan.to_json(), id=plan.id)
    assert again == plan and again.id == plan.id
    shuffled = list(world.states.items())
    random.Random(first).shuffle(shuffled)
    other = World(dict(shuffled), world.newest, world.pinned, world.steps)
    reordered = make_plan(question, situation_of(other, now=situation_of(world).now + timedelta(hours=11)))
    assert reordered.id == plan.id
    assert plan.model_copy(update={"steps": plan.steps[::-1], "pinned": plan.pinned[::-1]}).id == plan.id


def test_a_plan_that_is_kept_has_no_fields_of_a_run(world: World) -> None:
    """Its id is made of what it has."""
    step = make_plan(asked("fact", force=True), situation_of(world)).steps[0]
    assert not {"later", "earlier", "to_ingest"} & step.model_dump(mode="json").keys()
    assert step.model_copy(update={"to_ingest": {D: 2}}).model_dump(mode="json")["to_ingest"] == {str(D): 2}


def test_a_changed_plan_is_not_the_plan(world: World) -> None:
    """The id is what was approved."""
    plan = make_plan(asked("fact", force=True), situation_of(world))
    other = plan.to_json().replace('"force": true', '"force": false')
    with pytest.raises(InvalidRequest, match="it was changed"):
        Plan.from_json(other, id=plan.id)


def test_a_plan_that_a_newer_process_has_kept_is_named(world: World) -> None:
    """A pydantic error does not say which plan it is, nor what to do."""
    plan = make_plan(asked("fact"), situation_of(world))
    newer = json.dumps(json.loads(plan.to_json()) | {"pace": "slow"})
    with pytest.raises(InvalidRequest, match=f"{plan.id} cannot be read: pace: Extra inputs are not permitted") as told:
        Plan.from_json(newer, id=plan.id)
    assert "A newer backfill made it" in (told.value.hint or "")
    with pytest.raises(InvalidRequest, match=f"{plan.id} cannot be read: Invalid JSON"):
        Plan.from_json(plan.to_json()[:-9], id=plan.id)


def test_what_a_file_says_of_the_campaign_is_part_of_the_plan_and_of_its_id(world: World) -> None:
    """A plan without it is stored, and named, as before there were files."""
    plain = make_plan(asked("fact", version="v1"), situation_of(world))
    assert "terms" not in json.loads(plain.to_json())["asked"]
    ids = {plain.id}
    for terms in (
        {"title": "Rates"},
        {"reason": "v1 was wrong"},
        {"waves": "100%"},
        {"limits": "money=5"},
        {"approvers": ("ana",)},
        {"approvals": 2},
        {"notices": ("managers",)},
    ):
        plan = make_plan(asked("fact", version="v1", terms=terms), situation_of(world))
        assert json.loads(plan.to_json())["asked"]["terms"].keys() == terms.keys()
        assert Plan.from_json(plan.to_json(), id=plan.id) == plan
        ids.add(plan.id)
    assert len(ids) == 8
    both = [PlanTerms(approvers=names) for names in (("ana", "bela"), ("bela", "ana"))]
    assert len({make_plan(asked("fact", terms=each), situation_of(world)).id for each in both}) == 1


def test_when_nothing_is_left_to_rebuild_its_expectations_are_still_known(world: World) -> None:
    """A file whose plan was carried out is checked for years: it stays a plan that may be carried out."""
    assert not make_plan(asked("fact"), situation_of(world)).rebuilds
    expected = Expectation.parse("everything unchanged in fact")
    assert make_plan(asked("fact", expectations=[expected]), situation_of(world)).expectations == (expected,)
    with pytest.raises(InvalidRequest, match="'euros' is no measure"):
        make_plan(asked("fact", expectations=[Expectation.parse("euros unchanged")]), situation_of(world))


def test_the_id_of_a_plan_is_of_its_content() -> None:
    """Expectations make it another plan, and times do not; a plan without expectations has no word of them."""
    plan = Plan(asked=asked("fact"), steps=(), made_at=datetime(2017, 6, 1, tzinfo=UTC))
    assert "expectations" not in json.loads(plan.to_json())["asked"]
    assert Plan.from_json(plan.to_json(), id=plan.id) == plan
    timed = plan.model_copy(update={"times": {"validated": Span.of([1.0, 2.0])}})
    assert timed.id == plan.id and Plan.from_json(timed.to_json(), id=plan.id) == timed, "it is the same plan"
    question = plan.asked.model_copy(update={"expectations": (Expectation.parse("rows unchanged"),)})
    expected = plan.model_copy(update={"asked": question})
    assert expected.id != plan.id
    assert Plan.from_json(expected.to_json(), id=expected.id) == expected
