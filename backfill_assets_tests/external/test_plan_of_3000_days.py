"""A plan over 3,000 days of a table of others takes at most two seconds: with the look at it, and without a JVM."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from backfill_assets.days import DayRange
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.derived_dataset import DerivedDataset
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.plan.keep import plan_and_keep
from backfill_assets.plan.records import Plan, PlanRequest, Scope
from backfill_assets.settings import Settings
from backfill_assets_tests.cpu_budget import at_pace, count
from backfill_assets_tests.external.hand_written import HandWritten, add, column

pytestmark = pytest.mark.data

DAYS = DayRange(date(2015, 1, 1), date(2015, 1, 1) + timedelta(days=2_999))
SECONDS = 2.0


class Order(Contract):
    """An order as the shop has it."""

    order_id: int = Field(key=True)


class DailyOrders(Contract):
    """What was ordered on each day."""

    orders: int = Field(made_of="order_id")
    day: date = Field(key=True)


def catalog_of(location: Path) -> Catalog:
    shop = DerivedDataset(
        name="shop",
        description="Orders.",
        owners=("team:shop",),
        first_day=DAYS.first,
        external=(ExternalTable("orders", Order, location=str(location), day="order_date"),),
    )
    shop.table("fact_daily_orders")(DailyOrders)

    @shop.version(DailyOrders, "v1", "Counts.", "orders")
    def daily_orders(orders: DataFrame) -> DataFrame:
        return orders.groupBy("day").count().withColumnRenamed("count", "orders")

    return Catalog.of([shop])


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Of the processor at the pace of the budgets: other processes may be beside it."""
    started = time.process_time()
    yield
    taken = (time.process_time() - started) * at_pace(count())
    assert taken < seconds, f"it took {taken:.1f} s"


def files(changes: str = "") -> list[dict[str, object]]:
    return [add(f"{day}{changes}.parquet", partitionValues={"order_date": str(day)}) for day in DAYS]


def test_a_plan_over_3000_days_takes_at_most_two_seconds(tmp_path: Path) -> None:
    """The first one, the next one, and one after all days were written anew."""
    table = HandWritten(
        tmp_path / "orders", [column("order_id", "long"), column("order_date", "date")], ("order_date",)
    )
    table.day = DAYS.last
    table.commit(*files())
    settings, catalog = Settings.at(tmp_path / "ours"), catalog_of(table.location)

    def planned() -> Plan:
        request = PlanRequest(target="fact_daily_orders", days=str(DAYS), scope=Scope.WHOLE)
        made, _ = plan_and_keep(settings, catalog, request)
        return made

    for commit in (None, None, [{"remove": {"path": f"{day}.parquet", "dataChange": True}} for day in DAYS]):
        if commit:
            table.commit(*commit, *files("-again"))
        with within(SECONDS):
            made = planned()
        assert sum(len(step.days) for step in made.steps if step.kind == "rebuild") == len(DAYS)


@pytest.mark.parametrize("files_without_statistics", [0, 20])
def test_nor_does_one_over_wide_files(tmp_path: Path, files_without_statistics: int) -> None:
    """Thirty files of ten years each, also beside some that say nothing of their days."""
    table = HandWritten(tmp_path / "orders", [column("order_id", "long"), column("order_date", "date")])
    table.day = DAYS.last
    wide = [add(f"w{number}", str(DAYS.first), str(DAYS.last)) for number in range(30)]
    table.commit(*wide, *(add(f"n{number}") for number in range(files_without_statistics)))
    request = PlanRequest(target="fact_daily_orders", days=str(DAYS), scope=Scope.WHOLE)
    with within(SECONDS):
        plan_and_keep(Settings.at(tmp_path / "ours"), catalog_of(table.location), request)
