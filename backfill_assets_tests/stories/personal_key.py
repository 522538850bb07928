"""A dataset whose key is personal and whose rows can move to another day: what a hospital might land."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import pytest
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets_tests.declared import declare
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2010-05-19..2010-05-21")
FIRST, SECOND, THIRD = DAYS
PATIENT = "patient-0001"
KEY = ("patient_token", "visit")
_VISITS = LandedDataset(
    name="visits",
    description="Measurements of patients.",
    owners=("team:diabetes-data",),
    first_day=date(2010, 3, 24),
    rows="measurements",
    most_rows=1_000,
    tolerated_rejects=5,
    supersession_window_days=7,
)


@_VISITS.row("v1", "Newest of each visit.")
class PatientVisit(Contract):
    """A sound measurement, one per patient and visit."""

    patient_token: T.StringType = Field(
        key=True, personal="patient_id", str_matches="^[0-9a-f]{64}$", description="Whose it is."
    )
    visit: T.StringType = Field(key=True, description="Which visit of the patient.")
    measured_at: T.TimestampType = Field(event_day=True, description="When it was measured, in UTC.")
    glucose: Annotated[T.DecimalType, 5, 1] = Field(ge=20, le=600, description="In mg/dL.")
    sent_at: T.TimestampType = Field(version=True, description="When it was sent; a correction is sent later.")


VISITS = _VISITS.dataset()
SOURCE = _VISITS.source


def declare_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, VISITS)


def visit(number: str, day: date, glucose: str, sent: date | None = None) -> dict[str, str]:
    return {
        "patient_id": PATIENT,
        "visit": number,
        "measured_at": f"{day}T08:00:00Z",
        "glucose": glucose,
        "sent_at": f"{sent or day}T09:00:00Z",
    }


def land_and_build(workshop: Workshop) -> None:
    """Visit 1 moves to the second day, visit 2 is rejected and corrected on the third, visit 3 stays rejected."""
    landing = workshop.settings.landing
    broken = '{"patient_id": "' + PATIENT
    land(landing, "visits", str(FIRST), "a", [visit("1", FIRST, "100"), visit("2", FIRST, "high"), broken])
    land(landing, "visits", str(SECOND), "b", [visit("1", SECOND, "101"), visit("3", SECOND, "9999")])
    land(landing, "visits", str(THIRD), "c", [visit("2", FIRST, "120", sent=THIRD)])
    for table in ("raw_visits", "bronze_visits"):
        workshop.build(table, DAYS)
