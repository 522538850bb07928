"""What the campaign of these stories rebuilds: the fact and four reports of nine days, by the right logic."""

from __future__ import annotations

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.step_look import StepRequest

DAYS = DayRange.parse("2017-03-01..2017-03-09")
FACT = "fact_sales_transactions"
REPORTS = ("fact_daily_revenue", "report_department_revenue", "report_store_ranking", "report_monthly_close")
TABLES = (FACT, *REPORTS)
CAMPAIGN = "campaign-fx"
RUN = RunInfo("a-campaign-run")


def steps(version: str = "v2") -> list[StepRequest]:
    """In build order; only the fact has more than one version."""
    found = []
    for table in TABLES:
        step = CATALOG.step(table)
        days = tuple(step.cadence.starts(DAYS))
        found.append(StepRequest(step, days, version if table == FACT else ""))
    return found
