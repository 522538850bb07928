"""Cars that pass a toll gate: two of them in one second are two identical lines, and no field distinguishes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.datasets import registry
from backfill_assets.days import Cadence, DayRange
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Dataset, Reads, Source, Step, Table, Version
from backfill_assets.model.landed import BronzeColumns, Occurrence, landed_steps
from backfill_assets.model.refinement import Refinement, refined
from backfill_assets.model.rules import TotalAgrees

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAYS = DayRange.parse("2020-05-30..2020-05-31")
FIRST, SECOND = DAYS
SOURCE = Source(
    name="tolls",
    fields=("gate", "passed_at", "axles", "sent_at"),
    types={"passed_at": "timestamp", "axles": "bigint", "sent_at": "timestamp"},
    key_fields=("gate", "passed_at"),
    event_day_field="passed_at",
    version_field="sent_at",
)
NO_KEY = ("gate", "passed_at")
KEY = ("gate", "passed_at", "axles", "occurrence")


class TypedTolls(Contract):
    """A sound passage."""

    gate: T.StringType = Field(description="Which gate.")
    passed_at: T.TimestampType = Field(description="When, to the second, in UTC.")
    axles: T.LongType = Field(ge=2, description="Of the vehicle.")
    sent_at: T.TimestampType = Field(description="When the gate sent it.")


class BronzeTolls(BronzeColumns, TypedTolls):
    """One passage a gate and second, which is wrong."""


class BronzeNumberedTolls(BronzeColumns, Occurrence, TypedTolls):
    """Every passage; identical lines are numbered."""


class ReportTolls(Contract):
    """The passages of a month, all gates together."""

    passages: T.LongType = Field(ge=1, description="Vehicles.")
    axles: T.LongType = Field(ge=2, description="Of all of them.")
    day: T.DateType = Field(description="The first day of the month.")


def bronze(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    return refined(inputs, Refinement(SOURCE, BronzeTolls, key=NO_KEY))


def numbered_bronze(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    return refined(inputs, Refinement(SOURCE, BronzeNumberedTolls, key=KEY))


def monthly(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    month = F.trunc("day", "month").alias("day")
    sums = inputs["bronze_tolls"].groupBy(month).agg(F.count("*").alias("passages"), F.sum("axles").alias("axles"))
    return {"report_tolls": sums.select("passages", "axles", "day").repartition("day")}


def _dataset(*, numbered: bool) -> Dataset:
    transform = numbered_bronze if numbered else bronze
    report = Table(
        name="report_tolls",
        layer="report",
        description="The passages of each month.",
        contract=ReportTolls,
        key=("day",),
        rules=(
            TotalAgrees("passages", fact="bronze_tolls", fact_total="rows"),
            TotalAgrees("axles", fact="bronze_tolls", fact_total="axles"),
        ),
        totals=("passages", "axles"),
        made_of={"passages": ("bronze_tolls.gate",)},
    )
    return Dataset(
        name="tolls",
        description="Passages of toll gates.",
        owners=("team:roads",),
        first_day=date(2020, 5, 1),
        steps=(
            *landed_steps(
                SOURCE,
                BronzeNumberedTolls if numbered else BronzeTolls,
                rows="passages",
                key=KEY if numbered else NO_KEY,
                versions=(Version("v1", "Passages.", (Reads("raw_tolls"),), transform),),
                current="v1",
                most_rows=1_000,
                tolerated_rejects=5,
                totals=("axles",),
            ),
            Step(
                (report,),
                (Version("v1", "Sums by month.", (Reads("bronze_tolls", partial=True),), monthly),),
                "v1",
                cadence=Cadence.MONTHLY,
            ),
        ),
    )


WITHOUT_KEY = _dataset(numbered=False)
NUMBERED = _dataset(numbered=True)


def declare(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_DATASETS", (*registry.datasets(), dataset))


def passage(second: int, day: date = FIRST, axles: int = 2) -> dict[str, str]:
    return {
        "gate": "G1",
        "passed_at": f"{day}T08:00:{second:02d}Z",
        "axles": str(axles),
        "sent_at": f"{day}T23:59:59Z",
    }
