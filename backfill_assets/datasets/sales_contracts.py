"""The contracts of the sales tables: columns, types, nullability and what every value must fulfil."""

from __future__ import annotations

from typing import Annotated

import pandera.pyspark as pa
from pyspark.sql import types as T

from backfill_assets.datasets.contract_model import Contract

MOST_MONEY = 100_000_000
"""More than this on one line of a receipt, in any currency, is a mistake of the source."""

_CURRENCY = "^[A-Z]{3}$"
_HMAC = "^[0-9a-f]{64}$"


class LandedSales(Contract):
    """The landed fields of a sale, all text, as raw and quarantine keep them."""

    household_token: T.StringType = pa.Field(nullable=True, description="Keyed hash of the household id.")
    store_id: T.StringType = pa.Field(nullable=True)
    basket_id: T.StringType = pa.Field(nullable=True)
    product_id: T.StringType = pa.Field(nullable=True)
    quantity: T.StringType = pa.Field(nullable=True)
    sales_value: T.StringType = pa.Field(nullable=True, description="What the line brought in, in `currency`.")
    retail_disc: T.StringType = pa.Field(nullable=True)
    coupon_disc: T.StringType = pa.Field(nullable=True)
    coupon_match_disc: T.StringType = pa.Field(nullable=True)
    transaction_timestamp: T.StringType = pa.Field(nullable=True)
    currency: T.StringType = pa.Field(nullable=True)
    updated_at: T.StringType = pa.Field(nullable=True, description="When the source wrote this version.")
    rescued: T.StringType = pa.Field(nullable=True, description="Unknown fields, as a JSON object.")
    unparsed_line: T.StringType = pa.Field(nullable=True, description="The line, if it is not one JSON object.")


class RawSales(LandedSales):
    """Everything that was received, and a marker for every newer version that belongs to another day."""

    record_kind: T.StringType = pa.Field(isin=["received", "supersession"])
    source_file: T.StringType = pa.Field(nullable=True, description="Relative to the landing zone; null for a marker.")
    source_line: T.LongType = pa.Field(nullable=True, ge=1)
    arrival_day: T.DateType = pa.Field(nullable=True)
    day_is_arrival: T.BooleanType = pa.Field(description="The event day is unreadable or absurd.")
    content_hash: T.LongType = pa.Field()
    superseded_by_day: T.DateType = pa.Field(nullable=True, description="Markers: the day of the newer version.")
    day: T.DateType = pa.Field()


class QuarantineSales(LandedSales):
    """Rejected rows as they were landed, with every reason."""

    source_file: T.StringType = pa.Field()
    source_line: T.LongType = pa.Field(ge=1)
    arrival_day: T.DateType = pa.Field()
    content_hash: T.LongType = pa.Field()
    reasons: T.ArrayType(T.StringType()) = pa.Field()  # type: ignore[valid-type]
    day: T.DateType = pa.Field()


class TypedSales(Contract):
    """A sound sale."""

    transaction_id: T.StringType = pa.Field(description="Basket and product.")
    household_token: T.StringType = pa.Field(str_matches=_HMAC, description="Keyed hash of the household id.")
    store_id: T.StringType = pa.Field(str_length={"min_value": 1})
    basket_id: T.StringType = pa.Field(str_length={"min_value": 1})
    product_id: T.StringType = pa.Field(str_length={"min_value": 1})
    quantity: T.LongType = pa.Field(ge=0)
    sales_value: Annotated[T.DecimalType, 18, 2] = pa.Field(ge=0, le=MOST_MONEY, description="In `currency`.")
    retail_disc: Annotated[T.DecimalType, 18, 2] = pa.Field(ge=0)
    coupon_disc: Annotated[T.DecimalType, 18, 2] = pa.Field(ge=0)
    coupon_match_disc: Annotated[T.DecimalType, 18, 2] = pa.Field(ge=0)
    transaction_timestamp: T.TimestampType = pa.Field()
    currency: T.StringType = pa.Field(str_matches=_CURRENCY)
    updated_at: T.TimestampType = pa.Field(description="When the source wrote this version.")


class BronzeSales(TypedSales):
    """One winner per transaction and day, accounting for the rows it won over."""

    content_hash: T.LongType = pa.Field(description="As computed from the landed text.")
    source_file: T.StringType = pa.Field()
    source_line: T.LongType = pa.Field(ge=1)
    arrival_day: T.DateType = pa.Field()
    deduplicated_rows: T.LongType = pa.Field(ge=0, description="Other rows of this transaction and day.")
    deduplicated_hash: Annotated[T.DecimalType, 38, 0] = pa.Field(description="The sum of their content hashes.")
    superseded_by_day: T.DateType = pa.Field(nullable=True, description="A newer version belongs to this day.")
    day: T.DateType = pa.Field()


class FactSalesTransactions(TypedSales):
    """One row per transaction, in euros."""

    rate: Annotated[T.DecimalType, 18, 6] = pa.Field(nullable=True, gt=0, description="Units of `currency` per euro.")
    rate_day: T.DateType = pa.Field(nullable=True, description="The day the rate was published.")
    amount_eur: Annotated[T.DecimalType, 18, 4] = pa.Field(nullable=True, ge=0, description="Rounded half up.")
    day: T.DateType = pa.Field()


class FactDailyRevenue(Contract):
    """Revenue of a store on a day."""

    store_id: T.StringType = pa.Field(str_length={"min_value": 1})
    revenue_eur: Annotated[T.DecimalType, 18, 4] = pa.Field(ge=0)
    lines: T.LongType = pa.Field(ge=1)
    baskets: T.LongType = pa.Field(ge=1)
    quantity: T.LongType = pa.Field(ge=0)
    day: T.DateType = pa.Field()
