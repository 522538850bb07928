"""The contracts of the sales tables: columns, types, nullability and what every value must fulfil."""

from __future__ import annotations

from typing import Annotated

from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed import BronzeColumns

MOST_MONEY = 100_000_000
"""More than this on one line of a receipt, in any currency, is a mistake of the source."""

_CURRENCY = "^[A-Z]{3}$"
_HMAC = "^[0-9a-f]{64}$"


class TypedSales(Contract):
    """A sound sale."""

    transaction_id: T.StringType = Field(description="Basket and product.")
    household_token: T.StringType = Field(str_matches=_HMAC, description="Keyed hash of the household id.")
    store_id: T.StringType = Field(str_length={"min_value": 1}, description="The shop.")
    basket_id: T.StringType = Field(str_length={"min_value": 1}, description="The receipt.")
    product_id: T.StringType = Field(str_length={"min_value": 1}, description="See `bronze_products`.")
    quantity: T.LongType = Field(ge=0, description="Pieces.")
    sales_value: Annotated[T.DecimalType, 18, 2] = Field(ge=0, le=MOST_MONEY, description="In `currency`.")
    retail_disc: Annotated[T.DecimalType, 18, 2] = Field(ge=0, description="Given with a loyalty card.")
    coupon_disc: Annotated[T.DecimalType, 18, 2] = Field(ge=0, description="Given by a manufacturer's coupon.")
    coupon_match_disc: Annotated[T.DecimalType, 18, 2] = Field(ge=0, description="The shop's match of it.")
    transaction_timestamp: T.TimestampType = Field(description="When it was sold, in UTC.")
    currency: T.StringType = Field(str_matches=_CURRENCY, description="ISO 4217 code.")
    updated_at: T.TimestampType = Field(description="When the source wrote this version.")


class BronzeSales(BronzeColumns, TypedSales):
    """One winner per transaction and day, accounting for the rows it won over."""


class FactSalesTransactions(TypedSales):
    """One row per transaction, in euros."""

    rate: Annotated[T.DecimalType, 18, 6] = Field(nullable=True, gt=0, description="Units of `currency` per euro.")
    rate_day: T.DateType = Field(nullable=True, description="The day the rate was published.")
    amount_eur: Annotated[T.DecimalType, 18, 4] = Field(nullable=True, ge=0, description="Rounded half up.")
    day: T.DateType = Field(description="The day of the sale, in UTC.")


class FactDailyRevenue(Contract):
    """Revenue of a store on a day."""

    store_id: T.StringType = Field(str_length={"min_value": 1}, description="The shop.")
    revenue_eur: Annotated[T.DecimalType, 18, 4] = Field(ge=0, description="The sum of the lines' amounts.")
    lines: T.LongType = Field(ge=1, description="Transactions.")
    baskets: T.LongType = Field(ge=1, description="Different receipts.")
    quantity: T.LongType = Field(ge=0, description="Pieces.")
    day: T.DateType = Field(description="The day of the sales, in UTC.")
