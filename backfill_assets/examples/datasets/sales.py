"""Grocery lines in many currencies, each in euros at its day's rate, and reports on them.

A version is never changed, so that what it computed stays reproducible: new logic is a new version. Reports sum
``fact_sales_transactions``: nothing is rounded twice.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import Cadence
from backfill_assets.examples.datasets.fx_rates import FX_RATES
from backfill_assets.examples.datasets.products import LONGEST_CATALOGUE_GAP_DAYS, PRODUCTS, products_as_of
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import DayRule, Reads
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.rules import (
    ArrivedWithin,
    ConvertedExactly,
    EverythingPublished,
    FewNulls,
    FewUnknown,
    RatesFound,
    RecentReference,
    TotalAgrees,
    VolumeWithin,
)

MOST_MONEY = 100_000_000
"""More on one line, in any currency, is a mistake."""
Money = Annotated[T.DecimalType, 18, 2]

SALES = LandedDataset(
    name="sales",
    description="Grocery receipts in many currencies, and the revenue they make.",
    owners=("team:retail-data",),
    first_day=FX_RATES.first_day,
    rows="sales lines",
    most_rows=50_000_000,
    tolerated_rejects=20,
    # Tills send a receipt again when they did not hear that it arrived.
    most_duplicates=Decimal("0.02"),
    tolerated_duplicates=20,
    arrives=ArrivedWithin(days=7, at_most=Decimal("0.05"), tolerated_rows=20),
    supersession_window_days=7,
    streamed=True,
)


@SALES.row("v1", "Newest version of each transaction and day.")
class SalesLine(Contract):
    """A sound line of a receipt."""

    transaction_id: T.StringType = Field(
        key=True, joined=("basket_id", "product_id"), description="Basket and product."
    )
    household_token: T.StringType = Field(
        personal="household_id", str_matches="^[0-9a-f]{64}$", description="Keyed hash of the household id."
    )
    store_id: T.StringType = Field(str_length={"min_value": 1}, description="The shop.")
    basket_id: T.StringType = Field(str_length={"min_value": 1}, description="The receipt.")
    product_id: T.StringType = Field(str_length={"min_value": 1}, description="See `bronze_products`.")
    quantity: T.LongType = Field(ge=0, description="Pieces.")
    sales_value: Money = Field(ge=0, le=MOST_MONEY, description="In `currency`.")
    retail_disc: Money = Field(ge=0, description="Given with a loyalty card.")
    coupon_disc: Money = Field(ge=0, description="Given by a manufacturer's coupon.")
    coupon_match_disc: Money = Field(ge=0, description="The shop's match of it.")
    transaction_timestamp: T.TimestampType = Field(event_day=True, description="When it was sold, in UTC.")
    currency: T.StringType = Field(str_matches="^[A-Z]{3}$", description="ISO 4217 code.")
    updated_at: T.TimestampType = Field(version=True, description="When the source wrote this version.")


# -------------------------------------------------------------------- in euros

LONGEST_GAP_DAYS = 7
"""No older rate is used; the longest gap (Easter, Christmas) is five days."""
FACT = "fact_sales_transactions"


@SALES.table(
    FACT,
    rules=(
        EverythingPublished(
            SALES.source,
            raw=SALES.raw,
            bronze=SALES.bronze,
            quarantine=SALES.quarantine,
            check="bronze_sales_to_fact_reconciles",
        ),
        RatesFound(rate="rate", currency="currency", within_days=7),
        FewNulls("amount_eur", at_most=Decimal(0), check="rates_found"),
        ConvertedExactly("sales_value", rate="rate", converted="amount_eur", digits=4),
        # The longest gap between two publications, at Easter and Christmas; a line is without a rate after seven days.
        RecentReference("rate_day", within_days=5),
        VolumeWithin(at_most=SALES.most_rows),
    ),
    totals=("amount_eur", "quantity"),
    groups=("currency", "store_id"),
)
class FactSalesTransactions(SalesLine):
    """Each line that was sold, with its amount in euros."""

    rate: Annotated[T.DecimalType, 18, 6] = Field(nullable=True, gt=0, description="Units of `currency` per euro.")
    rate_day: T.DateType = Field(nullable=True, description="The day the rate was published.")
    amount_eur: Annotated[T.DecimalType, 18, 4] = Field(
        nullable=True, ge=0, made_of=("sales_value", "bronze_fx_rates.rate"), description="Rounded half up."
    )
    day: T.DateType = Field(description="The day of the sale, in UTC.")


@SALES.version(
    FactSalesTransactions,
    "v1",
    "Converts at the previous day's rate.",
    *(SALES.bronze, Reads(FX_RATES.bronze, -LONGEST_GAP_DAYS - 1, -1)),
    clustered=True,
    follows="rows",
)
def at_the_previous_days_rate(sales: DataFrame, rates: DataFrame) -> DataFrame:
    """Euros at the rate as of the *previous* day: the bug that version 2 fixes."""
    return in_eur(sales, rates_as_of(rates, days_before=1))


@SALES.version(
    FactSalesTransactions,
    "v2",
    "Converts at the rate of the transaction's day.",
    *(SALES.bronze, Reads(FX_RATES.bronze, -LONGEST_GAP_DAYS, 0)),
    clustered=True,
    follows="rows",
)
def at_the_days_own_rate(sales: DataFrame, rates: DataFrame) -> DataFrame:
    """Euros at the rate as of the transaction's own day."""
    return in_eur(sales, rates_as_of(rates, days_before=0))


def rates_as_of(rates: DataFrame, *, days_before: int) -> DataFrame:
    """``currency, day, rate, rate_day``: what counts on ``day`` is the last as of ``days_before`` days earlier."""
    ages = F.sequence(F.lit(days_before), F.lit(days_before + LONGEST_GAP_DAYS))
    serving = rates.select("currency", "rate_day", "rate", F.explode(ages).alias("age"))
    dated = serving.withColumn("day", F.date_add("rate_day", F.col("age")))
    last = dated.groupBy("currency", "day").agg(F.max(F.struct("rate_day", "rate")).alias("last"))
    return last.select("currency", "day", "last.rate", "last.rate_day")


def in_eur(sales: DataFrame, rates: DataFrame) -> DataFrame:
    """The transactions of bronze sales that are not superseded, in euros; null where there is no rate.

    ``rates`` are broadcast: nothing is shuffled.
    """
    current = sales.where(F.col("superseded_by_day").isNull())
    priced = current.join(F.broadcast(rates), on=["currency", "day"], how="left")
    is_eur = F.col("currency") == "EUR"
    return priced.withColumns(
        {
            "rate": F.when(is_eur, F.lit(1).cast("decimal(18,6)")).otherwise(F.col("rate")),
            "rate_day": F.when(is_eur, F.col("day")).otherwise(F.col("rate_day")),
        }
    ).withColumn("amount_eur", half_up_quotient(F.col("sales_value"), F.col("rate")))


def half_up_quotient(amount: Column, rate: Column) -> Column:
    """``amount / rate`` as decimal(18,4), rounded half up once; amounts are decimal(18,2) and not negative.

    Spark's own division rounds first to some scale: a second rounding lifts what is just below a half.
    """
    doubled = (F.lit(20_000).cast("decimal(5,0)") * amount + rate).cast("decimal(31,6)")
    ten_thousandths = F.call_function("div", doubled, (F.lit(2).cast("decimal(1,0)") * rate).cast("decimal(20,6)"))
    return (ten_thousandths.cast("decimal(19,0)") * F.lit("0.0001").cast("decimal(4,4)")).cast("decimal(18,4)")


# --------------------------------------------------------------------- reports

UNKNOWN = "UNKNOWN"
"""Department of products not in the catalogue."""
_UNKNOWN_BASELINE = Decimal("0.0033")
"""The catalogue lacks products of 4,836 of 1,469,307 real lines of 2017; 0.8 % on the worst day."""

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
    says so in the column complete.
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
