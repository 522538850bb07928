"""A small dataset, built for a day to see which classes Spark loads; nothing is kept."""

from __future__ import annotations

import gzip
import json
from datetime import date
from pathlib import Path
from typing import Annotated

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Reads
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.rules import TotalAgrees

DAY = date(2026, 1, 5)
ENTRIES = 100
Amount = Annotated[T.DecimalType, 18, 2]

RATES = LandedDataset(
    name="rates",
    description="What a unit is worth.",
    owners=("team:backfill-assets",),
    first_day=DAY,
    rows="rates",
    most_rows=1_000,
    tolerated_rejects=0,
)


@RATES.row("v1", "Newest of each unit and day.")
class SoundRate(Contract):
    """A sound rate."""

    unit: T.StringType = Field(key=True, str_matches="^[A-Z]{3}$", description="Of what.")
    rated_on: T.DateType = Field(event_day=True, description="The day it counts from.")
    rate: Annotated[T.DecimalType, 18, 6] = Field(gt=0, description="What one is worth.")
    sent_at: T.TimestampType = Field(version=True, description="When it was sent.")


LINES = LandedDataset(
    name="lines",
    description="Lines, each with what it is worth.",
    owners=("team:backfill-assets",),
    first_day=DAY,
    rows="lines",
    most_rows=1_000,
    tolerated_rejects=10,
    tolerated_duplicates=10,
)


@LINES.row("v1", "Newest of each line.")
class SoundLine(Contract):
    """A sound line."""

    line_id: T.StringType = Field(key=True, str_length={"min_value": 1}, description="Which line.")
    happened_at: T.TimestampType = Field(event_day=True, description="When it was.")
    unit: T.StringType = Field(isin=["AAA", "BBB"], description="In what.")
    amount: Amount = Field(ge=0, description="How much.")
    pieces: T.LongType = Field(nullable=True, ge=0, description="How many.")
    sent_at: T.TimestampType = Field(version=True, description="When it was sent.")


@LINES.table("fact_lines", totals=("worth",), groups=("unit",))
class FactLines(SoundLine):
    """Each line with its worth, and its place among those of its unit."""

    worth: Annotated[T.DecimalType, 28, 4] = Field(nullable=True, made_of="amount", description="Rounded half up.")
    place: T.LongType = Field(ge=1, made_of="amount", description="1 is the greatest of its unit.")
    day: T.DateType = Field(description="The day of the line.")


@LINES.version(FactLines, "v1", "At the day's last rate.", LINES.bronze, Reads(RATES.bronze, -7, 0))
def at_the_last_rate(lines: DataFrame, rates: DataFrame) -> DataFrame:
    last = rates.groupBy("unit").agg(F.max(F.struct("rated_on", "rate")).alias("last"))
    worth = lines.join(F.broadcast(last.select("unit", "last.rate")), "unit", "left")
    greatest = Window.partitionBy("day", "unit").orderBy(F.desc("amount"), "line_id")
    return worth.withColumns(
        {
            "worth": (F.col("amount") * F.col("rate")).cast("decimal(28,4)"),
            "place": F.row_number().over(greatest).cast("bigint"),
        }
    )


@LINES.table("report_lines", rules=(TotalAgrees("lines", "fact_lines", "rows"),), totals=("lines",))
class ReportLines(Contract):
    """How many lines there were of each unit, and their worth."""

    unit: T.StringType = Field(key=True, description="Of what.")
    lines: T.LongType = Field(ge=1, made_of="line_id", description="How many.")
    moments: T.LongType = Field(ge=1, made_of="happened_at", description="Different moments.")
    worth: Annotated[T.DecimalType, 28, 4] = Field(nullable=True, description="All of them together.")
    day: T.DateType = Field(description="The day of the lines.")


@LINES.version(ReportLines, "v1", "Sums by unit.", "fact_lines")
def sums_by_unit(lines: DataFrame) -> DataFrame:
    return lines.groupBy("day", "unit").agg(
        F.count("*").alias("lines"),
        F.count_distinct("happened_at").alias("moments"),
        F.sum("worth").cast("decimal(28,4)").alias("worth"),
    )


def land(landing: Path) -> None:
    morning = f"{DAY}T08:00:00Z"
    rates = [{"unit": unit, "rated_on": str(DAY), "rate": "1.5", "sent_at": morning} for unit in ("AAA", "BBB")]
    lines = [
        {
            "line_id": str(number),
            "happened_at": f"{DAY}T10:{number % 60:02}:00Z",
            "unit": "AAA" if number % 3 else "BBB",
            "amount": f"{number}.25" if number else "none",
            "pieces": str(number),
            "sent_at": morning,
        }
        for number in range(ENTRIES)
    ]
    for source, rows in ((RATES.name, rates), (LINES.name, [*lines, lines[-1]])):
        folder = landing / source / str(DAY)
        folder.mkdir(parents=True)
        (folder / "a.jsonl.gz").write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode()))
