"""What a run in the foreground will do is decided from statuses, before Spark starts."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from backfill_assets.datasets import registry
from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import DayState
from backfill_assets.plan.foreground import (
    Rollback,
    around,
    later_days,
    planned,
    require_ended,
    with_rolled_back,
)
from backfill_assets.plan.status import DayStatus, day_statuses
from backfill_assets.published.observed import LogView
from backfill_assets.published.rolled_back import FileMove, Rollbacks
from backfill_assets_tests.upkeep.test_repair import NEXT_WEEK, TWO_VERSIONS, WEEK, two_version_world

DAYS = DayRange.parse("2017-03-01..2017-03-07")
STEPS = registry.steps()
LAST = NEXT_WEEK + timedelta(days=1)


def test_downstream_reaches_every_report_and_upstream_every_source() -> None:
    """In build order, so that each is built after what it reads; other datasets stay out."""
    assert around(STEPS, ["fact_sales_transactions"], downstream=True) == [
        "fact_sales_transactions",
        "fact_daily_revenue",
        "report_department_revenue",
        "report_store_ranking",
        "report_monthly_close",
    ]
    upstream = around(STEPS, ["report_department_revenue"], upstream=True)
    assert {"raw_sales", "raw_fx_rates", "raw_products", "bronze_products"} < set(upstream)
    assert not {"fact_daily_revenue", "raw_sea_temperatures"} & set(upstream)
    assert around(STEPS, ["bronze_sales"]) == ["bronze_sales"]


def test_weeks_and_months_follow_from_the_days() -> None:
    """Each once, however many of its days are asked for."""
    statuses = day_statuses(STEPS, LogView(), DAYS)
    plan = planned(STEPS, ["fact_daily_revenue", "report_store_ranking", "report_monthly_close"], DAYS, statuses)
    assert [(each.step.name, [str(day) for day in each.days]) for each in plan] == [
        ("fact_daily_revenue", [str(day) for day in DAYS]),
        ("report_store_ranking", ["2017-02-27", "2017-03-06"]),
        ("report_monthly_close", ["2017-03-01"]),
    ]


def test_a_step_is_as_stale_as_its_worst_table() -> None:
    """Bronze and quarantine are built together; with force nothing counts as unchanged."""
    day, tables = DAYS.first, ("bronze_sales", "quarantine_sales")
    statuses = {"bronze_sales": {day: DayStatus.FRESH}, "quarantine_sales": {day: DayStatus.FOREIGN_WRITE}}
    (worst,) = planned(STEPS, tables, [day], statuses)
    assert (worst.statuses, worst.unchanged) == ({day: DayStatus.FOREIGN_WRITE}, [])
    fresh = {name: {day: DayStatus.FRESH} for name in tables}
    assert planned(STEPS, tables, [day], fresh)[0].unchanged == [day]
    assert planned(STEPS, tables, [day], fresh, force=True)[0].unchanged == []


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
    world = two_version_world()
    asked, later = [WEEK.first], {"fact": {WEEK.first + timedelta(days=1)}}
    days = DayRange(WEEK.first, LAST)
    current = day_statuses(TWO_VERSIONS, world.observed(), days)
    own = day_statuses(TWO_VERSIONS, world.observed(), days, as_published=True)
    (fact,) = planned(TWO_VERSIONS, ["fact"], asked, current, force=True, later=later, as_published=own)
    assert fact.days == [*asked, *later["fact"]] and fact.later == later["fact"]
    assert fact.unchanged == sorted(later["fact"])
    assert fact.statuses[asked[0]] is DayStatus.CODE_CHANGED


def test_a_raw_day_with_a_pending_file_is_not_unchanged() -> None:
    """It is published, and a file that came since is ingested all the same. Nothing of raw can be forced."""
    first, second = list(DAYS)[:2]
    statuses = {"raw_sales": dict.fromkeys((first, second), DayStatus.FRESH)}
    (step,) = planned(STEPS, ["raw_sales"], [first, second], statuses, pending={"raw_sales": {second: 2}})
    assert (step.unchanged, step.to_build, step.pending) == ([first], [second], {second: 2})
    (step,) = planned(STEPS, ["raw_sales"], [first], statuses, force=True)
    assert step.to_build == []


def _published_by(publication: str, day: date) -> DayState:
    return DayState("fact_daily_revenue", day, publication, 1, "", None)


def test_days_that_a_person_rolled_back_are_named_if_they_would_be_built_again() -> None:
    """By the publication that they are of: one that was built again since is a day like any other."""
    back, kept, again = list(DAYS)[:3]
    statuses = {"fact_daily_revenue": {back: DayStatus.MISSING, kept: DayStatus.FRESH, again: DayStatus.INPUT_CHANGED}}
    plan = planned(STEPS, ["fact_daily_revenue"], [back, kept, again], statuses)
    of = {back: "undo", kept: "undo", again: "p2"}
    states = {TableDay("fact_daily_revenue", day): _published_by(name, day) for day, name in of.items()}
    at = datetime(2017, 6, 1, 12, tzinfo=UTC)
    (step,) = with_rolled_back(plan, states, lambda: Rollbacks({"undo": FileMove("rollback", at)}))
    assert step.rolled_back == {back: Rollback("undo", at)}


def test_the_log_is_not_asked_for_rollbacks_of_what_was_never_published() -> None:
    """A first run has nothing that could have been put back."""

    def nobody_asks() -> Rollbacks:
        raise AssertionError

    plan = planned(STEPS, ["fact_daily_revenue"], DAYS, day_statuses(STEPS, LogView(), DAYS))
    assert with_rolled_back(plan, {}, nobody_asks) == plan


def test_a_day_that_is_not_over_is_refused_with_the_last_that_is() -> None:
    """Its arrivals are not complete."""
    require_ended(list(DAYS), DAYS.last + timedelta(days=1))
    with pytest.raises(InvalidRequest, match="2017-03-07, which is not over; today is 2017-03-07"):
        require_ended(list(DAYS), date(2017, 3, 7))
