"""A plan has exactly the days that follow from what reads what, says why, and is the same however it was found."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.landing.landed_days import LandedDay
from backfill_assets.model.declaration import Reads, Step, Table, Version
from backfill_assets.plan.basis import drift_since
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import Plan, PlanRequest, Scope, Why, days_of
from backfill_assets.plan.situation import Machine, PlanContext
from backfill_assets.plan.text import headline, markdown, scope_line, step_rows
from backfill_assets_tests.plan.test_status import Anything, World, _step

WINDOW = DayRange.parse("2017-02-20..2017-04-09")
D = date(2017, 3, 8)
V1, V2 = (
    Version("v1", "", (Reads("bronze"), Reads("rates", -3, -1)), dict),
    Version("v2", "", (Reads("bronze"), Reads("rates", -2, 0)), dict),
)


def _built(name: str, *reads: Reads, cadence: Cadence = Cadence.DAILY) -> Step:
    return Step((Table(name, "fact", "", Anything, key=()),), (Version("v2", "", reads, dict),), "v2", cadence=cadence)


STEPS = (
    _step("raw_rates", source=True),
    _step("raw", source=True),
    _step("rates", reads=(Reads("raw_rates"),)),
    _step("bronze", "quarantine", reads=(Reads("raw"),)),
    Step((Table("fact", "fact", "", Anything, key=()),), (V1, V2), "v2"),
    _built("daily", Reads("fact")),
    _built("weekly", Reads("fact", partial=True), cadence=Cadence.WEEKLY),
    _built("monthly", Reads("daily", partial=True), cadence=Cadence.MONTHLY),
)


SCHEMA = '{"fields":[{"name":"day","type":"string","nullable":true}]}'


def world_of(steps: Sequence[Step], window: DayRange = WINDOW) -> World:
    """Everything published, from what it reads, in order: all of it is fresh."""
    world = World({}, {}, {}, tuple(steps))
    for step in steps:
        for table in step.tables:
            for day in step.cadence.starts(window):
                world.publish(table.name, day)
    return world


def situation_of(world: World, **more: object) -> PlanContext:
    known: dict[str, object] = {"begins": WINDOW.first, "today": WINDOW.last + timedelta(days=1), **more}
    return PlanContext(steps=world.steps, observed=world.observed(), **known)  # type: ignore[arg-type]


def asked(target: str, days: str = str(D), **more: object) -> PlanRequest:
    return PlanRequest(target=target, days=days, **more)  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    return world_of(STEPS)


def whys(plan: Plan) -> dict[str, dict[str, Why]]:
    return {step.name: {str(day): why for day, why in step.why.items()} for step in plan.steps if step.rebuild}


def test_nothing_changed_is_nothing_to_do(world: World) -> None:
    """Everything in reach is looked at, and skipped."""
    plan = make_plan(asked("fact"), situation_of(world))
    assert whys(plan) == {} and not plan.stopped
    assert [step.name for step in plan.steps] == ["fact", "daily", "weekly", "monthly"]
    assert "nothing to rebuild" in headline(plan)


def test_another_version_reaches_each_day_week_and_month(world: World) -> None:
    """The table itself for its code, what is made of it for its input."""
    plan = make_plan(asked("fact", "2017-03-04..2017-03-07", version="v1"), situation_of(world))
    days = [f"2017-03-0{n}" for n in (4, 5, 6, 7)]
    assert whys(plan) == {
        "fact": dict.fromkeys(days, Why.CODE_CHANGED),
        "daily": dict.fromkeys(days, Why.INPUT_REBUILT),
        "weekly": dict.fromkeys(["2017-02-27", "2017-03-06"], Why.INPUT_REBUILT),
        "monthly": {"2017-03-01": Why.INPUT_REBUILT},
    }
    assert plan.steps[0].version == "v1" and plan.basis.code["fact"] == "v1"
    assert [(each.first, each.last, each.days) for each in plan.as_of] == [(-3, -1, ("2017-03-01..2017-03-06",))]
    pinned = {each.table: each.days for each in plan.pinned}
    assert pinned["rates"] == ("2017-03-01..2017-03-06",) and pinned["bronze"] == ("2017-03-04..2017-03-07",)
    cut = [finding for finding in plan.findings if finding.kind == "cut period"]
    assert [(each.table, each.severity) for each in cut] == [("weekly", "warns")] and "Mixed logic" in cut[0].message


def test_a_changed_rate_reaches_every_day_that_looks_back_at_it(world: World) -> None:
    """And the table that was asked for is left alone if it is right already."""
    world.publish("rates", D, checksum="9")
    plan = make_plan(asked("rates", scope=Scope.DOWNSTREAM), situation_of(world))
    days = ["2017-03-08", "2017-03-09", "2017-03-10"]
    assert whys(plan)["fact"] == dict.fromkeys(days, Why.INPUT_CHANGED)
    assert whys(plan)["daily"] == dict.fromkeys(days, Why.INPUT_REBUILT)
    assert "rates" not in {step.name for step in plan.steps}


def test_a_plan_for_rates_has_the_later_days_that_use_them(world: World) -> None:
    """They are not in the range that was asked for; nothing else after it is."""
    world.publish("raw_rates", D, checksum="9")
    found = whys(make_plan(asked("rates"), situation_of(world)))
    assert found["rates"] == {str(D): Why.INPUT_CHANGED}
    assert found["fact"] == dict.fromkeys(["2017-03-08", "2017-03-09", "2017-03-10"], Why.INPUT_REBUILT)
    assert found["weekly"] == {"2017-03-06": Why.INPUT_REBUILT}


def test_from_the_source_takes_in_what_landed_and_rebuilds_what_reads_it(world: World) -> None:
    """What is fresh upstream is skipped, and what is made of the rebuilt days anywhere comes along."""
    landed = {"raw": {D: LandedDay(("a", "b"), waiting=("b",), bytes=120)}, "raw_rates": {}}
    plan = make_plan(asked("fact", scope=Scope.WHOLE), situation_of(world, landed=landed))
    found = whys(plan)
    assert found["raw"] == {str(D): Why.LANDED} and found["bronze"] == {str(D): Why.INPUT_REBUILT}
    assert "rates" not in found and plan.steps[0].kind == "take in"
    assert found["fact"] == {str(D): Why.INPUT_REBUILT}
    raw = next(step for step in plan.steps if step.name == "raw").estimate
    assert (raw.bytes_read, raw.rows_read) == (120, None), "the rows of landed files are unknown"


@pytest.mark.parametrize(
    ("change", "kind", "severity"),
    [
        ({"today": D}, "days not ended", "stops"),
        ({"begins": D + timedelta(days=1)}, "days before the beginning", "stops"),
        ({"machine": Machine(free_bytes=10), "bytes": {"fact": {D: 100}}}, "disk space", "stops"),
        ({"machine": Machine(free_bytes=150), "bytes": {"fact": {D: 100}}}, "disk space", "warns"),
        ({"landed": {"raw": {D: LandedDay(("a",), ("a",), 1)}}}, "source days incomplete", "warns"),
        (
            {"schemas": {"fact": SCHEMA}, "declared_schemas": {"fact": SCHEMA.replace("string", "date")}},
            "schema",
            "stops",
        ),
        (
            {"files_may_go": {"bronze": datetime(2017, 4, 3, tzinfo=UTC)}, "now": datetime(2017, 3, 31, tzinfo=UTC)},
            "retention",
            "warns",
        ),
    ],
)
def test_what_blocks_it_is_found_before(world: World, change: dict[str, object], kind: str, severity: str) -> None:
    """Each finding has a severity and says what to do; only one that stops makes the plan stopped."""
    plan = make_plan(asked("fact", force=True), situation_of(world, **change))
    found = [finding for finding in plan.findings if finding.kind == kind]
    assert [(each.severity, bool(each.next_step)) for each in found] == [(severity, True)]
    assert plan.stopped is (severity == "stops")


def test_inputs_that_are_not_there_or_not_sound_are_reported(world: World) -> None:
    """A missing input day stops; one that is stale is read as it is, with a warning; others' writes are replaced."""
    world.publish("raw", D, checksum="9")
    world.write_past_the_protocol("daily", D)
    for table in ("bronze", "quarantine"):
        del world.states[TableDay(table, date(2017, 3, 9))]
    plan = make_plan(asked("fact", "2017-03-08..2017-03-09", force=True), situation_of(world))
    told = {finding.kind: finding for finding in plan.findings}
    assert told["input days not published"].days == ("2017-03-09",) and plan.stopped
    unsound = [finding.message for finding in plan.findings if finding.kind == "input days not fresh"]
    assert "bronze is read as it is on 2017-03-08, which is stale: input changed." in unsound
    assert told["foreign write"].table == "daily"
    assert whys(plan)["daily"]["2017-03-08"] is Why.FOREIGN_WRITE


def test_others_who_are_at_the_same_days_are_reported(world: World) -> None:
    """Open publications by table, open plans by day."""
    first = make_plan(asked("fact", version="v1"), situation_of(world))
    observed = replace(world.observed(), open=("p9",), writing={"p9": frozenset({"daily"}), "p8": frozenset({"raw"})})
    situation = replace(situation_of(world, open_plans=[first]), observed=observed)
    plan = make_plan(asked("fact", version="v1"), situation)
    kinds = [finding.kind for finding in plan.findings if finding.kind in ("overlapping plan", "publication under way")]
    assert kinds.count("publication under way") == 1 and kinds.count("overlapping plan") == 4
    assert not plan.stopped and plan.id != first.id


def test_an_unknown_version_stops_and_an_unknown_table_cannot_be_planned(world: World) -> None:
    """A plan for a version that is not there would be one for another."""
    plan = make_plan(asked("fact", version="v9", force=True), situation_of(world))
    (found,) = [finding for finding in plan.findings if finding.kind == "unknown version"]
    assert plan.stopped and found.next_step == "Versions: v1, v2."
    with pytest.raises(InvalidRequest, match="no table 'facts'"):
        make_plan(asked("facts"), situation_of(world))


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
    assert (fact.seconds, fact.measured_days, fact.rows_written) == (6.0, 2, 1)
    assert plan.cost.unknown == ("daily", "monthly", "weekly")
    assert (plan.cost.core_seconds, plan.cost.money) == (12.0, Decimal("0.0017"))
    assert "no earlier publication of daily" in markdown(plan, plan.made_at)


def test_what_a_first_build_reads_is_unknown(world: World) -> None:
    """Of a table of which nothing was ever published, and that the plan builds first: not 0 rows."""
    for key in [key for key in world.states if key.table in ("fact", "daily")]:
        del world.states[key], world.newest[key.table][key.day], world.pinned[key.table][key.day]
    plan = make_plan(asked("fact"), situation_of(world))
    daily = next(step for step in plan.steps if step.name == "daily").estimate
    assert (daily.rows_read, daily.bytes_read, daily.rows_written) == (None, None, None)
    assert plan.steps[0].estimate.rows_read == 4, "its inputs are published"
    rows = [row for row in step_rows(plan) if row[0] == "daily"]
    assert rows[0][4:] == ("unknown",) * 5
    assert (plan.cost.seconds, plan.cost.core_seconds, plan.cost.money) == (None, None, None), "no step was timed"


def test_the_scope_that_fits_is_recommended_from_what_changed(world: World) -> None:
    """Upstream, in the table itself, or only below it."""
    assert make_plan(asked("fact"), situation_of(world)).recommended is None
    landed = {"raw": {D: LandedDay(("a",), ("a",), 1)}}
    waiting = make_plan(asked("fact"), situation_of(world, landed=landed)).recommended
    assert waiting is not None and (waiting.scope, waiting.because) == (
        Scope.WHOLE,
        f"raw is landed and not taken in on {D}",
    )
    assert "--source-too" in scope_line(make_plan(asked("fact"), situation_of(world, landed=landed)))
    own = make_plan(asked("fact", version="v1"), situation_of(world)).recommended
    assert own is not None and (own.scope, own.because) == (Scope.ONWARDS, f"fact is stale: code changed on {D}")
    world.publish("fact", D, checksum="9")
    below = make_plan(asked("fact"), situation_of(world)).recommended
    assert below is not None and (below.scope, below.because) == (
        Scope.DOWNSTREAM,
        f"daily is stale: input changed on {D}",
    )
    world.publish("raw", D, checksum="9")
    above = make_plan(asked("fact"), situation_of(world)).recommended
    assert above is not None and above.because == f"bronze is stale: input changed on {D}"


MOVES = {
    "an input gains rows": ("bronze", D, ["bronze"]),
    "a day of its own is rebuilt otherwise": ("daily", D, ["daily"]),
    "reference data it looks back at": ("rates", D - timedelta(days=2), ["rates"]),
    "a day before the range": ("bronze", D - timedelta(days=1), []),
    "a table it does not read": ("raw", D, []),
}


@pytest.mark.parametrize("case", MOVES)
def test_what_has_moved_is_said_exactly(world: World, case: str) -> None:
    """Neither more nor less than the plan was computed from."""
    plan = make_plan(asked("fact", force=True), situation_of(world))
    assert not drift_since(plan, situation_of(world))
    table, day, expected = MOVES[case]
    world.publish(table, day, checksum="99")
    moved = drift_since(plan, situation_of(world))
    assert [(each.table, each.days) for each in moved.tables] == [(name, (day,)) for name in expected]
    assert bool(moved) is bool(expected) and not moved.code


def test_other_code_moves_a_plan_and_the_same_content_in_other_files_does_not(world: World) -> None:
    """A compaction between planning and carrying it out changes nothing."""
    plan = make_plan(asked("daily", force=True), situation_of(world))
    fact = TableDay("fact", D)
    world.states[fact] = replace(world.states[fact], physical="compacted", publication="q")
    world.pinned["fact"][D] = world.newest["fact"][D] = "compacted"
    assert not drift_since(plan, situation_of(world))
    other = [replace(step, current="v3", versions=(Version("v3", "", step.version().reads, dict),))
             if step.name == "daily" else step for step in STEPS]  # fmt: skip
    (told,) = drift_since(plan, replace(situation_of(world), steps=other)).code
    assert told.startswith("daily: the plan was made for v2, and the code has v3")


@st.composite
def chains(draw: st.DrawFn) -> tuple[Step, ...]:
    """A raw table and up to five that read what is before them, at any offsets; weeks and months read and are not."""
    steps = [_step("t0", source=True)]
    daily = ["t0"]
    for number in range(1, draw(st.integers(2, 6))):
        cadence = draw(st.sampled_from(list(Cadence)))
        reads = []
        for table in draw(st.lists(st.sampled_from(daily), min_size=1, max_size=2, unique=True)):
            first = draw(st.integers(-9, 0))
            reads.append(Reads(table, first, draw(st.integers(first, 0)), partial=draw(st.booleans())))
        steps.append(_built(f"t{number}", *reads, cadence=cadence))
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


@settings(max_examples=25)
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
    reordered = make_plan(question, situation_of(other, now=datetime(2018, 1, 1, tzinfo=UTC)))
    assert reordered.id == plan.id
    assert plan.model_copy(update={"steps": plan.steps[::-1], "pinned": plan.pinned[::-1]}).id == plan.id


def test_a_plan_that_is_kept_has_no_fields_of_a_run(world: World) -> None:
    """Plans from before there were any keep their ids."""
    step = make_plan(asked("fact", force=True), situation_of(world)).steps[0]
    assert not {"later", "earlier", "to_ingest", "rolled_back"} & step.model_dump(mode="json").keys()
    assert step.model_copy(update={"to_ingest": {D: 2}}).model_dump(mode="json")["to_ingest"] == {str(D): 2}


def test_a_changed_plan_is_not_the_plan(world: World) -> None:
    """The id is what was approved."""
    plan = make_plan(asked("fact", force=True), situation_of(world))
    other = plan.to_json().replace('"force": true', '"force": false')
    with pytest.raises(InvalidRequest, match="it was changed"):
        Plan.from_json(other, id=plan.id)
