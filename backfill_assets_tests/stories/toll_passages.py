"""Cars that pass a toll gate: two of them in one second are two identical lines, and no field distinguishes them."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import Cadence, DayRange
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.rules import TotalAgrees

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAYS = DayRange.parse("2020-05-30..2020-05-31")
FIRST, SECOND = DAYS


class TollPassage(Contract):
    """A sound passage: one a gate and second, which is wrong."""

    gate: T.StringType = Field(key=True, description="Which gate.")
    passed_at: T.TimestampType = Field(key=True, event_day=True, description="When, to the second, in UTC.")
    axles: T.LongType = Field(ge=2, description="Of the vehicle.")
    sent_at: T.TimestampType = Field(version=True, description="When the gate sent it.")


class NumberedPassage(TollPassage):
    """Every passage; identical lines are numbered."""

    axles: T.LongType = Field(key=True, ge=2, description="Of the vehicle.")


class ReportTolls(Contract):
    """The passages of each month."""

    passages: T.LongType = Field(ge=1, made_of="gate", description="Vehicles.")
    axles: T.LongType = Field(ge=2, description="Of all of them.")
    day: T.DateType = Field(key=True, description="The first day of the month.")


def monthly(passages: DataFrame) -> DataFrame:
    month = F.trunc("day", "month").alias("day")
    return passages.groupBy(month).agg(F.count("*").alias("passages"), F.sum("axles").alias("axles"))


def _dataset(row: type[Contract], *, numbered: bool) -> LandedDataset:
    tolls = LandedDataset(
        name="tolls",
        description="Passages of toll gates.",
        owners=("team:roads",),
        first_day=date(2020, 5, 1),
        rows="passages",
        most_rows=1_000,
        tolerated_rejects=5,
        totals=("axles",),
        numbered=numbered,
    )
    tolls.row("v1", "Passages.")(row)
    rules = (
        TotalAgrees("passages", fact=tolls.bronze, fact_total="rows"),
        TotalAgrees("axles", fact=tolls.bronze, fact_total="axles"),
    )
    tolls.table("report_tolls", cadence=Cadence.MONTHLY, rules=rules, totals=("passages", "axles"))(ReportTolls)
    tolls.version(ReportTolls, "v1", "Sums by month.", tolls.bronze)(monthly)
    return tolls


WITHOUT_KEY = _dataset(TollPassage, numbered=False).dataset()
_NUMBERED = _dataset(NumberedPassage, numbered=True)
NUMBERED = _NUMBERED.dataset()
SOURCE = _NUMBERED.source
REFINEMENT = _NUMBERED.refinement()
TOLLS = _NUMBERED
"""To be declared with other tables: ``replace`` gives it without any."""


def passage(second: int, day: date = FIRST, axles: int = 2) -> dict[str, str]:
    return {
        "gate": "G1",
        "passed_at": f"{day}T08:00:{second:02d}Z",
        "axles": str(axles),
        "sent_at": f"{day}T23:59:59Z",
    }
