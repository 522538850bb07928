"""Rows carried a field before it was declared: it is filled from the first day that has it, and nothing else moves."""

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
from backfill_assets.plan.keep import open_plans
from backfill_assets.publish.compact import compact
from backfill_assets_tests.cli.command import backfill, types
from backfill_assets_tests.declared import declare as declare_also
from backfill_assets_tests.declared import declared
from backfill_assets_tests.stories.landing_snippet import land_rows
from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2016-03-01..2016-03-08")
FIRST = date(2016, 3, 4)
"""The first day that carries it."""
EXPECTED = "only salinity changes"
RAW, BRONZE, REPORT = "raw_sea_temperatures", "bronze_sea_temperatures", "report_sea_temperature"


def salty(**more: Any) -> Any:
    """The dataset with the new field, in a second version of its rows."""
    dataset = replace(sea_temperatures.SEA, most_rows=100)

    class SaltyReading(sea_temperatures.SeaReading):
        """A reading that may say how salty the water was."""

        salinity: Annotated[T.DecimalType, 6, 3] = Field(nullable=True, description="Grams of salt a kilogram.", **more)

    dataset.row("v2", "With salinity.")(SaltyReading)
    return dataset.dataset()


def declare(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    steps = [each for each in declared().dataset("sea_temperatures").steps if each.name == REPORT]
    found = salty(**more)
    declare_also(monkeypatch, replace(found, steps=(*found.steps, *steps)))


def build(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, bad: date | None = None) -> None:
    """Eight days; from the fourth on, two of three readings carry the field, with no value of it on a ``bad`` day."""
    monkeypatch.setenv("BACKFILL_HOME", str(workshop.settings.home))
    for day in DAYS:
        land(workshop, day, carries=day >= FIRST, last="brackish" if day == bad else "33.5")
    for table in (RAW, BRONZE, REPORT):
        workshop.build(table, DAYS)


def land(workshop: Workshop, day: date, *, carries: bool, last: str = "33.5") -> None:
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    values = ("31.25", last, None) if carries else (None, None, None)
    rows = [reading(midnight + timedelta(hours=number), value) for number, value in enumerate(values)]
    land_rows(workshop.settings.landing, "sea_temperatures", day, "readings", rows)


def reading(moment: datetime, salinity: str | None) -> dict[str, object]:
    row = {"sensor_id": "B01", "measured_at": moment, "celsius": Decimal("4.5"), "sent_at": moment}
    return row if salinity is None else {**row, "salinity": salinity}


def test_a_field_is_filled_from_its_first_day_on_and_published_and_nothing_else_changes(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked of the source: raw kept the field of rows that came before it was declared."""
    build(workshop, monkeypatch)
    old, raw = workshop.read(BRONZE), workshop.contents()[RAW]
    moment = types("history", REPORT)["publications"][0]["publication"]
    declare(monkeypatch, rescued=True)
    types("timeline", "rewind", BRONZE, "--to", moment, "--days", str(DAYS), "--as", "before-salinity")
    compact(workshop.builder.lake.publisher, RAW, list(DAYS), id="compacted")
    shutil.rmtree(workshop.settings.landing)

    done = types("timeline", "forward", "before-salinity", "--version", "v2", "--without-arrivals")
    steps = {each["table"]: each for each in done["steps"]}
    assert steps[BRONZE]["staged"] == [str(DAYS)] and not steps[BRONZE]["held_back"]

    planned = types("timeline", "publish", "before-salinity", "--expect", EXPECTED, "--dry-run")["plan"]
    staged = types("run", planned, "--limits", "deviation=100%")
    (verdict,) = types("diff", staged["plan"])["expected"]
    assert verdict == {"expected": EXPECTED, "outcome": "met", "where_not": []}
    types("approve", staged["plan"], "--yes")
    new = workshop.read(BRONZE).sort_values("measured_at")
    rows: list[Any] = new[["day", "measured_at", "salinity"]].to_dict("records")
    values = {(row["day"], row["measured_at"].hour): row["salinity"] for row in rows}
    filled = {(day, hour): Decimal(text) for day in DAYS if day >= FIRST for hour, text in ((0, "31.25"), (1, "33.5"))}
    assert {key: value for key, value in values.items() if not pd.isna(value)} == filled and len(values) == 24
    same = [name for name in old.columns if name != "salinity"]
    pd.testing.assert_frame_equal(
        new[same].reset_index(drop=True), old.sort_values("measured_at")[same].reset_index(drop=True)
    )
    assert workshop.contents()[RAW] == raw


def test_a_day_on_which_more_would_change_breaks_the_expectation(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bad value would quarantine a row that is published: the campaign stops before it can be approved."""
    bad = date(2016, 3, 6)
    build(workshop, monkeypatch, bad)
    moment = types("history", REPORT)["publications"][0]["publication"]
    declare(monkeypatch, rescued=True)
    types("timeline", "rewind", BRONZE, "--to", moment, "--days", f"{FIRST}..{DAYS.last}", "--as", "trial")
    types("timeline", "forward", "trial", "--version", "v2", "--without-arrivals")
    planned = types("timeline", "publish", "trial", "--expect", EXPECTED, "--dry-run")["plan"]
    backfill("run", planned, "--limits", "deviation=100%", exit_code=1)
    (plan,) = [plan.id for plan in open_plans(workshop.builder.lake.storage)]
    (verdict,) = types("diff", plan, exit_code=1)["expected"]
    assert verdict["where_not"] == [
        f"{BRONZE} {bad}: 0 rows would be added, 1 removed",
        f"quarantine_sea_temperatures {bad}: 1 row would be added, 0 removed",
    ]
    assert "salinity" not in workshop.read(BRONZE).columns
