"""Version 1 of the reports on sales. Never changed; new logic is a new version.

Each sums the lines of ``fact_sales_transactions``, so that nothing is rounded twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.datasets.products_as_of import products_as_of
from backfill_assets.datasets.sales.report_contracts import (
    ReportDepartmentRevenue,
    ReportMonthlyClose,
    ReportStoreRanking,
)
from backfill_assets.model.contract import Contract
from backfill_assets.model.contract_columns import struct_type
from backfill_assets.model.declaration import PUBLISHED_DAYS

FACT = "fact_sales_transactions"
UNKNOWN = "UNKNOWN"
"""The department of products that the catalogue does not have."""

Inputs = Mapping[str, DataFrame]


def department_revenue(inputs: Inputs) -> Inputs:
    """Revenue of each department and day, by the catalogue as of that day."""
    catalogue = products_as_of(inputs["bronze_products"]).select(
        "product_id", "department", "valid_from", "valid_until"
    )
    on_its_day = F.col("day").between(F.col("valid_from"), F.col("valid_until"))
    lines = inputs[FACT].alias("line")
    same_product = F.col("line.product_id") == F.col("product.product_id")
    placed = lines.join(F.broadcast(catalogue.alias("product")), same_product & on_its_day, "left")
    named = placed.withColumn("department", F.coalesce("department", F.lit(UNKNOWN)))
    return {
        "report_department_revenue": _shaped(named.groupBy("day", "department").agg(*_sums()), ReportDepartmentRevenue)
    }


def store_ranking(inputs: Inputs) -> Inputs:
    """The stores of each ISO week, the one with the most revenue first."""
    weekly = inputs[FACT].withColumn("day", F.trunc("day", "week"))
    stores = weekly.groupBy("day", "store_id").agg(*_sums())
    best_first = Window.partitionBy("day").orderBy(F.desc("revenue_eur"), "store_id")
    ranked = stores.withColumn("rank", F.row_number().over(best_first).cast("bigint"))
    return {"report_store_ranking": _shaped(_with_completeness(ranked, inputs, "week", F.lit(7)), ReportStoreRanking)}


def monthly_close(inputs: Inputs) -> Inputs:
    """The sales of each month in each currency."""
    monthly = inputs[FACT].withColumn("day", F.trunc("day", "month"))
    closed = monthly.groupBy("day", "currency").agg(
        *_sums(),
        F.sum("sales_value").cast("decimal(18,2)").alias("revenue"),
        F.count_distinct("store_id").alias("stores"),
    )
    days = F.dayofmonth(F.last_day("day"))
    return {"report_monthly_close": _shaped(_with_completeness(closed, inputs, "month", days), ReportMonthlyClose)}


def _sums() -> list[Column]:
    return [
        F.sum("amount_eur").cast("decimal(18,4)").alias("revenue_eur"),
        F.count("*").alias("lines"),
        F.count_distinct("basket_id").alias("baskets"),
        F.sum("quantity").alias("quantity"),
    ]


def _with_completeness(report: DataFrame, inputs: Inputs, period: str, days: Column) -> DataFrame:
    """Days that have no sales count too, once they are published."""
    read = inputs[PUBLISHED_DAYS].where(F.col("table") == FACT)
    seen = read.groupBy(F.trunc("day", period).alias("day")).agg(F.count("*").alias("days_published"))
    return report.join(F.broadcast(seen), "day").withColumn("complete", F.col("days_published") == days)


def _shaped(report: DataFrame, contract: type[Contract]) -> DataFrame:
    return report.select(*struct_type(contract).names).repartition("day")
