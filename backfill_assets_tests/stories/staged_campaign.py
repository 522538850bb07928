"""What the campaign of these stories rebuilds: the fact and four reports of nine days, by the right logic."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.named_timelines import NamedTimeline, find_timeline
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2017-03-01..2017-03-09")
WEEKEND = (date(2017, 3, 4), date(2017, 3, 5))
"""No rates are published then: the old logic and the new one agree."""
LATE_DAY = date(2017, 3, 7)
FACT = "fact_sales_transactions"
REPORTS = ("fact_daily_revenue", "report_department_revenue", "report_store_ranking", "report_monthly_close")
TABLES = (FACT, *REPORTS)
PERIODS = {table: CATALOG.step(table).cadence.start(LATE_DAY) for table in TABLES}
"""Where a row of the late day counts: in its day, its week and its month."""
CAMPAIGN = "campaign-0123456789abcdef"
PLAN = "plan-0123456789abcdef"
RUN = RunInfo("a-campaign-run")
Checksums = dict[str, dict[date, str]]
Contents = dict[tuple[str, str], object]


def steps(version: str = "v2") -> list[StepRequest]:
    """In build order; only the fact has more than one version."""
    found = []
    for table in TABLES:
        step = CATALOG.step(table)
        days = tuple(step.cadence.starts(DAYS))
        found.append(StepRequest(step, days, version if table == FACT else ""))
    return found


def land_late(workshop: Workshop, name: str = "late", count: int = 1, *, built: tuple[str, ...] = ()) -> None:
    """Rows of the late day, which arrive on the last one; ``built`` are the tables that take them in."""
    values = {"transaction_timestamp": f"{LATE_DAY}T10:00:00Z"}
    first_basket = 1_000 * len(name)
    land_lines(workshop.settings.landing, DAYS.last, name, count, values, first_basket)
    for table in built:
        workshop.build(table, DAYS)


def land_of_currency(workshop: Workshop, currency: str, **values: str) -> None:
    """One line of the late day, which bronze has then. Of XTS there is no rate: the fact cannot be computed."""
    line = {"basket_id": "777", "product_id": "1095275", "currency": currency, **values}
    land_lines(workshop.settings.landing, LATE_DAY, f"in-{currency}", 1, line)
    for table in ("raw_sales", "bronze_sales"):
        workshop.build(table, DAYS)


def checksums(workshop: Workshop, *tables: str) -> Checksums:
    """Of every published day of ``tables``, else of those of the campaign."""
    return {
        table: {day: state.content.checksum for day, state in workshop.states(table).items() if state.content}
        for table in tables or TABLES
    }


def changed(before: Checksums, after: Checksums) -> dict[str, set[date]]:
    found = {
        table: {day for day, checksum in days.items() if before[table].get(day) != checksum}
        for table, days in after.items()
    }
    return {table: days for table, days in found.items() if days}


def contents(workshop: Workshop) -> Contents:
    """Rows and checksum of every published day."""
    return {(table, str(day)): what for table, days in workshop.contents().items() for day, what in days.items()}


def timeline(workshop: Workshop, name: str) -> NamedTimeline:
    publisher = workshop.builder.lake.publisher
    return find_timeline(publisher.storage, name, clock.now())


def held(workshop: Workshop, name: str) -> Contents:
    """The same of the days that a timeline holds."""
    return {
        (table, str(each.day)): (each.content.rows, each.content.checksum) if each.content else None
        for table, days in timeline(workshop, name).days.items()
        for each in days
    }


def files(workshop: Workshop, table: str) -> dict[str, bytes]:
    """Every file of rows that there is, to the byte."""
    root: Path = workshop.settings.lakehouse / table
    return {str(path): path.read_bytes() for path in root.rglob("*.parquet")}


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("a day is computed again")
