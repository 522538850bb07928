"""Lakehouses that several stories read and none changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NINETY_DAYS = DayRange.parse("2017-03-01..2017-05-29")


@pytest.fixture
def workshop(tmp_path: Path, spark: SparkSession) -> Workshop:
    """An empty lakehouse and landing zone."""
    return Workshop(tmp_path, lambda: spark)


@pytest.fixture(scope="session")
def rejected_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """The home of two days of sales of which four lines are quarantined, built down to every report."""
    from backfill_assets_tests.stories.rejected_sales import land_and_build

    home = tmp_path_factory.mktemp("rejected") / "home"
    land_and_build(Workshop(home, lambda: spark))
    return home
