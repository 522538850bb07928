"""The sea temperatures are landed as the package has them, line by line."""

from __future__ import annotations

from datetime import date
from importlib.resources import as_file, files
from pathlib import Path

import pandas as pd
import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.sea_temperatures import ALL_DAYS, land
from backfill_assets_tests.examples.sample.landed_lines import landed_lines, landed_rows


def test_every_reading_of_the_package_is_landed_on_its_day(tmp_path: Path) -> None:
    """All 19,226 of them, in the package's own digits; a second run changes nothing."""
    landed = land(ALL_DAYS, tmp_path)
    with as_file(files("bokeh_sampledata").joinpath("_data", "sea_surface_temperature.csv.gz")) as path:
        truth = pd.read_csv(path, dtype=str)
    rows = landed_rows(tmp_path, "sea_temperatures")
    assert [(row["measured_at"], row["celsius"]) for row in rows] == list(truth.itertuples(index=False, name=None))
    assert landed.lines == {"sea_temperatures": 19_226} and landed.written == len(ALL_DAYS)
    for landed_at, lines in landed_lines(tmp_path, "sea_temperatures").items():
        assert all(f'"measured_at":"{landed_at.split("/")[1]}T' in line for line in lines)
    assert land(ALL_DAYS, tmp_path).already_there == len(ALL_DAYS)


def test_a_reading_that_comes_twice_is_a_correction(tmp_path: Path) -> None:
    """The package has one moment twice, with two values: the later line is the newer version, not chance."""
    land(DayRange.of(date(2017, 3, 21)), tmp_path)
    twice = [row for row in landed_rows(tmp_path, "sea_temperatures") if row["measured_at"] == "2017-03-21T16:30:00Z"]
    assert [(row["celsius"], row["sent_at"]) for row in twice] == [
        ("4.276", "2017-03-21T16:30:00Z"),
        ("4.289", "2017-03-21T16:30:01Z"),
    ]


def test_days_without_data_are_refused(tmp_path: Path) -> None:
    """An empty file would say that the sensor was silent."""
    with pytest.raises(InvalidRequest, match=r"Choose days in 2016-02-15\.\.2017-03-22"):
        land(DayRange.of(date(2017, 3, 23)), tmp_path)
    assert list(tmp_path.iterdir()) == []
