"""Two days of sales of which a few lines are rejected, and a contract that would accept one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Annotated

import pytest
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sales import SALES, FactSalesTransactions, SalesLine
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.model.contract import Field
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.landed import bronze_contract
from backfill_assets_tests.declared import declare
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2017-03-01..2017-03-02")
FIRST, SECOND = DAYS
REPORTS = ("fact_daily_revenue", "report_department_revenue", "report_store_ranking", "report_monthly_close")
CHAIN = ("raw_sales", "bronze_sales", "fact_sales_transactions", *REPORTS)
DISCOUNT = "retail_disc: not greater than or equal to 0"
QUANTITY = "quantity: is not a bigint"
AMOUNT = "sales_value: is not a decimal(18,2)"


class GenerousSales(SalesLine):
    """A discount may be a surcharge."""

    retail_disc: Annotated[T.DecimalType, 18, 2] = Field(ge=-10)


class GenerousTransactions(FactSalesTransactions):
    """And stays one in euros."""

    retail_disc: Annotated[T.DecimalType, 18, 2] = Field(ge=-10)


def land_and_build(workshop: Workshop) -> None:
    """On the first day one line that a generous contract accepts, one with two faults, and one that is broken; on the
    second day one that is broken. Everything is built, down to the reports."""
    landing = workshop.settings.landing
    workshop.land_synthetic(SyntheticSpec(DAYS, rows_per_day=0, seed=1, defects={}))
    for day in DAYS:
        land_lines(landing, day, "shop", 8)
    bad = (
        sale(basket_id="1", retail_disc="-1.00"),
        sale(basket_id="2", retail_disc="-2.00", quantity="many"),
        sale(basket_id="3", sales_value="abc"),
    )
    land(landing, "sales", str(FIRST), "bad", bad)
    land(landing, "sales", str(SECOND), "bad", [on(SECOND, basket_id="4", quantity="none")])
    workshop.build_rates(DAYS)
    workshop.build_products(DAYS)
    for table in CHAIN:
        workshop.build(table, periods(table))


def periods(table: str) -> list[date]:
    """The first days of the periods of ``table`` that the two days are in."""
    return CATALOG.step(table).cadence.starts(DAYS)


def on(day: date, **changes: str) -> dict[str, str | None]:
    return sale(transaction_timestamp=f"{day}T10:00:00Z", updated_at=f"{day}T20:00:00Z", **changes)


def mend_contract(monkeypatch: pytest.MonkeyPatch, *, facts: bool = True) -> None:
    """Declare a version ``v9`` of bronze that accepts surcharges; ``facts`` says whether facts may have them, too."""

    def mended(dataset: Dataset) -> Dataset:
        return replace(dataset, steps=tuple(changes.get(step.name, _same)(step) for step in dataset.steps))

    changes: dict[str, Callable[[Step], Step]] = {"bronze_sales": _mended_bronze}
    if facts:
        changes["fact_sales_transactions"] = _mended_facts
    declare(monkeypatch, *map(mended, CATALOG.datasets))


def _same(step: Step) -> Step:
    return step


def _mended_bronze(step: Step) -> Step:
    contract = bronze_contract("sales", GenerousSales)
    generous = replace(SALES.refinement(), contract=contract)
    version = Version("v9", "Accepts surcharges.", step.version().reads, generous)
    tables = (replace(step.tables[0], contract=contract), *step.tables[1:])
    return replace(step, tables=tables, versions=(*step.versions, version), current="v9")


def _mended_facts(step: Step) -> Step:
    return replace(step, tables=(replace(step.tables[0], contract=GenerousTransactions),))
