"""Orders that a shop writes itself, and what is made of them where they lie."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import Cadence
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.derived_dataset import DerivedDataset
from backfill_assets.model.external_table import ExternalTable

if TYPE_CHECKING:
    from backfill_assets.model.dataset import Dataset


class Order(Contract):
    """An order, as the shop writes it."""

    order_id: str = Field(key=True)
    amount: Annotated[T.DecimalType, 12, 2] = Field(ge=0)
    customer: str = Field(personal="email", nullable=True)


SHOP = DerivedDataset(
    name="shop",
    description="Orders of the shop.",
    owners=("team:shop",),
    first_day=date(2025, 1, 1),
    external=(ExternalTable("orders", Order, location="/lake/shop/orders", day="order_date"),),
)


@SHOP.table("fact_daily_orders", totals=("amount",))
class DailyOrders(Contract):
    """What was ordered on each day."""

    customers: int = Field(made_of="customer")
    amount: Annotated[T.DecimalType, 18, 2] = Field()
    day: date = Field(key=True)


@SHOP.version(DailyOrders, "v1", "Sums by day.", "orders")
def daily_orders(orders: DataFrame) -> DataFrame:
    amount = F.sum("amount").cast("decimal(18,2)")
    return orders.groupBy("day").agg(F.countDistinct("customer").alias("customers"), amount.alias("amount"))


@SHOP.version(DailyOrders, "v2", "With the tax that was forgotten.", "orders", current=False)
def taxed_orders(orders: DataFrame) -> DataFrame:
    taxed = F.col("amount") * F.lit(Decimal("1.07"))
    return daily_orders(orders.withColumn("amount", taxed.cast("decimal(12,2)")))


@SHOP.table("report_orders", cadence=Cadence.MONTHLY, totals=("amount",))
class MonthlyOrders(Contract):
    """What was ordered in each month."""

    amount: Annotated[T.DecimalType, 18, 2] = Field()
    day: date = Field(key=True)


@SHOP.version(MonthlyOrders, "v1", "Sums by month.", "fact_daily_orders")
def monthly_orders(days: DataFrame) -> DataFrame:
    amount = F.sum("amount").cast("decimal(18,2)").alias("amount")
    return days.groupBy(F.trunc("day", "month").alias("day")).agg(amount)


def shop_at(location: Path | str) -> Dataset:
    """The dataset, with the table of the shop in another place."""
    placed = copy.copy(SHOP)
    object.__setattr__(placed, "external", (replace(SHOP.external[0], location=str(location)),))
    return placed.dataset()
