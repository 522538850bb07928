"""A source gains a field after history was built: what the guide to a dataset of one's own promises."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import pandas as pd
import pytest
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.examples.datasets import sea_temperatures
from backfill_assets.model.contract import Field
from backfill_assets.publish.compact import compact
from backfill_assets.publish.crash_points import CrashPoint, nowhere
from backfill_assets_tests.declared import declare, declared
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.stories.landing_snippet import land_rows
from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2016-03-01..2016-03-02")
RAW, BRONZE, QUARANTINE = "raw_sea_temperatures", "bronze_sea_temperatures", "quarantine_sea_temperatures"
REPORT = "report_sea_temperature"
CARRIED = DayRange.parse("2016-03-01..2016-03-08")
CARRIES = date(2016, 3, 4)
"""The first day that carries the field before it is declared."""
EXPECTED = "only salinity changes"


def land(workshop: Workshop, day: date, *salinities: str | None) -> None:
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    rows = [reading(midnight + timedelta(hours=hour), value) for hour, value in enumerate(salinities)]
    land_rows(workshop.settings.landing, "sea_temperatures", day, "readings", rows)


def reading(moment: datetime, salinity: str | None) -> dict[str, object]:
    """A field without a value is not landed."""
    return {"sensor_id": "B01", "measured_at": moment, "celsius": "4.5", "sent_at": moment, "salinity": salinity}


def declare_salinity(monkeypatch: pytest.MonkeyPatch, *, rescued: bool = False) -> None:
    """The dataset as it would be declared with the new field, in a second version of its rows."""
    dataset = replace(sea_temperatures.SEA, most_rows=100)

    class SaltyReading(sea_temperatures.SeaReading):
        """A reading that may say how salty the water was."""

        salinity: Annotated[T.DecimalType, 6, 3] = Field(
            nullable=True, ge=0, rescued=rescued, description="Grams of salt a kilogram."
        )

    dataset.row("v2", "With salinity.")(SaltyReading)
    found = dataset.dataset()
    reports = [each for each in declared().dataset("sea_temperatures").steps if each.name == REPORT]
    declare(monkeypatch, replace(found, steps=(*found.steps, *reports)))


def test_a_new_field_is_a_new_column_and_history_keeps_what_it_had(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old days have it empty, and what was landed before it was declared is in raw; new values are judged."""
    land(workshop, DAYS.first, None, "31.5")
    for table in (RAW, BRONZE):
        workshop.build(table, [DAYS.first])
    declare_salinity(monkeypatch)
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


def test_a_field_is_filled_from_its_first_day_on_and_published_and_nothing_else_changes(
    workshop: Workshop, type_on: TypeOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked of the source: raw kept the field of rows that came before it was declared.

    Eight days are built; from the fourth on, two of three readings carry the field.
    """
    backfill = type_on(workshop)
    for day in CARRIED:
        land(workshop, day, *(("31.25", "33.5", None) if day >= CARRIES else (None, None, None)))
    for table in (RAW, BRONZE, REPORT):
        workshop.build(table, CARRIED)
    old, raw = workshop.read(BRONZE), workshop.contents()[RAW]
    moment = backfill.json("history", REPORT)["publications"][0]["publication"]
    declare_salinity(monkeypatch, rescued=True)
    backfill.json("timeline", "rewind", BRONZE, "--to", moment, "--days", str(CARRIED), "--as", "before-salinity")
    compact(workshop.builder.lake.publisher, RAW, list(CARRIED), id="compacted")
    shutil.rmtree(workshop.settings.landing)

    done = backfill.json("timeline", "forward", "before-salinity", "--version", "v2", "--without-arrivals")
    steps = {each["table"]: each for each in done["steps"]}
    assert steps[BRONZE]["staged"] == [str(CARRIED)] and not steps[BRONZE]["held_back"]

    planned = backfill.json("timeline", "publish", "before-salinity", "--expect", EXPECTED, "--dry-run")["plan"]
    staged = backfill.json("run", planned, "--limits", "deviation=100%")
    (verdict,) = backfill.json("diff", staged["plan"])["expected"]
    assert verdict == {"expected": EXPECTED, "outcome": "met", "where_not": []}
    backfill.json("approve", staged["plan"], "--yes")
    new = workshop.read(BRONZE).sort_values("measured_at")
    rows: list[Any] = new[["day", "measured_at", "salinity"]].to_dict("records")
    values = {(row["day"], row["measured_at"].hour): row["salinity"] for row in rows}
    filled = {
        (day, hour): Decimal(text) for day in CARRIED if day >= CARRIES for hour, text in ((0, "31.25"), (1, "33.5"))
    }
    assert {key: value for key, value in values.items() if not pd.isna(value)} == filled and len(values) == 24
    same = [name for name in old.columns if name != "salinity"]
    pd.testing.assert_frame_equal(
        new[same].reset_index(drop=True), old.sort_values("measured_at")[same].reset_index(drop=True)
    )
    assert workshop.contents()[RAW] == raw
