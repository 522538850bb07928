"""Kill -9 of a process that builds the chain, at named places and at random moments: the next runs make it right.

"Right" is the count and the checksum of every day of every table that an undisturbed run in another lakehouse gives.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.connect_server import ConnectServer
from backfill_assets.sample.defects import DEFECTS
from backfill_assets.sample.synthetic_tally import SyntheticSpec
from backfill_assets_tests.stories.killed_builder import STEPS
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 20170301
RANDOM_KILLS = 6
DAYS = DayRange.parse("2017-03-01..2017-03-03")
SPEC = SyntheticSpec(days=DAYS, rows_per_day=40, seed=SEED, defects=dict.fromkeys(DEFECTS, 2))
PLACES = [
    "staged raw_sales",
    "judged raw_sales",
    "prepared raw_sales",
    "table committed raw_sales",
    "staged bronze_sales",
    "judged quarantine_sales",
    "prepared bronze_sales",
    "table committed bronze_sales",
    "closing fact_sales_transactions",
    "closed fact_daily_revenue",
]
_KILLED = -9


@dataclass(frozen=True)
class Yard:
    """Where lakehouses are built: ``template`` has everything landed and the exchange rates published."""

    template: Path
    url: str

    def copy(self, home: Path) -> Path:
        return shutil.copytree(self.template, home)

    def start(self, home: Path, place: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "backfill_assets_tests.stories.killed_builder", str(home), str(DAYS), place]
        environment = os.environ | {"SPARK_REMOTE": self.url}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)

    def run(self, home: Path, place: str = "") -> tuple[int, list[str]]:
        """Exit code, and the places that were reached."""
        with self.start(home, place) as process:
            assert process.stdout is not None
            reached = [line.strip() for line in process.stdout]
        return process.returncode, reached


@dataclass(frozen=True)
class Undisturbed:
    contents: object
    reached: list[str]
    seconds: float
    """From the open session to the end."""


@pytest.fixture(scope="module")
def yard(
    tmp_path_factory: pytest.TempPathFactory, connect_server_for_tests: ConnectServer, connect_spark: SparkSession
) -> Yard:
    home = tmp_path_factory.mktemp("yard") / "template"
    workshop = Workshop(home, lambda: connect_spark)
    workshop.land_synthetic(SPEC)
    workshop.build_rates(DAYS)
    return Yard(home, connect_server_for_tests.url)


@pytest.fixture(scope="module")
def undisturbed(yard: Yard, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    home = yard.copy(tmp_path_factory.mktemp("undisturbed") / "home")
    started = time.monotonic()
    with yard.start(home) as process:
        assert process.stdout is not None
        reached = [process.stdout.readline().strip()]
        started = time.monotonic()
        reached += [line.strip() for line in process.stdout]
    assert process.returncode == 0
    return Undisturbed(contents(home), reached, time.monotonic() - started)


def contents(home: Path) -> dict[str, object]:
    return dict(Workshop(home, _no_spark).contents())


def _no_spark() -> SparkSession:
    raise AssertionError("comparing needs no Spark")


def assert_all_or_nothing(home: Path, undisturbed: Undisturbed) -> None:
    """Whatever a table shows readers is what it shall be, or what it was: nothing."""
    shall_be = undisturbed.contents
    assert isinstance(shall_be, dict)
    found = contents(home)
    for table in shall_be:
        assert found[table] in ({}, shall_be[table]), table


def assert_made_right(yard: Yard, home: Path, undisturbed: Undisturbed) -> None:
    code, _ = yard.run(home)
    assert code == 0
    assert contents(home) == undisturbed.contents
    assert not Workshop(home, _no_spark).builder.lake.publisher.log.head().state.open


@pytest.mark.timeout(600)
def test_killed_at_every_named_place(
    yard: Yard, undisturbed: Undisturbed, tmp_path: Path, connect_spark: SparkSession
) -> None:
    """One run after the other on one lakehouse, each killed a little further on; the last one is left alone."""
    assert set(PLACES) <= set(undisturbed.reached), "a place that no run reaches shows nothing"
    home = yard.copy(tmp_path / "home")
    for place in PLACES:
        code, reached = yard.run(home, place)
        assert (code, reached[-1]) == (_KILLED, place), "it must have died there"
        assert_all_or_nothing(home, undisturbed)
    assert_made_right(yard, home, undisturbed)


@pytest.mark.timeout(600)
def test_killed_at_random_moments(
    yard: Yard, undisturbed: Undisturbed, tmp_path: Path, connect_spark: SparkSession
) -> None:
    """In the middle of a Spark job, a commit, a file: a run of the same lakehouse is killed until one gets through."""
    moments, hits, lakehouse = random.Random(SEED), 0, 0
    while hits < RANDOM_KILLS:
        lakehouse += 1
        home = yard.copy(tmp_path / str(lakehouse))
        while hits < RANDOM_KILLS:
            seconds = moments.uniform(0, undisturbed.seconds / 2)
            last = _killed_after(yard, home, seconds)
            if not last:
                break
            hits += 1
            print(f"seed {SEED}: lakehouse {lakehouse} killed after {seconds:.1f} s, last place: {last}")
            assert_all_or_nothing(home, undisturbed)
        assert_made_right(yard, home, undisturbed)


def _killed_after(yard: Yard, home: Path, seconds: float) -> str:
    """The last place that was reached before the kill; empty if the run got through before it."""
    with yard.start(home) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        reached = [first, *process.stdout]
    assert process.returncode in (0, _KILLED)
    return reached[-1].strip() if process.returncode == _KILLED else ""


def test_the_builder_goes_through_the_whole_chain(undisturbed: Undisturbed) -> None:
    """What is killed above is the chain that people run, each step staged, judged and published."""
    for table in STEPS:
        for place in ("staged", "judged", "prepared", "table committed", "closed"):
            assert f"{place} {table}" in undisturbed.reached
