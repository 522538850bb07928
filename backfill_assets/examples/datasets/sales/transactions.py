"""Each line that was sold in euros, exactly, at the last rate published on or before a day.

A version is never changed: what it computed must stay reproducible. New logic is a new version.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.examples.datasets.fx_rates import FX_RATES
from backfill_assets.examples.datasets.sales.landed import SALES, SalesLine
from backfill_assets.model.contract import Field
from backfill_assets.model.declaration import Reads
from backfill_assets.model.rules import (
    ConvertedExactly,
    EverythingPublished,
    FewNulls,
    RatesFound,
    RecentReference,
    VolumeWithin,
)

LONGEST_GAP_DAYS = 7
"""No rate is used that is older than this; the longest gap between publications (Easter, Christmas) is five days."""
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

    A day stays in as many files as it is read from: nothing is shuffled, for ``rates`` are broadcast.
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

    Spark's own division rounds to some scale first, and a second rounding can then lift what is just below a half.
    """
    doubled = (F.lit(20_000).cast("decimal(5,0)") * amount + rate).cast("decimal(31,6)")
    ten_thousandths = F.call_function("div", doubled, (F.lit(2).cast("decimal(1,0)") * rate).cast("decimal(20,6)"))
    return (ten_thousandths.cast("decimal(19,0)") * F.lit("0.0001").cast("decimal(4,4)")).cast("decimal(18,4)")
