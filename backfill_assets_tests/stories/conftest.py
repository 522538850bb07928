"""Lakehouses that several stories read and none changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets_tests.stories.staged_campaign import DAYS
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NINETY_DAYS = DayRange.parse("2017-03-01..2017-05-29")


@pytest.fixture
def workshop(tmp_path: Path, spark: SparkSession) -> Workshop:
    """An empty lakehouse and landing zone."""
    return Workshop(tmp_path, lambda: spark)


@pytest.fixture(scope="session")
def wrong_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """The home of nine days as the old logic made them, in many currencies, with all reports."""
    home = tmp_path_factory.mktemp("wrong") / "home"
    workshop = Workshop(home, lambda: spark)
    workshop.land_synthetic(SyntheticSpec(days=DAYS, rows_per_day=30, seed=6, defects={}))
    workshop.build_all(DAYS, "v1")
    workshop.build_reports(DAYS)
    return home


@pytest.fixture
def wrong(wrong_home: Path, tmp_path: Path, spark: SparkSession) -> Workshop:
    """A copy of ``wrong_home``: a lakehouse names its files relative to itself, and can be copied."""
    home = tmp_path / "home"
    shutil.copytree(wrong_home, home)
    return Workshop(home, lambda: spark)


@pytest.fixture(scope="session")
def rejected_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """The home of two days of sales of which four lines are quarantined, built down to every report."""
    from backfill_assets_tests.stories.rejected_sales import land_and_build

    home = tmp_path_factory.mktemp("rejected") / "home"
    land_and_build(Workshop(home, lambda: spark))
    return home
