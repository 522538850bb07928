"""Which days a plan is about, why each is rebuilt or skipped, and which scope fits what has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.landing.zone import LandedDay
from backfill_assets.model.declaration import ADOPTED, Reads
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import Estimate, PlannedStep, PlanRequest, Recommended, Scope
from backfill_assets.plan.scope import (
    RebuildScope,
    choose,
    planned_step,
    recommend,
    worst_status,
)
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.status import Statuses
from backfill_assets_tests.plan.world import (
    WINDOW,
    D,
    World,
    a_step,
    asked,
    situation_of,
    whys,
    world_of,
)


def test_a_changed_rate_reaches_every_day_that_looks_back_at_it(world: World) -> None:
    """And the table that was asked for is left alone if it is right already."""
    world.publish("rates", D, checksum="9")
    plan = make_plan(asked("rates", scope=Scope.DOWNSTREAM), situation_of(world))
    days = ["2017-03-08", "2017-03-09", "2017-03-10"]
    assert whys(plan)["fact"] == dict.fromkeys(days, Cause.INPUT)
    assert whys(plan)["daily"] == dict.fromkeys(days, Cause.INPUT_REBUILT)
    assert "rates" not in {step.name for step in plan.steps}


def test_a_plan_for_rates_has_the_later_days_that_use_them(world: World) -> None:
    """They are not in the range that was asked for; nothing else after it is."""
    world.publish("raw_rates", D, checksum="9")
    found = whys(make_plan(asked("rates"), situation_of(world)))
    assert found["rates"] == {str(D): Cause.LATE}
    assert found["fact"] == dict.fromkeys(["2017-03-08", "2017-03-09", "2017-03-10"], Cause.INPUT_REBUILT)
    assert found["weekly"] == {"2017-03-06": Cause.INPUT_REBUILT}


def test_from_the_source_takes_in_what_landed_and_rebuilds_what_reads_it(world: World) -> None:
    """What is fresh upstream is skipped, and what is made of the rebuilt days anywhere comes along."""
    landed = {"raw": {D: LandedDay(("a", "b"), waiting=("b",), bytes=120)}, "raw_rates": {}}
    plan = make_plan(asked("fact", scope=Scope.WHOLE), situation_of(world, landed=landed))
    found = whys(plan)
    assert found["raw"] == {str(D): Cause.LANDED} and found["bronze"] == {str(D): Cause.INPUT_REBUILT}
    assert "rates" not in found and plan.steps[0].kind == "take in"
    assert found["fact"] == {str(D): Cause.INPUT_REBUILT}
    raw = next(step for step in plan.steps if step.name == "raw").estimate
    assert (raw.bytes_read, raw.rows_read) == (120, None), "the rows of landed files are unknown"


def test_adopted_days_are_rebuilt_where_a_person_asks_for_them_alone(world: World) -> None:
    """Not since what they may be made of changes, nor since a plan begins above them or below."""
    for number in (8, 9, 10):
        world.publish("fact", date(2017, 3, number), code=ADOPTED)
    world.publish("rates", D, checksum="9")
    asked_for = make_plan(asked("fact", "2017-03-08..2017-03-09"), situation_of(world))
    assert whys(asked_for)["fact"] == dict.fromkeys(["2017-03-08", "2017-03-09"], Cause.ADOPTED)
    assert whys(asked_for)["daily"]["2017-03-08"] == Cause.INPUT_REBUILT
    for question in (asked("rates", scope=Scope.DOWNSTREAM), asked("daily", "2017-03-08", scope=Scope.WHOLE)):
        assert "fact" not in whys(make_plan(question, situation_of(world)))
    forced = make_plan(asked("daily", "2017-03-08", scope=Scope.WHOLE, force=True), situation_of(world))
    assert [day for day, why in whys(forced)["fact"].items() if why is Cause.ADOPTED] == ["2017-03-08"]
    assert not {"2017-03-09", "2017-03-10"} & whys(forced)["fact"].keys(), "days that only read what is forced"


def _chosen(world: World, question: PlanRequest, **more: object) -> RebuildScope:
    return choose(question, situation_of(world, **more))


def _days(*numbers: int) -> set[date]:
    return {date(2017, 3, number) for number in numbers}


# ------------------------------------------------------------------ what is chosen


def test_the_target_has_whole_periods_and_its_fresh_days_are_skipped(world: World) -> None:
    """A range that cuts two weeks is about both."""
    chosen = _chosen(world, asked("weekly", "2017-03-12..2017-03-13"))
    assert chosen.target.name == "weekly" and chosen.periods == _days(6, 13)
    assert chosen.reasons == {"weekly": dict.fromkeys(_days(6, 13))}
    assert chosen.needed["fact"] == set(DayRange.parse("2017-03-06..2017-03-19"))
    assert chosen.demanded == {}, "of a week that is read in part any day may be absent"


def test_a_look_back_is_needed_and_not_demanded(world: World) -> None:
    """A day itself must be there; reference data has gaps."""
    chosen = _chosen(world, asked("fact"))
    assert chosen.needed == {
        "raw_rates": _days(6, 7, 8),
        "rates": _days(6, 7, 8),
        "raw": {D},
        "bronze": {D},
    }
    assert chosen.demanded == {"raw": {D}, "bronze": {D}}


@pytest.mark.parametrize(
    ("landed", "published", "why"),
    [
        (LandedDay(("a", "b"), waiting=("b",)), True, Cause.LANDED),
        (LandedDay(("a",), waiting=("a",)), False, Cause.LANDED),
        (LandedDay(("a",)), True, None),
        (None, True, None),
        (None, False, Cause.MISSING),
    ],
    ids=["a second file", "the first file", "all ingested", "landed before", "never landed"],
)
def test_a_raw_day_has_what_waits_to_be_ingested(
    world: World, landed: LandedDay | None, published: bool, why: Cause | None
) -> None:
    """Not even force makes a raw day of files that were all ingested."""
    if not published:
        world.forget("raw", D)
    days = {} if landed is None else {D: landed}
    chosen = _chosen(world, asked("fact", scope=Scope.WHOLE, force=True), landed={"raw": days})
    assert chosen.reasons["raw"] == {D: why}


def test_of_a_look_back_only_days_that_can_be_had_come_along() -> None:
    """From the source on: a rate that was never published nor landed is a gap, one that has landed is taken in."""
    world = world_of(window=DayRange.of(D))
    landed = {"raw_rates": {D - timedelta(days=1): LandedDay(("a",), waiting=("a",))}}
    chosen = _chosen(world, asked("fact", scope=Scope.WHOLE), landed=landed)
    assert chosen.reasons["raw_rates"] == {D - timedelta(days=1): Cause.LANDED, D: None}
    assert chosen.reasons["rates"] == {D - timedelta(days=1): Cause.MISSING, D: None}
    assert chosen.reasons["fact"] == {D: Cause.INPUT_REBUILT}


def test_later_days_come_along_until_today_and_only_if_they_can_be_built() -> None:
    """The week that has begun does; a day that was never published and has no inputs does not."""
    world = world_of(window=DayRange(WINDOW.first, D))
    chosen = _chosen(world, asked("rates", force=True), today=D + timedelta(days=1))
    assert chosen.reasons["fact"] == {D: Cause.INPUT_REBUILT}
    assert chosen.reasons["weekly"] == {date(2017, 3, 6): Cause.INPUT_REBUILT}
    yesterday = _chosen(world, asked("rates", str(D - timedelta(days=1)), force=True), today=D)
    assert yesterday.reasons["fact"] == {D - timedelta(days=1): Cause.INPUT_REBUILT}, "today has not ended"


# ------------------------------------------------------------------ one day, one step


def test_the_worst_status_counts_and_a_day_that_is_not_known_is_missing() -> None:
    """In the order of the statuses: a foreign write is worse than other code, which is worse than other inputs."""
    both = a_step("bronze", "quarantine")
    statuses: Statuses = {"bronze": {D: Cause.INPUT}, "quarantine": {D: None}}
    assert worst_status(both, D, statuses) is Cause.INPUT
    assert worst_status(both, D + timedelta(days=1), statuses) is Cause.MISSING
    assert worst_status(a_step("quarantine"), D, statuses) is None
    for worse, than in (
        (Cause.MISSING, None),
        (Cause.INPUT, Cause.MISSING),
        (Cause.CODE_CHANGED, Cause.INPUT),
        (Cause.FOREIGN_WRITE, Cause.CODE_CHANGED),
    ):
        assert worst_status(both, D, {"bronze": {D: than}, "quarantine": {D: worse}}) is worse


def test_a_planned_step_has_ranges_by_reason_in_the_order_of_reasons() -> None:
    """Days come in any order; reasons without days and the skipped days have their own place."""
    two = a_step("bronze", "quarantine", reads=(Reads("raw"),))
    reasons = {
        date(2017, 3, 12): Cause.ASKED_FOR,
        date(2017, 3, 9): Cause.MISSING,
        D: Cause.MISSING,
        date(2017, 3, 10): None,
        date(2017, 3, 14): Cause.MISSING,
    }
    estimate = Estimate(rows_read=4)
    found = planned_step(two, reasons, estimate)
    assert found == PlannedStep(
        tables=("bronze", "quarantine"),
        version="v2",
        rebuild={Cause.MISSING: ("2017-03-08..2017-03-09", "2017-03-14"), Cause.ASKED_FOR: ("2017-03-12",)},
        skipped=("2017-03-10",),
        estimate=estimate,
    )
    assert list(found.rebuild) == [Cause.MISSING, Cause.ASKED_FOR]


# ------------------------------------------------------------------ the scope that fits


def _recommended(world: World, question: PlanRequest, **more: object) -> Recommended | None:
    situation = situation_of(world, **more)
    return recommend(choose(question, situation), situation)


def test_a_gap_in_a_look_back_is_no_change_and_one_in_what_is_demanded_is(world: World) -> None:
    """Two rates are missing: neither must be there. Without its day of sales the fact cannot be right."""
    for table in ("rates", "raw_rates"):
        world.forget(table, D - timedelta(days=1), D - timedelta(days=2))
    for table in ("fact", "daily"):
        for day in WINDOW:
            world.publish(table, day)
    for table in ("weekly", "monthly"):
        for day in list(world.newest[table]):
            world.publish(table, day)
    assert _recommended(world, asked("fact")) is None
    for table in ("bronze", "quarantine"):
        world.forget(table, D)
    assert _recommended(world, asked("fact")) == Recommended(
        scope=Scope.WHOLE, because="bronze is missing on 2017-03-08"
    )


@pytest.mark.parametrize("target", ["fact", "daily", "monthly"])
def test_what_only_a_look_back_reaches_is_recommended_for_all_that_is_computed_from_it(
    world: World, target: str
) -> None:
    """The rate of the day before the range is read by its first fact, and by no table after that."""
    world.publish("rates", date(2017, 2, 28), code="v1")
    assert _recommended(world, asked(target, "2017-03-01..2017-03-31")) == Recommended(
        scope=Scope.WHOLE, because="rates is stale: version not declared on 2017-02-28"
    )


def test_a_table_that_is_not_there_cannot_be_chosen(world: World) -> None:
    """Nor days that cannot be read."""
    with pytest.raises(InvalidRequest, match="no table 'facts'"):
        _chosen(world, asked("facts"))
    with pytest.raises(InvalidRequest, match="ends before it starts"):
        _chosen(world, asked("fact", "2017-03-08..2017-03-07"))


@pytest.mark.parametrize(
    ("scope", "force", "fact", "daily", "monthly"),
    [
        (Scope.ONWARDS, False, None, None, None),
        (Scope.ONWARDS, True, Cause.ASKED_FOR, Cause.INPUT_REBUILT, Cause.INPUT_REBUILT),
        (Scope.DOWNSTREAM, True, "left out", Cause.ASKED_FOR, Cause.INPUT_REBUILT),
    ],
)
def test_force_rebuilds_what_is_fresh_because_it_was_asked_for(
    world: World, scope: Scope, force: bool, fact: Cause | str | None, daily: Cause | None, monthly: Cause | None
) -> None:
    """And never because of an input that is rebuilt where that is the reason; only downstream leaves the target out."""
    chosen = _chosen(world, asked("fact", scope=scope, force=force))
    assert chosen.reasons == ({} if fact == "left out" else {"fact": {D: fact}}) | {
        "daily": {D: daily},
        "weekly": {date(2017, 3, 6): daily},
        "monthly": {date(2017, 3, 1): monthly},
    }
    assert _recommended(world, asked("fact", scope=scope, force=force)) is None, "that a person asked is no change"


WAITS = LandedDay(("a",), waiting=("a",))


@pytest.mark.parametrize(
    ("published", "overwritten", "landed", "version", "scope", "because"),
    [
        ((), (), {}, "", None, ""),
        ((("raw", 20, "v2"),), (("fact", 21),), {}, "", None, ""),
        ((), (), {"raw": {D: WAITS}}, "", Scope.WHOLE, "raw is landed and not taken in on 2017-03-08"),
        ((), (("raw", 8),), {"raw": {D: WAITS}}, "", Scope.WHOLE, "raw is landed and not taken in on 2017-03-08"),
        ((), (("raw", 8),), {}, "", Scope.WHOLE, "raw is foreign write to raw on 2017-03-08"),
        ((), (), {}, "v1", Scope.ONWARDS, "fact is stale: code changed on 2017-03-08"),
        ((("fact", 8, "v2"),), (), {}, "", Scope.DOWNSTREAM, "daily is stale: input changed on 2017-03-08"),
        (
            (("fact", 8, "v2"), ("raw", 8, "v2")),
            (),
            {},
            "",
            Scope.WHOLE,
            "bronze is stale: late rows on 2017-03-08",
        ),
        (
            (("fact", 8, "v1"), ("fact", 9, "v1"), ("fact", 13, "v1")),
            (("fact", 10),),
            {},
            "",
            Scope.ONWARDS,
            "fact is stale: code changed on 2017-03-08..2017-03-09 and 1 more",
        ),
    ],
    ids=[
        "nothing",
        "other days",
        "a file waits",
        "a file waits for a raw day that was overwritten",
        "a raw day was overwritten",
        "another version is asked for",
        "only what is below",
        "upstream",
        "the first range of the first reason",
    ],
)
def test_the_scope_that_fits_is_recommended_from_what_changed(
    world: World,
    published: Sequence[tuple[str, int, str]],
    overwritten: Sequence[tuple[str, int]],
    landed: Mapping[str, Mapping[date, LandedDay]],
    version: str,
    scope: Scope | None,
    because: str,
) -> None:
    """Upstream, in the table itself, or only below it; a plan is about the days that it was asked for."""
    for table, day, code in published:
        world.publish(table, date(2017, 3, day), code=code, checksum="9" if code == "v2" else "7")
    for table, day in overwritten:
        world.write_past_the_protocol(table, date(2017, 3, day))
    question = asked("fact", "2017-03-07..2017-03-14" if len(published) > 2 else str(D), version=version)
    found = make_plan(question, situation_of(world, landed=landed)).recommended
    assert found == (None if scope is None else Recommended(scope=scope, because=because))
