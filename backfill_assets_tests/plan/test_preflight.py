"""What blocks a plan or calls for care: each check by itself, at its limits, with the words that a person reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import UnknownVersion
from backfill_assets.landing.zone import LandedDay
from backfill_assets.model.declaration import Version
from backfill_assets.plan.inputs import inputs_of
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.preflight import Preflight
from backfill_assets.plan.records import Estimate, Pinned, Plan, PlanFinding, PlanRequest, Scope
from backfill_assets.plan.scope import choose, planned_step
from backfill_assets.plan.situation import Machine, PlanContext
from backfill_assets.state.diagnosis import Cause
from backfill_assets_tests.plan.world import PIPELINE, D, World, asked, situation_of

SCHEMA = '{"fields":[{"name":"day","type":"string","nullable":true}]}'


def _findings(world: World, question: PlanRequest, kind: str, **more: object) -> list[PlanFinding]:
    plan = make_plan(question, situation_of(world, **more))
    return [each for each in plan.findings if each.kind == kind]


def _preflight(question: PlanRequest, situation: PlanContext, estimate: Estimate | None = None) -> Preflight:
    """As a plan is made, with the same estimate for every step if there is one."""
    chosen = choose(question, situation)
    steps = tuple(
        planned_step(step, chosen.reasons[step.name], estimate or Estimate())
        for step in situation.steps
        if step.name in chosen.reasons
    )
    return Preflight(question, chosen, steps, inputs_of(chosen, situation), situation)


# ------------------------------------------------------------------ all of them


def test_what_stops_comes_first_and_each_kind_together(world: World) -> None:
    """In an order that does not depend on the checks."""
    world.write_past_the_protocol("daily", D)
    world.write_past_the_protocol("bronze", D)
    machine = Machine(free_bytes=0)
    question = asked("fact", "2017-03-08..2017-03-09", force=True)
    sizes = {table: {D: 100} for table in ("fact", "daily")}
    plan = make_plan(question, situation_of(world, today=D + timedelta(days=1), machine=machine, bytes=sizes))
    assert plan.stopped
    assert [(each.severity, each.kind, each.table) for each in plan.findings] == [
        ("stops", "days not ended", ""),
        ("stops", "disk space", ""),
        ("warns", "foreign write", "daily"),
        ("warns", "input days not fresh", "bronze"),
    ]


# ------------------------------------------------------------------ the days and the version


def test_days_end_yesterday_and_begin_where_there_can_be_data(world: World) -> None:
    """The last and the first day that are allowed, and one more on each side."""
    question = asked("fact", "2017-03-06..2017-03-08", force=True)
    allowed = {"begins": date(2017, 3, 6), "today": date(2017, 3, 9)}
    assert make_plan(question, situation_of(world, **allowed)).findings == ()
    (late,) = _findings(world, question, "days not ended", today=D)
    assert late.message == "2017-03-08 has not ended; today is 2017-03-08 in UTC."
    assert (late.next_step, late.days) == ("End the days with yesterday at the latest.", ("2017-03-08",))
    (early,) = _findings(world, question, "days before the beginning", begins=D)
    assert early.message == "2017-03-06..2017-03-07 is before 2017-03-08, the first day that can have data."
    assert (early.next_step, early.days) == ("Begin the days there.", ("2017-03-06..2017-03-07",))


def test_an_unknown_version_is_refused_with_those_there_are(world: World) -> None:
    """A plan of the current one instead would be another question; a raw table has no versions."""
    for table, known in (("fact", "v1, v2"), ("raw", "none")):
        with pytest.raises(UnknownVersion, match=f"{table} has no version 'v9'") as refused:
            make_plan(asked(table, version="v9"), situation_of(world))
        assert refused.value.hint == f"Versions: {known}."


# ------------------------------------------------------------------ inputs


def test_source_days_that_never_landed_stop_the_plan_that_takes_in(world: World) -> None:
    """A folder without files has not landed either; a published raw day needs no file."""
    days = [D, D + timedelta(days=2), D + timedelta(days=4), D + timedelta(days=6)]
    world.forget("raw", *days, D + timedelta(days=1))
    landed = {"raw": {D: LandedDay(()), D + timedelta(days=1): LandedDay(("a",), waiting=("a",))}}
    question = asked("fact", "2017-03-07..2017-03-14", scope=Scope.WHOLE)
    (found,) = _findings(world, question, "source days missing", landed=landed)
    assert found.message == "Nothing has landed for raw on 2017-03-08, 2017-03-10, 2017-03-12 and 1 more."
    assert found.next_step == "Wait for the delivery, or land an empty file if a day really has no rows."
    assert (found.severity, found.table) == ("stops", "raw")
    assert found.days == ("2017-03-08", "2017-03-10", "2017-03-12", "2017-03-14")
    assert _findings(world, asked("fact"), "source days missing", landed=landed) == []


def test_files_that_wait_are_a_warning_unless_the_plan_takes_them_in(world: World) -> None:
    """Only on days that the target must have: a rate that is looked back at may wait."""
    waiting = {D: LandedDay(("a",), waiting=("a",)), D + timedelta(days=1): LandedDay(("b",), waiting=("b",))}
    landed = {"raw": waiting, "raw_rates": waiting}
    (found,) = _findings(world, asked("fact"), "source days incomplete", landed=landed)
    assert found.message == "Files of raw have landed on 2017-03-08 and were not taken in."
    assert found.next_step == "Plan with --scope whole, or take them in first: the rebuild reads what is taken in."
    assert (found.severity, found.table, found.days) == ("warns", "raw", ("2017-03-08",))
    whole = asked("fact", scope=Scope.WHOLE)
    assert _findings(world, whole, "source days incomplete", landed=landed) == []
    ingested = {"raw": {D: LandedDay(("a",))}}
    assert _findings(world, asked("fact"), "source days incomplete", landed=ingested) == []


def test_an_input_day_that_was_never_published_stops_the_plan_with_the_first_that_is_needed(world: World) -> None:
    """Its days by step; a day that the plan builds first is there."""
    for table in ("bronze", "quarantine"):
        world.forget(table, D, D + timedelta(days=1))
    question = asked("fact", "2017-03-07..2017-03-09", force=True)
    (found,) = _findings(world, question, "input days not published")
    assert found.message == ("fact cannot be built on 2017-03-08..2017-03-09: bronze 2017-03-08 was never published.")
    assert (found.severity, found.table, found.days) == ("stops", "fact", ("2017-03-08..2017-03-09",))
    assert found.next_step == "Build the input days first, or plan with --scope whole."
    whole = asked("fact", "2017-03-07..2017-03-09", scope=Scope.WHOLE)
    assert _findings(world, whole, "input days not published") == []


def test_one_published_day_is_enough_of_a_period_that_is_read_in_part(world: World) -> None:
    """And none is not."""
    week = list(DayRange.parse("2017-03-06..2017-03-12"))
    world.forget("fact", *week[1:])
    question = asked("weekly", str(D), force=True)
    assert _findings(world, question, "input days not published") == []
    world.forget("fact", week[0])
    (found,) = _findings(world, question, "input days not published")
    assert found.message == "weekly cannot be built on 2017-03-06: fact 2017-03-06 was never published."


def test_each_unsound_status_of_an_input_is_a_warning_of_its_own(world: World) -> None:
    """With its days; the hint is the same."""
    world.publish("bronze", date(2017, 3, 9), code="v1")
    world.write_past_the_protocol("bronze", D)
    found = _findings(world, asked("fact", "2017-03-08..2017-03-09", force=True), "input days not fresh")
    assert [(each.severity, each.table, each.message) for each in found] == [
        ("warns", "bronze", "bronze is read as it is on 2017-03-08, which is foreign write."),
        ("warns", "bronze", "bronze is read as it is on 2017-03-09, which is stale: version not declared."),
    ]
    hint = "Plan with --scope whole to rebuild it as well, or look at it with backfill status."
    assert {each.next_step for each in found} == {hint}


def test_a_foreign_write_that_the_plan_replaces_names_its_days(world: World) -> None:
    """Other days that are rebuilt for other reasons are not named."""
    world.write_past_the_protocol("daily", D)
    found = _findings(world, asked("daily", "2017-03-07..2017-03-08", force=True), "foreign write")
    assert [(each.severity, each.table, each.days) for each in found] == [("warns", "daily", ("2017-03-08",))]
    assert found[0].message == "A writer that bypassed the publication log changed daily on 2017-03-08."
    assert found[0].next_step == (
        "Find out first who it was. The rebuild replaces these rows; a rollback brings them back."
    )


# ------------------------------------------------------------------ where it is written


def test_a_schema_that_does_not_fit_is_explained_and_one_that_does_is_no_finding(world: World) -> None:
    """Of tables that the plan rebuilds. A new column that may be null fits; a table without a schema is new."""
    other = SCHEMA.replace("string", "date")
    (found,) = _findings(
        world, asked("fact", force=True), "schema", schemas={"fact": SCHEMA}, declared_schemas={"fact": other}
    )
    assert found.message == ("What would be staged does not fit the table fact: day is date but the table has string.")
    assert (found.severity, found.table) == ("stops", "fact")
    more = SCHEMA.replace("]}", ',{"name":"new","type":"string","nullable":true}]}')
    for main, declared in (
        ({"fact": SCHEMA}, SCHEMA),
        ({"fact": SCHEMA}, more),
        ({}, other),
        ({"bronze": SCHEMA}, other),
    ):
        question = asked("fact", force=True)
        schemas = {"fact": declared, "bronze": other}
        assert _findings(world, question, "schema", schemas=main, declared_schemas=schemas) == []


MIB = 2**20


# ------------------------------------------------------------------ what else is under way


def test_a_publication_under_way_is_reported_if_it_writes_what_is_built_or_read(world: World) -> None:
    """The tables that both have, in order; others are no concern of the plan."""
    observed = replace(
        world.observed(),
        writing={
            "p1": frozenset({"raw", "fact", "bronze"}),
            "p2": frozenset({"raw", "quarantine"}),
            "p3": frozenset({"rates"}),
        },
    )
    situation = replace(situation_of(world), observed=observed)
    seen = _preflight(asked("fact", force=True), situation)
    found = [each for each in seen.findings() if each.kind == "publication under way"]
    assert [(each.table, each.message) for each in found] == [
        ("bronze", "The publication p1 is under way on bronze, fact."),
        ("rates", "The publication p3 is under way on rates."),
    ]
    assert {(each.severity, each.next_step) for each in found} == {("warns", "Plan again when it is closed.")}


def _open_plan(days: str, table: str = "fact") -> Plan:
    step = planned_step(
        next(each for each in PIPELINE if each.name == table), dict.fromkeys(DayRange.parse(days), Cause.ASKED_FOR)
    )
    return Plan(asked=asked(table, days), steps=(step,), made_at=datetime(2017, 4, 1, tzinfo=UTC))


def test_an_open_plan_is_reported_on_the_days_that_both_rebuild(world: World) -> None:
    """The same table on other days, or another table on the same days, is no overlap."""
    question = asked("fact", "2017-03-07..2017-03-09", force=True)
    plan = _open_plan("2017-03-08..2017-03-12")
    (found,) = _findings(world, question, "overlapping plan", open_plans=[plan])
    assert found.message == f"{plan.id} is being carried out and rebuilds fact on 2017-03-08..2017-03-09."
    assert (found.severity, found.table, found.days) == ("warns", "fact", ("2017-03-08..2017-03-09",))
    assert found.next_step == (
        "The plan that publishes first wins these days; the other one is refused and must be made again."
    )
    for other in (_open_plan("2017-03-10"), _open_plan("2017-03-08", "bronze")):
        assert _findings(world, question, "overlapping plan", open_plans=[other]) == []


# ------------------------------------------------------------------ weeks and months


def test_a_month_of_two_codes_is_widened_by_months(world: World) -> None:
    """A month is read from the daily table, whose code counts."""
    steps = [
        replace(step, versions=(*step.versions, Version("v3", "", step.reads, dict)), current="v3")
        if step.name == "daily"
        else step
        for step in PIPELINE
    ]
    plan = make_plan(asked("daily", force=True), replace(situation_of(world), steps=steps))
    (found,) = [each for each in plan.findings if each.kind == "cut period"]
    assert (found.table, found.days, found.next_step) == (
        "monthly",
        ("2017-03-01",),
        "Widen --days to whole months.",
    )
    assert "by v3 of daily" in found.message


def test_a_week_of_which_the_plan_rebuilds_no_day_is_not_cut(world: World) -> None:
    """It is stale for another reason, and the day of other code in it was there before."""
    world.write_past_the_protocol("fact", D)
    world.publish("fact", date(2017, 3, 14), checksum="9")
    world.publish("fact", date(2017, 3, 16), code="v1")
    plan = make_plan(asked("fact", "2017-03-08..2017-03-15"), situation_of(world))
    assert plan.rebuilds["fact"] == (D,) and plan.rebuilds["weekly"] == (date(2017, 3, 6), date(2017, 3, 13))
    assert [each for each in plan.findings if each.kind == "cut period"] == []


# ------------------------------------------------------------------ how long it can wait


@pytest.mark.parametrize(("hours", "warned"), [(-1, True), (7 * 24 - 1, True), (7 * 24, False), (None, False)])
def test_pinned_files_that_may_go_within_a_week_are_a_warning(world: World, hours: int | None, warned: bool) -> None:
    """Exactly a week is not within it, and files of which all are in main do not go."""
    now = datetime(2017, 4, 10, 12, tzinfo=UTC)
    may_go = None if hours is None else now + timedelta(hours=hours)
    situation = situation_of(world, now=now)
    seen = _preflight(asked("fact", force=True), situation)
    pinned = (Pinned(table="bronze", version=4, days=(str(D),), files_may_go=may_go),)
    found = replace(seen, inputs=replace(seen.inputs, pinned=pinned)).findings()
    assert [(each.kind, each.severity, each.table) for each in found] == [("retention", "warns", "bronze")] * warned
    if may_go and warned:
        assert found[0].message == f"Files of version 4 of bronze may go on {may_go:%Y-%m-%d}."
        assert found[0].next_step == "Carry the plan out before that, or make it again."


@pytest.mark.parametrize(
    ("free", "severity"),
    [(None, None), (8 * MIB, None), (8 * MIB - 1, "warns"), (4 * MIB, "warns"), (4 * MIB - 1, "stops")],
)
def test_disk_space_is_twice_what_will_be_written(world: World, free: int | None, severity: str | None) -> None:
    """Four steps of a MiB each: from half of what is free on it is a warning, and beyond that it stops."""
    situation = situation_of(world, machine=Machine(free_bytes=free))
    seen = _preflight(asked("fact", force=True), situation, Estimate(bytes_written=MIB))
    assert len(seen.steps) == 4
    assert [each.severity for each in seen.findings() if each.kind == "disk space"] == [severity] * bool(severity)
    skipped = _preflight(asked("fact"), situation, Estimate(bytes_written=MIB))
    assert skipped.findings() == (), "steps that are skipped write nothing"


def test_disk_space_names_the_steps_of_which_it_is_unknown(world: World) -> None:
    """They count as nothing, and the message says so."""
    situation = situation_of(world, machine=Machine(free_bytes=3 * MIB))
    seen = _preflight(asked("fact", force=True), situation, Estimate(bytes_written=MIB))
    unknown = Estimate(bytes_written=None)
    steps = tuple(
        step.model_copy(update={"estimate": unknown}) if step.name in ("daily", "weekly") else step
        for step in seen.steps
    )
    found = [each for each in seen.findings() + replace(seen, steps=steps).findings() if each.kind == "disk space"]
    assert [each.message for each in found] == [
        "About 4 MiB will be written, and 3 MiB are free.",
        "About 2 MiB and what daily, weekly will write, which is unknown, will be written, and 3 MiB are free.",
    ]
    assert found[0].next_step == "Make room: what the days hold now is kept for the rollback window."


@pytest.mark.parametrize(
    ("days", "cut"),
    [("2017-03-08", True), ("2017-03-06..2017-03-12", False), ("2017-03-09", False)],
    ids=["other code stays in its week", "a whole week", "all of its week is of one code then"],
)
def test_a_week_of_two_codes_is_cut_and_is_widened_by_weeks(world: World, days: str, cut: bool) -> None:
    """On the Sunday before, on the Monday after and in a later week other code cuts nothing."""
    for day in ("2017-03-05", "2017-03-09", "2017-03-13", "2017-03-20"):
        world.publish("fact", date.fromisoformat(day), code="v1")
    question = asked("fact", days, force=True)
    found = _findings(world, question, "cut period")
    told = "Mixed logic: weekly of 2017-03-06 has days that the plan rebuilds by v2 of fact, and days of other code "
    assert [(each.severity, each.table, each.days, each.message, each.next_step) for each in found] == [
        ("warns", "weekly", ("2017-03-06",), f"{told}that stay as they are.", "Widen --days to whole weeks.")
    ] * cut
    timeline = question.model_copy(update={"leaves": ("2017-03-07",)})
    assert [each.next_step for each in _findings(world, timeline, "cut period")] == [
        "Build the other days of these weeks on the timeline, too: backfill run TABLE --on."
    ] * cut
