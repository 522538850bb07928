"""The second dataset, which shares no table with the first: from landed files to its report."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from importlib.resources import as_file, files
from typing import Any

import pandas as pd
import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.real import land_readings
from backfill_assets_tests.workshop import Workshop

TABLES = ("raw_sea_temperatures", "bronze_sea_temperatures", "report_sea_temperature")
JUNE_2016 = DayRange.parse("2016-06-10..2016-06-16")
"""With a day on which the buoy was silent for twelve hours."""
END = DayRange.parse("2017-03-19..2017-03-22")
"""With a reading that was corrected, and a last day of one reading."""


def truth(days: DayRange) -> dict[Any, tuple[Decimal, Decimal, Decimal, int]]:
    """Mean, minimum, maximum and readings by day, straight from the package's file."""
    with as_file(files("bokeh_sampledata").joinpath("_data", "sea_surface_temperature.csv.gz")) as path:
        frame = pd.read_csv(path, dtype=str, names=["time", "celsius"], header=0)
    last = frame.drop_duplicates("time", keep="last")
    values = last.assign(celsius=last["celsius"].map(Decimal)).groupby(pd.to_datetime(last["time"]).dt.date)["celsius"]
    return {day: summary(list(of_day)) for day, of_day in values if day in days}


def summary(celsius: list[Decimal]) -> tuple[Decimal, Decimal, Decimal, int]:
    mean = (sum(celsius, Decimal(0)) / len(celsius)).quantize(Decimal("0.0001"), ROUND_HALF_UP)
    return mean, min(celsius), max(celsius), len(celsius)


@pytest.mark.parametrize("days", [JUNE_2016, END], ids=["gap", "end"])
def test_the_report_is_what_pandas_computes_from_the_package(workshop: Workshop, days: DayRange) -> None:
    """To the last digit, for days with gaps, with a correction, and with a single reading."""
    land_readings(days, workshop.settings.landing)
    for table in TABLES:
        workshop.build(table, days)
    columns = ["day", "mean_celsius", "min_celsius", "max_celsius", "readings"]
    rows: list[list[Any]] = workshop.read("report_sea_temperature")[columns].to_numpy().tolist()
    built = {day: tuple(values) for day, *values in rows}
    assert built == truth(days)
    assert len(built) == len(days)
    if days == END:
        other_chunks_give_equal_rows(workshop)


def other_chunks_give_equal_rows(workshop: Workshop) -> None:
    """A report that is built day by day, and by force, is the report that was built at once."""
    at_once = workshop.contents()
    for day in END:
        for table in TABLES[1:]:
            workshop.build(table, [day], force=True)
    assert workshop.contents() == at_once
