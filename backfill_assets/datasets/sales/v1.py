"""Version 1 of the sales logic. Never changed: what it computed must stay reproducible; new logic is a new version."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.datasets.sales.contracts import BronzeSales
from backfill_assets.datasets.sales.conversion import in_eur, rates_as_of
from backfill_assets.datasets.sales.source import SALES
from backfill_assets.model.refinement import Refinement, refined

REFINEMENT = Refinement(
    source=SALES,
    contract=BronzeSales,
    key=("transaction_id",),
    derived={"transaction_id": ("basket_id", "product_id")},
)


def bronze(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """Typed rows with one winner per transaction and day, and the rejected rows."""
    return refined(inputs, REFINEMENT)


def transactions(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """Euros at the rate as of the *previous* day: the bug that version 2 fixes."""
    rates = rates_as_of(inputs["bronze_fx_rates"], days_before=1)
    return {"fact_sales_transactions": in_eur(inputs["bronze_sales"], rates)}


def daily_revenue(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """Revenue, lines, baskets and pieces of each store and day."""
    revenue = (
        inputs["fact_sales_transactions"]
        .groupBy("day", "store_id")
        .agg(
            F.sum("amount_eur").cast("decimal(18,4)").alias("revenue_eur"),
            F.count("*").alias("lines"),
            F.count_distinct("basket_id").alias("baskets"),
            F.sum("quantity").alias("quantity"),
        )
    )
    columns = ("store_id", "revenue_eur", "lines", "baskets", "quantity", "day")
    return {"fact_daily_revenue": revenue.select(*columns).repartition("day")}
