"""The dataset ``sales``: from landed receipts to daily revenue in euros."""

from __future__ import annotations

from decimal import Decimal

from backfill_assets.datasets import sales_transforms_v1 as v1
from backfill_assets.datasets import sales_transforms_v2 as v2
from backfill_assets.datasets.dataset import Dataset, Reads, Step, Table, Version
from backfill_assets.datasets.day_rules import (
    ContentIntact,
    EverythingAccountedFor,
    EverythingPublished,
    FewNulls,
    FewRejected,
    RatesFound,
    TotalAgrees,
    VolumeWithin,
)
from backfill_assets.datasets.fx_rates import FX_DATASET
from backfill_assets.datasets.sales_contracts import (
    BronzeSales,
    FactDailyRevenue,
    FactSalesTransactions,
    QuarantineSales,
    RawSales,
)
from backfill_assets.datasets.sales_source import SALES

MOST_LINES_A_DAY = 50_000_000

RAW = Table(
    name="raw_sales",
    layer="raw",
    description="Every sales line received, as text, on the day it belongs to; household ids are tokens.",
    contract=RawSales,
    key=(),
    rules=(ContentIntact(SALES, "text"), VolumeWithin(at_most=MOST_LINES_A_DAY)),
)

BRONZE = Table(
    name="bronze_sales",
    layer="bronze",
    description="Typed, sound sales lines: the newest version of each transaction on each day.",
    contract=BronzeSales,
    key=("transaction_id",),
    rules=(
        ContentIntact(SALES, "values"),
        EverythingAccountedFor(raw=RAW.name, quarantine="quarantine_sales"),
        FewRejected(raw=RAW.name, quarantine="quarantine_sales", at_most=Decimal("0.2"), tolerated_rows=20),
        VolumeWithin(at_most=MOST_LINES_A_DAY),
    ),
)

QUARANTINE = Table(
    name="quarantine_sales",
    layer="quarantine",
    description="Rejected sales lines as they were landed, with file, line and every reason.",
    contract=QuarantineSales,
    key=("source_file", "source_line"),
    rules=(ContentIntact(SALES, "text"),),
)

TRANSACTIONS = Table(
    name="fact_sales_transactions",
    layer="fact",
    description="One row per transaction, with its amount in euros.",
    contract=FactSalesTransactions,
    key=("transaction_id",),
    rules=(
        EverythingPublished(SALES, raw=RAW.name, bronze=BRONZE.name, quarantine=QUARANTINE.name),
        RatesFound(rate="rate", currency="currency", within_days=7),
        FewNulls("amount_eur", at_most=Decimal(0)),
        VolumeWithin(at_most=MOST_LINES_A_DAY),
    ),
    totals=("amount_eur", "quantity"),
)

REVENUE = Table(
    name="fact_daily_revenue",
    layer="report",
    description="Revenue in euros, lines, baskets and pieces of each store and day.",
    contract=FactDailyRevenue,
    key=("store_id",),
    rules=(
        TotalAgrees("revenue_eur", fact=TRANSACTIONS.name, fact_total="amount_eur"),
        TotalAgrees("quantity", fact=TRANSACTIONS.name, fact_total="quantity"),
        TotalAgrees("lines", fact=TRANSACTIONS.name, fact_total="rows"),
        VolumeWithin(at_most=1_000_000, made_of=TRANSACTIONS.name),
    ),
    totals=("revenue_eur", "lines", "quantity"),
)

SALES_DATASET = Dataset(
    name="sales",
    description="Grocery receipts in many currencies, and the revenue they make.",
    owners=("team:retail-data",),
    first_day=FX_DATASET.first_day,
    steps=(
        Step(tables=(RAW,), source=SALES),
        Step(
            tables=(BRONZE, QUARANTINE),
            versions=(Version("v1", "Newest version of each transaction and day.", (Reads(RAW.name),), v1.bronze),),
            current="v1",
        ),
        Step(
            tables=(TRANSACTIONS,),
            versions=(
                Version(
                    "v1",
                    "Converts at the previous day's rate.",
                    (Reads(BRONZE.name), Reads("bronze_fx_rates", -8, -1)),
                    v1.transactions,
                ),
                Version(
                    "v2",
                    "Converts at the rate of the transaction's day.",
                    (Reads(BRONZE.name), Reads("bronze_fx_rates", -7, 0)),
                    v2.transactions,
                ),
            ),
            current="v2",
        ),
        Step(
            tables=(REVENUE,),
            versions=(Version("v1", "Sums by store and day.", (Reads(TRANSACTIONS.name),), v1.daily_revenue),),
            current="v1",
        ),
    ),
)
