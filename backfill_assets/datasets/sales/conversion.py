"""Amounts in euros, exactly, at the last rate published on or before a day."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.datasets.sales.contracts import FactSalesTransactions
from backfill_assets.model.contract_columns import struct_type

LONGEST_GAP_DAYS = 7
"""No rate is used that is older than this; the longest gap between publications (Easter, Christmas) is five days."""


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
    converted = priced.withColumns(
        {
            "rate": F.when(is_eur, F.lit(1).cast("decimal(18,6)")).otherwise(F.col("rate")),
            "rate_day": F.when(is_eur, F.col("day")).otherwise(F.col("rate_day")),
        }
    ).withColumn("amount_eur", half_up_quotient(F.col("sales_value"), F.col("rate")))
    return converted.select(*struct_type(FactSalesTransactions).names)


def half_up_quotient(amount: Column, rate: Column) -> Column:
    """``amount / rate`` as decimal(18,4), rounded half up once; amounts are decimal(18,2) and not negative.

    Spark's own division rounds to some scale first, and a second rounding can then lift what is just below a half.
    """
    doubled = (F.lit(20_000).cast("decimal(5,0)") * amount + rate).cast("decimal(31,6)")
    ten_thousandths = F.call_function("div", doubled, (F.lit(2).cast("decimal(1,0)") * rate).cast("decimal(20,6)"))
    return (ten_thousandths.cast("decimal(19,0)") * F.lit("0.0001").cast("decimal(4,4)")).cast("decimal(18,4)")
