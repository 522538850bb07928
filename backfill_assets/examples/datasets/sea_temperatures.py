"""Readings of the sea surface by sensors at a buoy, every half hour."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.rules import TotalAgrees, VolumeWithin

SEA = LandedDataset(
    name="sea_temperatures",
    description="Half-hourly readings of the sea surface temperature, and what the days were like.",
    owners=("team:ocean-data",),
    first_day=date(2016, 2, 15),
    rows="sea temperature readings",
    most_rows=100_000,
    tolerated_rejects=5,
)


@SEA.row("v1", "Newest of each reading.")
class SeaReading(Contract):
    """A sound reading."""

    sensor_id: T.StringType = Field(key=True, str_matches="^[A-Z0-9]{1,12}$", description="Which sensor it is from.")
    measured_at: T.TimestampType = Field(key=True, event_day=True, description="When it was measured, in UTC.")
    celsius: Annotated[T.DecimalType, 6, 3] = Field(ge=-5, le=45, description="Of the sea surface.")
    sent_at: T.TimestampType = Field(version=True, description="When the buoy sent it; a correction is sent later.")


@SEA.table(
    "report_sea_temperature",
    rules=(TotalAgrees("readings", SEA.bronze, "rows"), VolumeWithin(1_000, made_of=SEA.bronze)),
    totals=("readings",),
    groups=("sensor_id",),
)
class SeaTemperature(Contract):
    """Mean, coldest and warmest sea surface temperature of each sensor and day."""

    sensor_id: T.StringType = Field(key=True, description="Which sensor it is from.")
    mean_celsius: Annotated[T.DecimalType, 8, 4] = Field(
        ge=-5, le=45, made_of="celsius", description="Of all readings, half up."
    )
    min_celsius: Annotated[T.DecimalType, 6, 3] = Field(made_of="celsius", description="The coldest reading.")
    max_celsius: Annotated[T.DecimalType, 6, 3] = Field(made_of="celsius", description="The warmest reading.")
    readings: T.LongType = Field(
        ge=1, made_of="measured_at", description="How many there were; 48 on a day without gaps."
    )
    day: T.DateType = Field(description="The day of the readings, in UTC.")


@SEA.version(SeaTemperature, "v1", "Means by sensor and day.", SEA.bronze)
def sea_temperature(readings: DataFrame) -> DataFrame:
    """Mean, coldest and warmest reading of each sensor and day."""
    return readings.groupBy("day", "sensor_id").agg(
        (F.sum("celsius") / F.count("*")).cast("decimal(8,4)").alias("mean_celsius"),
        F.min("celsius").alias("min_celsius"),
        F.max("celsius").alias("max_celsius"),
        F.count("*").alias("readings"),
    )
