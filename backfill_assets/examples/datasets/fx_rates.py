"""The European Central Bank's daily reference rates."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated

from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.rules import ArrivedWithin

FX_RATES = LandedDataset(
    name="fx_rates",
    description="Reference rates of currencies against the euro.",
    owners=("team:retail-data",),
    # The sales begin on 2017-01-01, which may need a rate published up to eight days before.
    first_day=date(2016, 12, 24),
    rows="reference rates",
    most_rows=10_000,
    tolerated_rejects=2,
    # The sales of a day are converted with the rates of that day: a later rate finds them converted with an older one.
    arrives=ArrivedWithin(days=1, at_most=Decimal(0)),
)


@FX_RATES.row("v1", "Newest version of each rate.")
class ReferenceRate(Contract):
    """A sound reference rate."""

    currency: T.StringType = Field(key=True, str_matches="^[A-Z]{3}$", description="ISO 4217 code.")
    rate_day: T.DateType = Field(event_day=True, description="The day of publication; the same as `day`.")
    rate: Annotated[T.DecimalType, 18, 6] = Field(gt=0, description="Units of `currency` per euro.")
    updated_at: T.TimestampType = Field(version=True, description="When the source wrote this version.")
