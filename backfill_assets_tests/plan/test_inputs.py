"""What a plan reads and does not rebuild: which days, at which version, as of when, and how sound they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.records import PartitionPosition
from backfill_assets.landing.zone import LandedDay
from backfill_assets.plan.inputs import PlanInputs, inputs_of, planned_boundaries
from backfill_assets.plan.records import Lookback, Pinned, Plan, PlanRequest, Scope
from backfill_assets.plan.scope import choose
from backfill_assets.plan.situation import PlanContext
from backfill_assets.state.boundaries import DaysBoundary, RawBoundary
from backfill_assets.state.diagnosis import Cause
from backfill_assets_tests.plan.world import WINDOW, D, World, asked, situation_of, world_of


def _inputs(question: PlanRequest, situation: PlanContext) -> PlanInputs:
    ordered = situation.with_version(question.target, question.version)
    return inputs_of(choose(question, ordered), ordered)


def _march(*numbers: int) -> set[date]:
    return {date(2017, 3, number) for number in numbers}


def test_what_the_plan_builds_is_not_read_from_before(world: World) -> None:
    """One day of the fact: its week and month need their other days, and the day itself comes from the plan."""
    found = _inputs(asked("fact", force=True), situation_of(world))
    assert found.days == {
        "bronze": {D},
        "daily": set(DayRange.parse("2017-03-01..2017-03-31")) - {D},
        "fact": set(DayRange.parse("2017-03-06..2017-03-12")) - {D},
        "rates": _march(6, 7, 8),
    }
    assert list(found.days) == ["bronze", "daily", "fact", "rates"]
    week = _inputs(asked("fact", "2017-03-06..2017-03-12", force=True), situation_of(world))
    assert list(week.days) == ["bronze", "daily", "rates"], "a whole week of the fact is all that its report reads"


def test_an_input_is_pinned_with_its_version_and_until_when_its_files_are_kept(world: World) -> None:
    """A table without a version in the log has none; one that main has not moved on from loses no files. Days that
    were never published are in no file."""
    world.forget("rates", *_march(7, 8))
    may_go = datetime(2017, 5, 1, tzinfo=UTC)
    situation = situation_of(world, files_may_go={"rates": may_go, "raw": may_go})
    situation = replace(situation, observed=replace(situation.observed, versions={"bronze": 0, "rates": 4, "raw": 9}))
    found = _inputs(asked("fact", force=True), situation)
    assert found.pinned == (
        Pinned(table="bronze", version=0, days=("2017-03-08",)),
        Pinned(table="daily", version=None, days=("2017-03-01..2017-03-07", "2017-03-09..2017-03-31")),
        Pinned(table="fact", version=None, days=("2017-03-06..2017-03-07", "2017-03-09..2017-03-12")),
        Pinned(
            table="rates",
            version=4,
            days=("2017-03-06..2017-03-08",),
            absent=("2017-03-07..2017-03-08",),
            files_may_go=may_go,
        ),
    )


def test_a_look_back_has_the_offsets_of_the_version_that_was_asked_for(world: World) -> None:
    """Only reads of earlier days are one; the offsets are those of one day, the days those of all."""
    situation = situation_of(world)
    days = f"{D}..{D + timedelta(days=1)}"
    assert _inputs(asked("fact", days, force=True), situation).as_of == (
        Lookback(step="fact", table="rates", first=-2, last=0, days=("2017-03-06..2017-03-09",)),
    )
    assert _inputs(asked("fact", days, version="v1"), situation).as_of == (
        Lookback(step="fact", table="rates", first=-3, last=-1, days=("2017-03-05..2017-03-08",)),
    )
    assert _inputs(asked("daily", days, force=True), situation).as_of == ()


def test_days_of_a_look_back_that_were_never_published_are_absent(world: World) -> None:
    """Before the beginning, and in a gap. A day without rows was published, and one of a foreign write has files."""
    begins = WINDOW.first
    (first,) = _inputs(asked("fact", str(begins), force=True), situation_of(world)).as_of
    assert (first.days, first.absent) == (("2017-02-20",), ("2017-02-18..2017-02-19",))
    world.publish("rates", D, rows=0)
    world.forget("rates", *_march(6, 7))
    world.pinned["rates"][date(2017, 3, 7)] = "another writer's files"
    (gap,) = _inputs(asked("fact", force=True), situation_of(world)).as_of
    assert (gap.days, gap.absent) == (("2017-03-07..2017-03-08",), ("2017-03-06",))


def test_a_day_that_the_plan_builds_is_there_for_a_look_back() -> None:
    """The rate of the day before has landed and comes along; the one before that is not to be had."""
    world = world_of(window=DayRange.of(D))
    landed = {"raw_rates": {D - timedelta(days=1): LandedDay(("a",), waiting=("a",))}}
    found = _inputs(asked("fact", scope=Scope.WHOLE), situation_of(world, landed=landed))
    assert found.as_of == (
        Lookback(
            step="fact", table="rates", first=-2, last=0, days=("2017-03-07..2017-03-08",), absent=("2017-03-06",)
        ),
    )
    assert found.days["rates"] == _march(6, 8)


def test_stale_and_foreign_inputs_are_unsound_by_status(world: World) -> None:
    """Fresh and missing ones are not: whether a missing day holds the plan back is another question."""
    world.publish("raw", D, checksum="9")
    world.publish("raw", date(2017, 3, 9), checksum="9")
    world.write_past_the_protocol("rates", date(2017, 3, 7))
    world.forget("rates", *_march(6))
    found = _inputs(asked("fact", "2017-03-08..2017-03-09", force=True), situation_of(world))
    assert found.unsound == {
        "bronze": {Cause.LATE: [D, date(2017, 3, 9)]},
        "fact": {Cause.INPUT: sorted(_march(6, 7))},
        "rates": {Cause.FOREIGN_WRITE: [date(2017, 3, 7)]},
    }


def test_other_code_is_sound_where_the_plan_rebuilds_the_table_on_other_days(world: World) -> None:
    """The finding on cut periods reports it; of a table that the plan leaves alone it is unsound."""
    tuesday = date(2017, 3, 7)
    world.publish("fact", tuesday, code="v1")
    assert _inputs(asked("fact", force=True), situation_of(world)).unsound == {}
    assert _inputs(asked("weekly", force=True), situation_of(world)).unsound == {
        "fact": {Cause.CODE_CHANGED: [tuesday]}
    }


FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)
NOW = datetime(2017, 6, 1, tzinfo=UTC)
STREAMED = RawBoundary("raw_sales", (12,), (PartitionPosition("orders", 0, 1_234, 1_000),))
LANDED = RawBoundary("raw_fx_rates", (3,), (), 4)
PLAN = Plan(asked=PlanRequest(target="fact", days="2017-03-01..2017-03-02"), steps=(), made_at=NOW)


def planned(*found: DaysBoundary) -> Plan:
    return PLAN.model_copy(update={"boundaries": planned_boundaries(found)})


def test_days_that_come_from_a_stream_have_their_boundary() -> None:
    """Read from raw itself, or through a table that is not rebuilt; landed days have none."""
    plan = planned(
        DaysBoundary(("raw_sales",), (FIRST, SECOND), STREAMED),
        DaysBoundary(("bronze_sales",), (FIRST,), STREAMED),
        DaysBoundary(("bronze_fx_rates",), (FIRST,), LANDED),
    )
    assert [(each.tables, each.days, each.raw, each.versions) for each in plan.boundaries] == [
        (("raw_sales",), ("2017-03-01..2017-03-02",), "raw_sales", (12,)),
        (("bronze_sales",), ("2017-03-01",), "raw_sales", (12,)),
    ]
    (position,) = plan.boundaries[0].positions
    assert (position.topic, position.partition, position.next_offset, position.live_since) == (
        "orders",
        0,
        1_234,
        1_000,
    )


def test_a_plan_without_a_stream_is_what_it_was() -> None:
    """The same text, so the same id: plans that are kept stay as they are."""
    plan = planned(DaysBoundary(("bronze_fx_rates",), (FIRST,), LANDED))
    assert plan.id == PLAN.id and "boundaries" not in plan.to_json()
    other = planned(DaysBoundary(("raw_sales",), (FIRST,), STREAMED))
    assert Plan.from_json(other.to_json(), id=other.id) == other and other.id != PLAN.id, "what is approved has it"
