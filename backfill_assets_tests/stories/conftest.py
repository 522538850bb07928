"""Lakehouses that are built by the first process of tests that needs them, for all processes of a run.

Each story begins with a copy, which names its files relative to itself.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.rebuild.walk import shadow
from backfill_assets_tests.cli.command import Backfill, work_with
from backfill_assets_tests.stories.rejected_sales import land_and_build
from backfill_assets_tests.stories.staged_campaign import CAMPAIGN, DAYS, RUN, steps
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TypeOn = Callable[[Workshop], Backfill]
NINETY_DAYS = DayRange.parse("2017-03-01..2017-05-29")


@pytest.fixture
def workshop(tmp_path: Path, spark: SparkSession) -> Workshop:
    """An empty lakehouse and landing zone."""
    return Workshop(tmp_path, lambda: spark)


def built_once(temporary: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """The home that ``build`` makes of a path that is not there. Processes wait for the one that is at it."""
    base = temporary.getbasetemp()
    homes = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "homes"
    homes.mkdir(exist_ok=True)
    home, half = homes / name, homes / f"{name}-half"
    with (homes / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            shutil.rmtree(half, ignore_errors=True)
            build(half)
            half.rename(home)
    return home


@pytest.fixture(scope="session")
def wrong_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """The home of nine days as the old logic made them, in many currencies, with all reports."""

    def build(home: Path) -> None:
        workshop = Workshop(home, lambda: spark)
        workshop.land_synthetic(SyntheticSpec(days=DAYS, rows_per_day=30, seed=6, defects={}))
        workshop.build_all(DAYS, "v1")
        workshop.build_reports(DAYS)

    return built_once(tmp_path_factory, "wrong", build)


@pytest.fixture(scope="session")
def staged_home(wrong_home: Path, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """``wrong_home`` with a campaign that is staged by the right logic, and waits for its cut-over."""

    def build(home: Path) -> None:
        workshop = Workshop(shutil.copytree(wrong_home, home), lambda: spark)
        done = shadow(workshop.builder.lake, CAMPAIGN, steps(), RUN, print)
        assert not [each for step in done for each in step.held_back]

    return built_once(tmp_path_factory, "staged", build)


@pytest.fixture(scope="session")
def righted_home(wrong_home: Path, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """``wrong_home`` with the days of the right logic published over it."""

    def build(home: Path) -> None:
        workshop = Workshop(shutil.copytree(wrong_home, home), lambda: spark)
        workshop.build_all(DAYS, "v2")
        workshop.build_reports(DAYS)

    return built_once(tmp_path_factory, "righted", build)


@pytest.fixture(scope="session")
def rejected_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """The home of two days of sales of which four lines are quarantined, built down to every report."""
    return built_once(tmp_path_factory, "rejected", lambda home: land_and_build(Workshop(home, lambda: spark)))


@pytest.fixture
def wrong(wrong_home: Path, tmp_path: Path, spark: SparkSession) -> Workshop:
    return _copied(wrong_home, tmp_path, spark)


@pytest.fixture
def righted(righted_home: Path, tmp_path: Path, spark: SparkSession) -> Workshop:
    return Workshop(shutil.copytree(righted_home, tmp_path / "righted"), lambda: spark)


@pytest.fixture
def staged(staged_home: Path, tmp_path: Path, spark: SparkSession) -> Workshop:
    return _copied(staged_home, tmp_path, spark)


@pytest.fixture
def rejected(rejected_home: Path, tmp_path: Path, spark: SparkSession) -> Workshop:
    return _copied(rejected_home, tmp_path, spark)


def _copied(home: Path, folder: Path, spark: SparkSession) -> Workshop:
    return Workshop(shutil.copytree(home, folder / "home"), lambda: spark)


@pytest.fixture
def type_on(monkeypatch: pytest.MonkeyPatch) -> TypeOn:
    """The command on the home of a workshop, with its Spark session, which counts how often it was asked for."""

    def typing(workshop: Workshop) -> Backfill:
        work_with(monkeypatch, workshop)
        return Backfill(workshop.settings.home, monkeypatch)

    return typing


@pytest.fixture
def backfill(wrong: Workshop, type_on: TypeOn) -> Backfill:
    """The command on ``wrong``."""
    return type_on(wrong)
