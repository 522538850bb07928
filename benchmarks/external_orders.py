"""What ``benchmarks.external_table`` computes: a fact of orders that others write, row by row."""

from __future__ import annotations

import os
from datetime import date
from typing import Annotated

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.derived_dataset import DerivedDataset
from backfill_assets.model.external_table import ExternalTable

LOCATION = "BACKFILL_BENCHMARK_ORDERS"
"""The variable that says where they lie."""
FIRST_DAY = date(2025, 1, 1)
NET = "CAST(amount - discount AS DECIMAL(12, 2))"


class Order(Contract):
    """An order as the shop has it."""

    order_id: T.LongType = Field(key=True)
    store_id: str = Field()
    pieces: T.IntegerType = Field(ge=0)
    amount: Annotated[T.DecimalType, 12, 2] = Field(ge=0)
    discount: Annotated[T.DecimalType, 12, 2] = Field(ge=0)


class FactOrder(Contract):
    """An order with what is paid for it."""

    order_id: T.LongType = Field(key=True)
    store_id: str = Field()
    pieces: T.IntegerType = Field(ge=0)
    net: Annotated[T.DecimalType, 12, 2] = Field(made_of=("orders.amount", "orders.discount"))
    day: T.DateType = Field()


SHOP = DerivedDataset(
    name="shop",
    description="Orders of others.",
    owners=("team:shop",),
    first_day=FIRST_DAY,
    external=(ExternalTable("orders", Order, location=os.environ.get(LOCATION, "/orders"), day="ordered_at"),),
)
SHOP.table("fact_orders", totals=("net",))(FactOrder)


@SHOP.version(FactOrder, "v1", "Amount less discount.", "orders")
def fact_orders(orders: DataFrame) -> DataFrame:
    """The same columns as the query of ``benchmarks.external_table``."""
    return orders.withColumn("net", F.expr(NET))
