"""Rows carried a field before it was declared: it is filled from the first day that has it, and nothing else moves."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import types as T

from backfill_assets.cli import main
from backfill_assets.datasets import registry, sea_temperatures
from backfill_assets.datasets.sales.landed import SALES, SalesLine
from backfill_assets.days import DayRange
from backfill_assets.lakehouse.content_sums import content_sums
from backfill_assets.model.contract import Field
from backfill_assets.publication.compact import compact
from backfill_assets.published.reading import read_published
from backfill_assets.timeline.opened import open_timeline
from backfill_assets_tests.stories.landing_snippet import land_rows
from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2016-03-01..2016-03-08")
FIRST = date(2016, 3, 4)
"""The first day that carries it."""
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
    others = [each for each in registry.datasets() if each.name != "sea_temperatures"]
    steps = [each for each in registry.dataset_named("sea_temperatures").steps if each.name == REPORT]
    found = salty(**more)
    monkeypatch.setattr(registry, "_DATASETS", (*others, replace(found, steps=(*found.steps, *steps))))


@pytest.fixture
def carrying(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Eight days are built; from the fourth on, two of three readings carry the field."""
    return build(workshop, monkeypatch)


def build(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, bad: date | None = None) -> Workshop:
    """With a value on the day ``bad`` that is none."""
    monkeypatch.setenv("BACKFILL_HOME", str(workshop.settings.home))
    for day in DAYS:
        land(workshop, day, carries=day >= FIRST, last="brackish" if day == bad else "33.5")
    for table in (RAW, BRONZE, REPORT):
        workshop.build(table, DAYS)
    return workshop


def land(workshop: Workshop, day: date, *, carries: bool, last: str = "33.5", hour: int = 0) -> None:
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    values = ("31.25", last, None) if carries else (None, None, None)
    rows = [reading(midnight + timedelta(hours=hour + number), value) for number, value in enumerate(values)]
    land_rows(workshop.settings.landing, "sea_temperatures", day, f"readings-{hour}", rows)


def reading(moment: datetime, salinity: str | None) -> dict[str, object]:
    row = {"sensor_id": "B01", "measured_at": moment, "celsius": Decimal("4.5"), "sent_at": moment}
    return row if salinity is None else {**row, "salinity": salinity}


def test_a_field_is_filled_from_its_first_day_on_and_published_and_nothing_else_changes(
    carrying: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, raw = carrying.read(BRONZE), carrying.contents()[RAW]
    moment = types("history", REPORT)["publications"][0]["publication"]
    declare(monkeypatch, rescued=True)
    types("rewind", BRONZE, "--to", moment, "--days", str(DAYS), "--on", "before-salinity")
    land(carrying, date(2016, 3, 5), carries=True, hour=12)
    carrying.build(RAW, DAYS)
    compact(carrying.builder.lake.publisher, RAW, list(DAYS), id="compacted")
    shutil.rmtree(carrying.settings.landing)

    done = types("forward", "before-salinity", "--field", "salinity")
    (field,) = done["fields"]
    assert (field["first_day"], field["rows"], len(field["days"])) == (str(FIRST), 10, 5)
    steps = {each["step"]: each for each in done["steps"]}
    assert steps[BRONZE]["staged"] == [str(day) for day in DAYS if day >= FIRST]
    assert len(steps[BRONZE]["kept"]) == 3 and not steps[BRONZE]["held_back"]
    assert len(steps[REPORT]["staged"]) == 5 and not steps[REPORT]["held_back"]
    assert done["reads"] == done["moment_reads"] and done["arrived"] == {}
    again = types("forward", "before-salinity", "--field", "salinity")
    assert {each["step"]: each["staged"] for each in again["steps"]} == {BRONZE: [], REPORT: []}

    carrying.settings.landing.mkdir()
    land(carrying, date(2016, 3, 5), carries=True, hour=12)
    staged = types("publish", "before-salinity", "--limits", "deviation=100%")
    types("approve", staged["plan"], "--yes")
    new = carrying.read(BRONZE).sort_values("measured_at")
    late = new["source_file"].str.contains("readings-12")
    rows: list[Any] = new[~late][["day", "measured_at", "salinity"]].to_dict("records")
    values = {(row["day"], row["measured_at"].hour): row["salinity"] for row in rows}
    filled = {(day, hour): Decimal(text) for day in DAYS if day >= FIRST for hour, text in ((0, "31.25"), (1, "33.5"))}
    assert {key: value for key, value in values.items() if not pd.isna(value)} == filled and len(values) == 24
    same = [name for name in old.columns if name != "salinity"]
    pd.testing.assert_frame_equal(
        new[~late][same].reset_index(drop=True), old.sort_values("measured_at")[same].reset_index(drop=True)
    )
    kept = {day: what for day, what in carrying.contents()[RAW].items() if day != date(2016, 3, 5)}
    assert kept == {day: what for day, what in raw.items() if day != date(2016, 3, 5)}


def test_a_day_on_which_more_would_change_is_held_back(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bad value would quarantine a row that is published."""
    bad = date(2016, 3, 6)
    build(workshop, monkeypatch, bad)
    moment = types("history", REPORT)["publications"][0]["publication"]
    declare(monkeypatch, rescued=True)
    types("rewind", BRONZE, "--to", moment, "--days", f"{FIRST}..{DAYS.last}", "--on", "trial")
    done = types("forward", "trial", "--field", "salinity")
    held = {each["step"]: each["held_back"] for each in done["steps"]}
    why = held[BRONZE][str(bad)]
    assert why.startswith("not only salinity would change, also sensor_id, measured_at, celsius")
    assert held[REPORT] == {} and str(bad) in {each["step"]: each for each in done["steps"]}[REPORT]["kept"]
    shown = types("timeline", "show", "trial")
    assert any(f"{BRONZE} {bad}: not only salinity" in line for line in shown["held_back"])
    declared = types("diff", moment, "trial", "--table", BRONZE)
    (compared,) = declared["tables"]
    assert {day["day"]: day["how"] for day in compared["days"]}[str(bad)] == "equal"
    assert "was held back on trial" in backfill("publish", "trial").output


def test_real_lines_are_filled_and_nothing_else_of_them_changes(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two days of receipts, the second has a till on each line; bronze keeps a household's token, too."""
    days = DayRange.parse("2017-03-01..2017-03-02")
    monkeypatch.setenv("BACKFILL_HOME", str(workshop.settings.home))
    workshop.land_real(days)
    (file,) = (workshop.settings.landing / "sales" / str(days.last)).iterdir()
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    tilled = [json.dumps({**line, "till": str(number % 9)}) for number, line in enumerate(lines)]
    file.write_bytes(gzip.compress("\n".join(tilled).encode()))
    for table in ("raw_sales", "bronze_sales"):
        workshop.build(table, days)
    old, moment = workshop.read("bronze_sales"), types("history", "bronze_sales")["publications"][0]["publication"]
    declare_till(monkeypatch)
    types("rewind", "bronze_sales", "--to", moment, "--days", str(days), "--on", "before-till")
    done = types("forward", "before-till", "--field", "till")
    (field,) = done["fields"]
    assert (field["first_day"], field["rows"]) == (str(days.last), len(lines))
    assert done["steps"][0]["staged"] == [str(days.last)] and done["steps"][0]["kept"] == [str(days.first)]
    rows = open_timeline(workshop.builder.lake.storage, "before-till").dataset("bronze_sales").to_table()
    same = [name for name in rows.column_names if name in old.columns]
    checksums = {name: content_sums(rows.select([name]).to_batches()) for name in same}
    before = read_published(workshop.builder.lake.storage, "bronze_sales").dataset().to_table(columns=same)
    assert checksums == {name: content_sums(before.select([name]).to_batches()) for name in same}
    assert rows.num_rows - rows.column("till").null_count == (old["day"] == days.last).sum() > 1000


def declare_till(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = replace(SALES)

    class TilledLine(SalesLine):
        """A line of a receipt that may say at which till it was paid."""

        till: T.StringType = Field(nullable=True, rescued=True, description="The number of the till.")

    dataset.row("v2", "With the till.")(TilledLine)
    landed, sales = dataset.dataset().steps, registry.dataset_named("sales")
    later = [step for step in sales.steps if step.name not in {each.name for each in landed}]
    others = [each for each in registry.datasets() if each.name != "sales"]
    monkeypatch.setattr(registry, "_DATASETS", (*others, replace(sales, steps=(*landed, *later))))


def test_what_cannot_be_filled_is_said_before_anything_is_computed(
    carrying: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = types("history", REPORT)["publications"][0]["publication"]
    declare(monkeypatch)
    types("rewind", BRONZE, "--to", moment, "--days", str(DAYS), "--on", "trial")
    for words, answer in (
        (("--field", "salinty"), "declares a column 'salinty'.*Did you mean salinity"),
        (("--field", "salinity"), "does not read salinity from what raw kept.*rescued=True"),
        (("--field", "min_celsius"), "takes min_celsius from raw"),
        (("--field", "celsius", "--version", "v2"), "leave out --version"),
    ):
        result = backfill("forward", "trial", *words)
        assert result.exit_code != 0
        assert_matches(answer, result.output)
    declare(monkeypatch, rescued=True)
    until = f"{DAYS.first}..{FIRST - timedelta(days=1)}"
    types("rewind", BRONZE, "--to", moment, "--days", until, "--on", "early")
    assert (
        "No row of raw_sea_temperatures carries salinity" in backfill("forward", "early", "--field", "salinity").output
    )
    assert types("timeline", "show", "early")["versions"] == {}


def assert_matches(pattern: str, text: str) -> None:
    import re

    assert re.search(pattern, " ".join(text.split())), text


def types(*words: str) -> Any:
    result = backfill(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def backfill(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))
