"""What a run in the foreground will do is decided from statuses, before Spark starts."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from backfill_assets.backfill.foreground import around, planned, require_ended
from backfill_assets.backfill.status import DayStatus, day_statuses
from backfill_assets.datasets import registry
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.observed import Observed

DAYS = DayRange.parse("2017-03-01..2017-03-07")
STEPS = registry.steps()


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
    statuses = day_statuses(STEPS, Observed(), DAYS)
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


def test_a_day_that_is_not_over_is_refused_with_the_last_that_is() -> None:
    """Its arrivals are not complete."""
    require_ended(list(DAYS), DAYS.last + timedelta(days=1))
    with pytest.raises(InvalidRequest, match="2017-03-07, which is not over; today is 2017-03-07"):
        require_ended(list(DAYS), date(2017, 3, 7))
