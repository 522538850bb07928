"""The dataset ``sales``: from landed receipts to daily revenue in euros."""

from __future__ import annotations

from decimal import Decimal

from backfill_assets.datasets.fx_rates import FX_DATASET
from backfill_assets.datasets.sales import v1, v2
from backfill_assets.datasets.sales.contracts import (
    BronzeSales,
    FactDailyRevenue,
    FactSalesTransactions,
)
from backfill_assets.datasets.sales.reports import REPORT_STEPS, SUMS_OF_LINES
from backfill_assets.datasets.sales.source import SALES
from backfill_assets.model.declaration import Dataset, Reads, Step, Table, Version
from backfill_assets.model.landed import landed_steps
from backfill_assets.model.rules import (
    ArrivedWithin,
    ConvertedExactly,
    EverythingPublished,
    FewNulls,
    RatesFound,
    RecentReference,
    TotalAgrees,
    VolumeWithin,
)

MOST_LINES_A_DAY = 50_000_000

LANDED = landed_steps(
    SALES,
    BronzeSales,
    rows="sales lines",
    key=("transaction_id",),
    versions=(Version("v1", "Newest version of each transaction and day.", (Reads("raw_sales"),), v1.bronze),),
    current="v1",
    most_rows=MOST_LINES_A_DAY,
    tolerated_rejects=20,
    # Tills send a receipt again when they did not hear that it arrived.
    most_duplicates=Decimal("0.02"),
    tolerated_duplicates=20,
    made_of={"transaction_id": ("raw_sales.basket_id", "raw_sales.product_id")},
    arrives=ArrivedWithin(days=7, at_most=Decimal("0.05"), tolerated_rows=20),
)

TRANSACTIONS = Table(
    name="fact_sales_transactions",
    layer="fact",
    description="Each line that was sold, with its amount in euros.",
    contract=FactSalesTransactions,
    key=("transaction_id",),
    rules=(
        EverythingPublished(SALES, raw="raw_sales", bronze="bronze_sales", quarantine="quarantine_sales"),
        RatesFound(rate="rate", currency="currency", within_days=7),
        FewNulls("amount_eur", at_most=Decimal(0)),
        ConvertedExactly("sales_value", rate="rate", converted="amount_eur", digits=4),
        # The longest gap between two publications, at Easter and Christmas; a line is without a rate after seven days.
        RecentReference("rate_day", within_days=5),
        VolumeWithin(at_most=MOST_LINES_A_DAY),
    ),
    totals=("amount_eur", "quantity"),
    groups=("currency", "store_id"),
    made_of={"amount_eur": ("bronze_sales.sales_value", "bronze_fx_rates.rate")},
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
    groups=("store_id",),
    made_of=SUMS_OF_LINES,
)

SALES_DATASET = Dataset(
    name="sales",
    description="Grocery receipts in many currencies, and the revenue they make.",
    owners=("team:retail-data",),
    first_day=FX_DATASET.first_day,
    steps=(
        *LANDED,
        Step(
            tables=(TRANSACTIONS,),
            versions=(
                Version(
                    "v1",
                    "Converts at the previous day's rate.",
                    (Reads("bronze_sales"), Reads("bronze_fx_rates", -8, -1)),
                    v1.transactions,
                ),
                Version(
                    "v2",
                    "Converts at the rate of the transaction's day.",
                    (Reads("bronze_sales"), Reads("bronze_fx_rates", -7, 0)),
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
        *REPORT_STEPS,
    ),
)
