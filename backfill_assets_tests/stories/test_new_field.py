"""A source gains a field after history was built: what the guide to a dataset of one's own promises."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import pandas as pd
import pytest
from deltalake import DeltaTable
from pyspark.sql import types as T

from backfill_assets.answers.status import look_at_main
from backfill_assets.days import DayRange
from backfill_assets.examples.datasets import sea_temperatures
from backfill_assets.model.contract import Field
from backfill_assets.publish.crash_points import CrashPoint, nowhere
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets_tests.declared import declare, declared
from backfill_assets_tests.stories.landing_snippet import land_rows
from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2016-03-01..2016-03-02")
RAW, BRONZE, QUARANTINE = "raw_sea_temperatures", "bronze_sea_temperatures", "quarantine_sea_temperatures"
WITH_SALINITY = replace(sea_temperatures.SEA, most_rows=100)


@WITH_SALINITY.row("v2", "With salinity.")
class SaltyReading(sea_temperatures.SeaReading):
    """A reading that may say how salty the water was."""

    salinity: Annotated[T.DecimalType, 6, 3] = Field(nullable=True, ge=0, description="Grams of salt a kilogram.")


def land(workshop: Workshop, day: date, *salinities: str | None) -> None:
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    rows = [reading(midnight + timedelta(hours=hour), value) for hour, value in enumerate(salinities)]
    land_rows(workshop.settings.landing, "sea_temperatures", day, "readings", rows)


def reading(moment: datetime, salinity: str | None) -> dict[str, object]:
    return {
        "sensor_id": "B01",
        "measured_at": moment,
        "celsius": Decimal("4.5"),
        "sent_at": moment,
        "salinity": salinity,
    }


def declare_salinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dataset as it would be declared with the new field, in a second version of bronze."""
    declare(monkeypatch, WITH_SALINITY.dataset())


def test_a_new_field_is_a_new_column_and_history_keeps_what_it_had(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old days have it empty, and what was landed before it was declared is in raw; new values are judged."""
    land(workshop, DAYS.first, None, "31.5")
    for table in (RAW, BRONZE):
        workshop.build(table, [DAYS.first])
    told = "salinity is not declared: 1 of 2 rows (50.0 %) on 2016-03-01, for example 31.5"
    assert f"{RAW}: {told}" in workshop.messages and drift(workshop) == [told]
    declare_salinity(monkeypatch)
    assert drift(workshop) == [], "from now on it is as declared"
    land(workshop, DAYS.last, "32.1", "brackish")
    for table in (RAW, BRONZE):
        workshop.build(table, DAYS)
    rows = workshop.read(BRONZE).sort_values("measured_at")["salinity"]
    assert [None if pd.isna(value) else value for value in rows] == [None, None, Decimal("32.100")]
    raw = workshop.read(RAW, DayRange.of(DAYS.first))
    assert raw["rescued"].dropna().tolist() == ['{"salinity":"31.5"}']
    [reasons] = workshop.read(QUARANTINE)["reasons"]
    assert list(reasons) == ["salinity: 'brackish' is not a decimal(6,3)"]
    assert {state.content.code_version for state in workshop.states(BRONZE).values() if state.content} == {"v2"}

    for path in DeltaTable(str(workshop.settings.lakehouse / RAW)).file_uris():
        Path(path).unlink()
    workshop.builder.restore(declared().step(RAW), list(DAYS), run=RunInfo("restore"))
    again = workshop.read(RAW, DayRange.of(DAYS.first))
    before, after = (each.sort_values("source_line", ignore_index=True) for each in (raw, again))
    pd.testing.assert_frame_equal(before, after)
    assert all(day.reused for day in workshop.build(BRONZE, DAYS).days), "lost rows are put back as they were read then"


def drift(workshop: Workshop) -> list[str]:
    """What `backfill status` says that is not as declared."""
    steps = workshop.builder.lake.catalog.steps
    return [str(each) for _, each in look_at_main(workshop.builder.lake.storage, steps, (), None).drift]


def build_and_kill(workshop: Workshop, table: str, day: date) -> None:
    """The rows are staged and judged, and not published."""
    publisher = workshop.builder.lake.publisher

    def kill(place: CrashPoint, about: str) -> None:
        if place == CrashPoint.TABLES_READ:
            raise KeyboardInterrupt

    publisher.reached = kill
    with pytest.raises(KeyboardInterrupt):
        workshop.build(table, [day])
    publisher.reached = nowhere


def test_what_a_killed_ingest_has_staged_without_the_field_is_staged_again(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows have no such column: no later run could measure them, or publish them beside rows that have it."""
    land(workshop, DAYS.first, "31.5")
    build_and_kill(workshop, RAW, DAYS.first)
    declare_salinity(monkeypatch)
    workshop.build(RAW, [DAYS.first])
    raw = workshop.read(RAW)
    assert raw["salinity"].tolist() == ["31.5"] and raw["rescued"].isna().all()
