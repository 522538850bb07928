"""What a run in the foreground will do is decided from the logs, before Spark starts."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta

import pytest

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayState, Origin, Prepared, Publication
from backfill_assets.landing.zone import LandedDay, LandedSource
from backfill_assets.model.declaration import ADOPTED
from backfill_assets.model.placement import Placement
from backfill_assets.plan.records import PlannedStep, days_of
from backfill_assets.plan.scope import planned_step
from backfill_assets.plan.table_run import RunRequest, later_days, plan_run, rolled_back_before
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import LogView
from backfill_assets.state.rolled_back import Rollbacks
from backfill_assets.state.status import day_statuses
from backfill_assets_tests.plan.world import World
from backfill_assets_tests.upkeep.weeks import NEXT_WEEK, TWO_VERSIONS, WEEK, two_version_world

DAYS = DayRange.parse("2017-03-01..2017-03-07")
STEPS = CATALOG.steps
NOTHING = LogView()
AFTER = DAYS.last + timedelta(days=1)
FACT = [step for step in TWO_VERSIONS if step.name == "fact"]
LAST = NEXT_WEEK + timedelta(days=1)


def _planned(
    tables: Collection[str],
    days: Collection[date],
    observed: LogView = NOTHING,
    *,
    force: bool = False,
    **seen: object,
) -> tuple[PlannedStep, ...]:
    asked = RunRequest(list(tables), days, force=force)
    return plan_run(asked, STEPS, observed, AFTER, **seen).steps  # type: ignore[arg-type]


def _published(*tables: str, days: Collection[date]) -> World:
    world = World({}, {}, {}, STEPS)
    for table in tables:
        for day in days:
            world.publish(table, day, code=CATALOG.step(table).code_version)
    return world


def test_weeks_and_months_follow_from_the_days() -> None:
    """Each once, however many of its days are asked for."""
    plan = _planned(["fact_daily_revenue", "report_store_ranking", "report_monthly_close"], DAYS)
    assert [(each.name, [str(day) for day in each.days]) for each in plan] == [
        ("fact_daily_revenue", [str(day) for day in DAYS]),
        ("report_store_ranking", ["2017-02-27", "2017-03-06"]),
        ("report_monthly_close", ["2017-03-01"]),
    ]


def test_adopted_days_are_kept_unless_they_are_forced() -> None:
    """Also where an input of theirs is built by the same run."""
    day, fact = DAYS.first, "fact_sales_transactions"
    world = _published(fact, days=[day])
    world.publish(fact, day, code=ADOPTED)
    bronze, kept = _planned(["bronze_sales", fact], [day], world.observed())
    assert bronze.why == {day: Cause.MISSING} and days_of(kept.skipped) == [day]
    _, forced, revenue = _planned(["bronze_sales", fact, "fact_daily_revenue"], [day], world.observed(), force=True)
    assert forced.why == {day: Cause.ADOPTED} and revenue.why == {day: Cause.MISSING}


def test_a_step_is_as_stale_as_its_worst_table() -> None:
    """Bronze and quarantine are built together; with force nothing counts as unchanged."""
    day, tables = DAYS.first, ("bronze_sales", "quarantine_sales")
    world = _published("raw_sales", *tables, days=[day])
    assert days_of(_planned(tables, [day], world.observed())[0].skipped) == [day]
    (forced,) = _planned(tables, [day], world.observed(), force=True)
    assert (forced.why, forced.skipped) == ({day: Cause.ASKED_FOR}, ())
    world.write_past_the_protocol("quarantine_sales", day)
    (worst,) = _planned(tables, [day], world.observed())
    assert (worst.why, worst.skipped) == ({day: Cause.FOREIGN_WRITE}, ())


def test_raw_rows_that_belong_to_other_days_now_wait_for_a_refresh() -> None:
    """A run appends what landed; it moves no row, and builds nothing again for it."""
    world = _published("bronze_sales", "quarantine_sales", days=[DAYS.first])
    world.publish("raw_sales", DAYS.first, code=Placement(date(2999, 1, 1), 1).code_version)
    raw, bronze = _planned(["raw_sales", "bronze_sales"], [DAYS.first], world.observed())
    assert day_statuses(STEPS, world.observed(), DAYS)["raw_sales"][DAYS.first] is Cause.CODE_CHANGED
    assert (raw.why, days_of(raw.skipped)) == ({}, [DAYS.first])
    assert Cause.INPUT_REBUILT not in bronze.rebuild


@pytest.mark.parametrize(("asked", "published", "why"), [("v1", "v2", Cause.CODE_CHANGED), ("v1", "v1", None)])
def test_a_day_is_unchanged_if_it_is_of_the_version_that_is_asked_for(
    asked: str, published: str, why: Cause | None
) -> None:
    """Not by the current version: days of version 2 are built when version 1 is asked for, and others are not."""
    world = _published("bronze_sales", "quarantine_sales", days=[DAYS.first])
    world.publish("fact_sales_transactions", DAYS.first, code=published)
    request = RunRequest(["fact_sales_transactions"], [DAYS.first], version=asked)
    (step,) = plan_run(request, STEPS, world.observed(), AFTER).steps
    assert step.why == ({} if why is None else {DAYS.first: why})
    assert (days_of(step.skipped) == [DAYS.first]) is (why is None)


def test_downstream_reaches_the_later_days_that_look_back() -> None:
    """Those that are published, of the tables that are built anyway, and the periods that these lie in."""
    observed, chosen = two_version_world().observed(), ("rates", "fact", "revenue", "weekly")
    days = {NEXT_WEEK, LAST}
    found = later_days(TWO_VERSIONS, chosen, [WEEK.last], observed)
    assert found == {"fact": days, "revenue": days, "weekly": {NEXT_WEEK}}
    assert later_days(TWO_VERSIONS, ("rates", "revenue"), [WEEK.last], observed) == {}
    assert later_days(TWO_VERSIONS, chosen, [LAST], observed) == {}, "no later day is published"


def test_a_later_day_is_unchanged_by_the_version_that_it_was_published_with() -> None:
    """It was not asked for: a newer version does not come to it through the back door, and neither does force."""
    asked = RunRequest(["rates"], [WEEK.first], downstream=True, force=True)
    plan = plan_run(asked, TWO_VERSIONS, two_version_world().observed(), date(2017, 4, 1))
    (fact,) = (step for step in plan.steps if step.name == "fact")
    later = [WEEK.first + timedelta(days=1), WEEK.first + timedelta(days=2)]
    assert fact.all_days == [WEEK.first, *later] and days_of(fact.later) == later
    assert days_of(fact.skipped) == later
    assert fact.why == {WEEK.first: Cause.CODE_CHANGED}


def test_a_raw_day_with_a_pending_file_is_not_unchanged() -> None:
    """It is published, and a file that came since is ingested all the same. Nothing of raw can be forced."""
    first, second = list(DAYS)[:2]
    observed = _published("raw_sales", days=[first, second]).observed()
    landed = LandedSource({first: LandedDay(("1",)), second: LandedDay(("2", "3"), waiting=("2", "3"))})
    (step,) = _planned(["raw_sales"], [first, second], observed, landed=lambda _: landed)
    assert (days_of(step.skipped), step.why, step.to_ingest) == ([first], {second: Cause.LANDED}, {second: 2})
    (step,) = _planned(["raw_sales"], [first], observed, force=True)
    assert step.days == ()


def test_days_that_a_person_rolled_back_are_named_if_they_would_be_built_again() -> None:
    """By the publication that they are of: one that was built again since is a day like any other."""
    back, kept, again = list(DAYS)[:3]
    reasons = {back: Cause.MISSING, kept: None, again: Cause.INPUT}
    plan = [planned_step(CATALOG.step("fact_daily_revenue"), reasons)]
    of = {back: "undo", kept: "undo", again: "p2"}
    states = {
        TableDay("fact_daily_revenue", day): DayState(
            "fact_daily_revenue", day, name, 1, "", None, Origin("p1", rolled_back_by="undo" if name == "undo" else "")
        )
        for day, name in of.items()
    }
    undo = Publication(id="undo", kind="rollback", tables=())
    made = Prepared(publication=undo, before={}, window_days=30), datetime(2017, 6, 1, 12, tzinfo=UTC)
    (found,) = rolled_back_before(plan, states, Rollbacks({"undo": made}.get))
    assert (found.table, found.days, found.severity) == ("fact_daily_revenue", (f"{back}",), "warns")
    assert found.message.startswith("fact_daily_revenue: rolled back on 2017-06-01 12:00:00Z by undo, would be built")


def test_a_day_that_is_not_over_is_refused_with_the_last_that_is() -> None:
    """Its arrivals are not complete."""
    _planned(["fact_daily_revenue"], DAYS)
    with pytest.raises(InvalidRequest, match="2017-03-08, which is not over; today is 2017-03-08"):
        _planned(["fact_daily_revenue"], [*DAYS, AFTER])
