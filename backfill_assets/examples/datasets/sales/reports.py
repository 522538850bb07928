"""The reports on sales: by store, by department, by store and week, by currency and month.

Each sums the lines of ``fact_sales_transactions``, so that nothing is rounded twice. A version is never changed: new
logic is a new version.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import Cadence
from backfill_assets.examples.datasets.products import LONGEST_CATALOGUE_GAP_DAYS, PRODUCTS, products_as_of
from backfill_assets.examples.datasets.sales.landed import SALES, Money
from backfill_assets.examples.datasets.sales.transactions import FACT
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import DayRule, Reads
from backfill_assets.model.rules import FewUnknown, TotalAgrees, VolumeWithin

UNKNOWN = "UNKNOWN"
"""The department of products that the catalogue does not have."""
_UNKNOWN_BASELINE = Decimal("0.0033")
"""Of the 1,469,307 real lines of 2017, the catalogue does not have the products of 4,836; 0.8 % on the worst day."""

# What every report has of the lines that it is about.
Euros = Annotated[T.DecimalType, 18, 4]
_REVENUE = Field(ge=0, made_of="amount_eur", description="The sum of the lines' amounts.")
_LINES = Field(ge=1, made_of="transaction_id", description="Transactions.")
_BASKETS = Field(ge=1, made_of="basket_id", description="Different baskets with such lines.")
_QUANTITY = Field(ge=0, description="Pieces.")
_DAYS_PUBLISHED = Field(ge=1, made_of="day", description="Days of the period whose transactions are published.")
_COMPLETE = Field(made_of="day", description="Every day of the period is in it.")
_TOTALS = ("revenue_eur", "lines", "quantity")
_AGREES = "revenue_agrees_with_fact"
_ADDS_UP: tuple[DayRule, ...] = (
    TotalAgrees("revenue_eur", fact=FACT, fact_total="amount_eur", check=_AGREES),
    TotalAgrees("quantity", fact=FACT, fact_total="quantity", check=_AGREES),
    TotalAgrees("lines", fact=FACT, fact_total="rows", check=_AGREES),
    VolumeWithin(at_most=1_000_000, made_of=FACT),
)


def sums() -> list[Column]:
    """The columns of the sums, in the types of the contracts."""
    return [
        F.sum("amount_eur").cast("decimal(18,4)").alias("revenue_eur"),
        F.count("*").alias("lines"),
        F.count_distinct("basket_id").alias("baskets"),
        F.sum("quantity").alias("quantity"),
    ]


@SALES.table("fact_daily_revenue", layer="report", rules=_ADDS_UP, totals=_TOTALS, groups=("store_id",))
class FactDailyRevenue(Contract):
    """Revenue in euros, lines, baskets and pieces of each store and day."""

    store_id: T.StringType = Field(key=True, str_length={"min_value": 1}, description="The shop.")
    revenue_eur: Euros = _REVENUE
    lines: T.LongType = _LINES
    baskets: T.LongType = Field(ge=1, made_of="basket_id", description="Different receipts.")
    quantity: T.LongType = _QUANTITY
    day: T.DateType = Field(description="The day of the sales, in UTC.")


@SALES.version(FactDailyRevenue, "v1", "Sums by store and day.", FACT, follows="groups")
def daily_revenue(lines: DataFrame) -> DataFrame:
    """Revenue, lines, baskets and pieces of each store and day."""
    return lines.groupBy("day", "store_id").agg(*sums())


@SALES.table(
    "report_department_revenue",
    rules=(*_ADDS_UP, FewUnknown("department", unknown=UNKNOWN, lines="lines", baseline=_UNKNOWN_BASELINE)),
    totals=_TOTALS,
    groups=("department",),
)
class ReportDepartmentRevenue(Contract):
    """Revenue in euros, lines, baskets and pieces of each department and day. A product counts in the department that
    the catalogue has for it as of that day, and as UNKNOWN if it has none.
    """

    department: T.StringType = Field(
        key=True,
        str_length={"min_value": 1},
        description="As of the day; UNKNOWN for products the catalogue does not have.",
    )
    revenue_eur: Euros = _REVENUE
    lines: T.LongType = _LINES
    baskets: T.LongType = _BASKETS
    quantity: T.LongType = _QUANTITY
    day: T.DateType = Field(description="The day of the sales.")


@SALES.version(
    ReportDepartmentRevenue,
    "v1",
    "Sums by department as of the day.",
    *(FACT, Reads(PRODUCTS.bronze, -LONGEST_CATALOGUE_GAP_DAYS, 0)),
)
def department_revenue(lines: DataFrame, products: DataFrame) -> DataFrame:
    """Revenue of each department and day, by the catalogue as of that day."""
    catalogue = products_as_of(products).select("product_id", "department", "valid_from", "valid_until")
    on_its_day = F.col("day").between(F.col("valid_from"), F.col("valid_until"))
    same_product = F.col("line.product_id") == F.col("product.product_id")
    placed = lines.alias("line").join(F.broadcast(catalogue.alias("product")), same_product & on_its_day, "left")
    named = placed.withColumn("department", F.coalesce("department", F.lit(UNKNOWN)))
    return named.groupBy("day", "department").agg(*sums())


@SALES.table("report_store_ranking", cadence=Cadence.WEEKLY, rules=_ADDS_UP, totals=_TOTALS, groups=("store_id",))
class ReportStoreRanking(Contract):
    """The stores of each ISO week, the one with the most revenue first. A week some of whose days are not published
    says so in `complete`.
    """

    store_id: T.StringType = Field(key=True, str_length={"min_value": 1}, description="The store.")
    rank: T.LongType = Field(
        ge=1, made_of="amount_eur", description="1 is the store with the most revenue; ties go by store id."
    )
    revenue_eur: Euros = _REVENUE
    lines: T.LongType = _LINES
    baskets: T.LongType = _BASKETS
    quantity: T.LongType = _QUANTITY
    days_published: T.LongType = _DAYS_PUBLISHED
    complete: T.BooleanType = _COMPLETE
    day: T.DateType = Field(description="The Monday of the week.")


@SALES.version(ReportStoreRanking, "v1", "Ranks by revenue in euros.", FACT)
def store_ranking(lines: DataFrame) -> DataFrame:
    """The stores of each ISO week, the one with the most revenue first."""
    weekly = lines.withColumn("day", F.trunc("day", "week"))
    best_first = Window.partitionBy("day").orderBy(F.desc("revenue_eur"), "store_id")
    stores = weekly.groupBy("day", "store_id").agg(*sums())
    return stores.withColumn("rank", F.row_number().over(best_first).cast("bigint"))


@SALES.table("report_monthly_close", cadence=Cadence.MONTHLY, rules=_ADDS_UP, totals=_TOTALS, groups=("currency",))
class ReportMonthlyClose(Contract):
    """The sales of each month in each currency, also in euros. A month is flagged incomplete until all its days are
    published.
    """

    currency: T.StringType = Field(
        key=True, str_matches="^[A-Z]{3}$", description="The currency the sales were made in."
    )
    stores: T.LongType = Field(ge=1, made_of="store_id", description="Different stores.")
    revenue: Money = Field(ge=0, made_of="sales_value", description="In `currency`.")
    revenue_eur: Euros = _REVENUE
    lines: T.LongType = _LINES
    baskets: T.LongType = _BASKETS
    quantity: T.LongType = _QUANTITY
    days_published: T.LongType = _DAYS_PUBLISHED
    complete: T.BooleanType = _COMPLETE
    day: T.DateType = Field(description="The first day of the month.")


@SALES.version(ReportMonthlyClose, "v1", "Sums by currency.", FACT)
def monthly_close(lines: DataFrame) -> DataFrame:
    """The sales of each month in each currency."""
    monthly = lines.withColumn("day", F.trunc("day", "month"))
    return monthly.groupBy("day", "currency").agg(
        *sums(),
        F.sum("sales_value").cast("decimal(18,2)").alias("revenue"),
        F.count_distinct("store_id").alias("stores"),
    )
