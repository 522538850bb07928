"""The dataset ``sea_temperatures``: readings of the sea surface by sensors at a buoy, every half hour."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Dataset, Reads, Source, Step, Table, Version
from backfill_assets.model.landed import BronzeColumns, landed_steps
from backfill_assets.model.refinement import Refinement, refined
from backfill_assets.model.rules import TotalAgrees, VolumeWithin

MOST_READINGS_A_DAY = 100_000

SEA_TEMPERATURES = Source(
    name="sea_temperatures",
    fields=("sensor_id", "measured_at", "celsius", "sent_at"),
    types={"measured_at": "timestamp", "celsius": "decimal(6,3)", "sent_at": "timestamp"},
    key_fields=("sensor_id", "measured_at"),
    event_day_field="measured_at",
    version_field="sent_at",
)


class TypedSeaTemperatures(Contract):
    """A sound reading."""

    sensor_id: T.StringType = Field(str_matches="^[A-Z0-9]{1,12}$", description="Which sensor it is from.")
    measured_at: T.TimestampType = Field(description="When it was measured, in UTC.")
    celsius: Annotated[T.DecimalType, 6, 3] = Field(ge=-5, le=45, description="Of the sea surface.")
    sent_at: T.TimestampType = Field(description="When the buoy sent it; a correction is sent later.")


class BronzeSeaTemperatures(BronzeColumns, TypedSeaTemperatures):
    """One reading per sensor and moment."""


class ReportSeaTemperature(Contract):
    """The temperatures of a day, in degrees Celsius."""

    sensor_id: T.StringType = Field(description="Which sensor it is from.")
    mean_celsius: Annotated[T.DecimalType, 8, 4] = Field(ge=-5, le=45, description="Of all readings, half up.")
    min_celsius: Annotated[T.DecimalType, 6, 3] = Field(description="The coldest reading.")
    max_celsius: Annotated[T.DecimalType, 6, 3] = Field(description="The warmest reading.")
    readings: T.LongType = Field(ge=1, description="How many there were; 48 on a day without gaps.")
    day: T.DateType = Field(description="The day of the readings, in UTC.")


REFINEMENT = Refinement(SEA_TEMPERATURES, BronzeSeaTemperatures, key=("sensor_id", "measured_at"))


def bronze(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """Typed readings with one winner per sensor and moment, and the rejected rows."""
    return refined(inputs, REFINEMENT)


def daily(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """Mean, coldest and warmest reading of each sensor and day."""
    report = (
        inputs["bronze_sea_temperatures"]
        .groupBy("day", "sensor_id")
        .agg(
            (F.sum("celsius") / F.count("*")).cast("decimal(8,4)").alias("mean_celsius"),
            F.min("celsius").alias("min_celsius"),
            F.max("celsius").alias("max_celsius"),
            F.count("*").alias("readings"),
        )
    )
    columns = ("sensor_id", "mean_celsius", "min_celsius", "max_celsius", "readings", "day")
    return {"report_sea_temperature": report.select(*columns).repartition("day")}


REPORT = Table(
    name="report_sea_temperature",
    layer="report",
    description="Mean, coldest and warmest sea surface temperature of each sensor and day.",
    contract=ReportSeaTemperature,
    key=("sensor_id",),
    rules=(
        TotalAgrees("readings", fact="bronze_sea_temperatures", fact_total="rows"),
        VolumeWithin(at_most=1_000, made_of="bronze_sea_temperatures"),
    ),
    totals=("readings",),
    groups=("sensor_id",),
    made_of={
        **dict.fromkeys(("mean_celsius", "min_celsius", "max_celsius"), ("bronze_sea_temperatures.celsius",)),
        "readings": ("bronze_sea_temperatures.measured_at",),
    },
)

SEA_TEMPERATURES_DATASET = Dataset(
    name="sea_temperatures",
    description="Half-hourly readings of the sea surface temperature, and what the days were like.",
    owners=("team:ocean-data",),
    first_day=date(2016, 2, 15),
    steps=(
        *landed_steps(
            SEA_TEMPERATURES,
            BronzeSeaTemperatures,
            rows="sea temperature readings",
            key=("sensor_id", "measured_at"),
            versions=(Version("v1", "Newest of each reading.", (Reads("raw_sea_temperatures"),), bronze),),
            current="v1",
            most_rows=MOST_READINGS_A_DAY,
            tolerated_rejects=5,
        ),
        Step(
            tables=(REPORT,),
            versions=(Version("v1", "Means by sensor and day.", (Reads("bronze_sea_temperatures"),), daily),),
            current="v1",
        ),
    ),
)
