"""What is landed of sales: grocery transaction lines, one a basket and product, in many currencies."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pyspark.sql import types as T

from backfill_assets.examples.datasets.fx_rates import FX_RATES
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.rules import ArrivedWithin

MOST_MONEY = 100_000_000
"""More than this on one line of a receipt, in any currency, is a mistake of the source."""
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
