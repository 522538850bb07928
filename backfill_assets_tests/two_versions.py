"""A lakehouse whose facts are published by two versions, one after the other: ids instead of rows, and no JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.rebuild import decide
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.small_lakehouse import SmallLakehouse

FACT, REVENUE, SALES, RATES = "fact_sales_transactions", "fact_daily_revenue", "bronze_sales", "bronze_fx_rates"
DAYS = tuple(DayRange.parse("2017-03-01..2017-03-04"))
READY = "v1-ready"
"""The timeline of the first version."""
FORMER = "standby-fact-sales-transactions-v2"
"""The timeline that a switch makes of what main had."""


def publish_inputs(lakehouse: SmallLakehouse, id: str, days: Sequence[date], first: int = 1) -> None:
    """Sales of ``days``, and rates of these and of the days before."""
    before = [days[0] - timedelta(days=n) for n in range(9, 0, -1)]
    lakehouse.publish(id, {SALES: {day: [first + day.day] for day in days}})
    lakehouse.publish(f"{id}-rates", {RATES: {day: [1] for day in (*before, *days)}})


def publish_facts(lakehouse: SmallLakehouse, id: str, days: Iterable[date], version: str, number: int) -> None:
    """The facts of ``days`` by ``version``, and their revenue, as runs publish them."""
    for table, code in ((FACT, version), (REVENUE, "v1")):
        step = CATALOG.step(table)
        asked = list(days)
        reads = decide.read_days(step, step.version(code), asked)
        pin = lakehouse.publisher.pin({}, reads)
        logicals = {name: read.days for name, read in pin.inputs.items()}
        wanted = decide.wanted(step, step.version(code), asked, logicals)
        lakehouse.publish(
            f"{id}-{table.replace('_', '-')}",
            {table: {day: [number, day.day] for day in asked}},
            code=code,
            inputs={day: wanted[day].inputs for day in asked},
        )


def keep_first_version(backfill: Backfill) -> None:
    """A timeline has the days that v1 published, and main has them by v2: nothing had to be computed for it."""
    lakehouse = backfill.lakehouse
    publish_inputs(lakehouse, "in", DAYS)
    publish_facts(lakehouse, "one", DAYS, "v1", 100)
    backfill("timeline", "create", READY, "--version", f"{FACT}=v1")
    backfill("timeline", "keep", READY, "--fresh")
    backfill("timeline", "forward", READY)
    publish_facts(lakehouse, "two", DAYS, "v2", 200)
