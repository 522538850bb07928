"""The contracts of the exchange rate tables."""

from __future__ import annotations

from typing import Annotated

from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed import BronzeColumns


class TypedFxRates(Contract):
    """A sound reference rate."""

    currency: T.StringType = Field(str_matches="^[A-Z]{3}$", description="ISO 4217 code.")
    rate_day: T.DateType = Field(description="The day of publication; the same as `day`.")
    rate: Annotated[T.DecimalType, 18, 6] = Field(gt=0, description="Units of `currency` per euro.")
    updated_at: T.TimestampType = Field(description="When the source wrote this version.")


class BronzeFxRates(BronzeColumns, TypedFxRates):
    """One rate per currency and day of publication."""
