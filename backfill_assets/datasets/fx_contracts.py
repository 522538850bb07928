"""The contracts of the exchange rate tables."""

from __future__ import annotations

from typing import Annotated

import pandera.pyspark as pa
from pyspark.sql import types as T

from backfill_assets.datasets.contract_model import Contract


class LandedRates(Contract):
    """The landed fields of a reference rate, all text, as raw and quarantine keep them."""

    currency: T.StringType = pa.Field(nullable=True)
    rate_day: T.StringType = pa.Field(nullable=True)
    rate: T.StringType = pa.Field(nullable=True, description="Units of `currency` per euro.")
    updated_at: T.StringType = pa.Field(nullable=True, description="When the source wrote this version.")
    rescued: T.StringType = pa.Field(nullable=True, description="Unknown fields, as a JSON object.")
    unparsed_line: T.StringType = pa.Field(nullable=True, description="The line, if it is not one JSON object.")


class RawFxRates(LandedRates):
    """Everything that was received."""

    record_kind: T.StringType = pa.Field(isin=["received", "supersession"])
    source_file: T.StringType = pa.Field(nullable=True, description="Relative to the landing zone; null for a marker.")
    source_line: T.LongType = pa.Field(nullable=True, ge=1)
    arrival_day: T.DateType = pa.Field(nullable=True)
    day_is_arrival: T.BooleanType = pa.Field(description="The day of the rate is unreadable or absurd.")
    content_hash: T.LongType = pa.Field()
    superseded_by_day: T.DateType = pa.Field(nullable=True, description="Markers: the day of the newer version.")
    day: T.DateType = pa.Field()


class QuarantineFxRates(LandedRates):
    """Rejected rows as they were landed, with every reason."""

    source_file: T.StringType = pa.Field()
    source_line: T.LongType = pa.Field(ge=1)
    arrival_day: T.DateType = pa.Field()
    content_hash: T.LongType = pa.Field()
    reasons: T.ArrayType(T.StringType()) = pa.Field()  # type: ignore[valid-type]
    day: T.DateType = pa.Field()


class BronzeFxRates(Contract):
    """One rate per currency and day of publication."""

    currency: T.StringType = pa.Field(str_matches="^[A-Z]{3}$")
    rate_day: T.DateType = pa.Field(description="The day of publication; the same as `day`.")
    rate: Annotated[T.DecimalType, 18, 6] = pa.Field(gt=0, description="Units of `currency` per euro.")
    updated_at: T.TimestampType = pa.Field(description="When the source wrote this version.")
    content_hash: T.LongType = pa.Field(description="As computed from the landed text.")
    source_file: T.StringType = pa.Field()
    source_line: T.LongType = pa.Field(ge=1)
    arrival_day: T.DateType = pa.Field()
    deduplicated_rows: T.LongType = pa.Field(ge=0, description="Other rows of this currency and day.")
    deduplicated_hash: Annotated[T.DecimalType, 38, 0] = pa.Field(description="The sum of their content hashes.")
    superseded_by_day: T.DateType = pa.Field(nullable=True, description="Always null: the day is part of the key.")
    day: T.DateType = pa.Field()
