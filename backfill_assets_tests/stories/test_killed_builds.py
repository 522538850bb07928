"""Kill -9 of a process that builds the chain, at named places and at random moments: the next runs make it right.

"Right" is the count and the checksum of every day of every table that an undisturbed run in another lakehouse gives.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.defects import DEFECTS
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.spark.connect_server import ConnectServer
from backfill_assets_tests.played_lake import no_spark
from backfill_assets_tests.stories import killed_builder
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 20170301
RANDOM_KILLS = 6
DAYS = DayRange.parse("2017-03-01..2017-03-03")
PLACES = [
    "staged raw_sales",
    "table committed raw_sales",
    "judged quarantine_sales",
    "prepared bronze_sales",
    "closing fact_sales_transactions",
]
"""One of each kind; ``protocol/test_kill.py`` has every step of a publication."""
_KILLED = -9
_PATIENCE_SECONDS = 120
"""From one place to the next."""


# Forked from a process that has imported everything: two seconds less for each run.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([killed_builder.__name__, "pandas"])


@dataclass
class Run:
    """A process at work, and the places it reported."""

    process: BaseProcess
    tells: Connection
    server: ConnectServer
    reached: list[str] = field(default_factory=list)

    def next_place(self) -> str:
        """Empty at the end of the process."""
        if not self.tells.poll(_PATIENCE_SECONDS):
            self.process.kill()
            pytest.fail(f"nothing was reached after {self.reached[-1:]}; the server's threads:\n{self.threads()}")
        try:
            self.reached.append(self.tells.recv())
        except EOFError:
            return ""
        return self.reached[-1]

    def threads(self) -> str:
        """What the server is at, as Java reports it when it is asked by a signal."""
        before = self.server.log.stat().st_size
        os.kill(self.server.process.pid, signal.SIGQUIT)
        time.sleep(5)
        return self.server.log.read_text(errors="replace")[before:]

    def end(self) -> int:
        """Wait for the end, and give the exit code."""
        while self.next_place():
            pass
        self.tells.close()
        self.process.join()
        code = self.process.exitcode
        assert code is not None
        return code


@dataclass(frozen=True)
class Yard:
    """Where lakehouses are built: ``template`` has everything landed and the exchange rates published."""

    template: Path
    server: ConnectServer

    def copy(self, home: Path) -> Path:
        return shutil.copytree(self.template, home)

    def start(self, home: Path, place: str = "") -> Run:
        tells, tell = _PROCESSES.Pipe(duplex=False)
        arguments = (str(home), self.server.url, str(DAYS), place, tell)
        process = _PROCESSES.Process(target=killed_builder.build_chain, args=arguments)
        process.start()
        tell.close()
        return Run(process, tells, self.server)


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
    workshop.land_synthetic(SyntheticSpec(days=DAYS, rows_per_day=40, seed=SEED, defects=dict.fromkeys(DEFECTS, 2)))
    workshop.build_rates(DAYS)
    return Yard(home, connect_server_for_tests)


@pytest.fixture(scope="module")
def undisturbed(yard: Yard, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    home = yard.copy(tmp_path_factory.mktemp("undisturbed") / "home")
    run = yard.start(home)
    run.next_place()
    started = time.monotonic()
    assert run.end() == 0
    return Undisturbed(contents(home), run.reached, time.monotonic() - started)


def contents(home: Path) -> dict[str, object]:
    return dict(Workshop(home, no_spark).contents())


def assert_all_or_nothing(home: Path, undisturbed: Undisturbed) -> None:
    """All that a table shows readers is what it shall be, or what it was: nothing."""
    shall_be = undisturbed.contents
    assert isinstance(shall_be, dict)
    found = contents(home)
    for table in shall_be:
        assert found[table] in ({}, shall_be[table]), table


def assert_made_right(yard: Yard, home: Path, undisturbed: Undisturbed) -> None:
    assert yard.start(home).end() == 0
    assert contents(home) == undisturbed.contents
    assert not Workshop(home, no_spark).builder.lake.publisher.log.head().state.open


@pytest.mark.timeout(600)
def test_killed_at_every_named_place(
    yard: Yard, undisturbed: Undisturbed, tmp_path: Path, connect_spark: SparkSession
) -> None:
    """One run after the other on one lakehouse, each killed a little further on; the last one is left alone."""
    assert set(PLACES) <= set(undisturbed.reached), "a place that no run reaches shows nothing"
    home = yard.copy(tmp_path / "home")
    for place in PLACES:
        run = yard.start(home, place)
        assert (run.end(), run.reached[-1]) == (_KILLED, place), "it must have died there"
        assert_all_or_nothing(home, undisturbed)
    assert_made_right(yard, home, undisturbed)


@pytest.mark.long
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
            seconds = moments.uniform(0, undisturbed.seconds / 3)
            last = _killed_after(yard, home, seconds)
            if not last:
                break
            hits += 1
            print(f"seed {SEED}: lakehouse {lakehouse} killed after {seconds:.1f} s, last place: {last}")
            assert_all_or_nothing(home, undisturbed)
        assert_made_right(yard, home, undisturbed)


def _killed_after(yard: Yard, home: Path, seconds: float) -> str:
    """The last place that was reached before the kill; empty if the run got through before it."""
    run = yard.start(home)
    run.next_place()
    run.process.join(seconds)
    run.process.kill()
    code = run.end()
    assert code in (0, _KILLED)
    return run.reached[-1] if code == _KILLED else ""


def test_the_builder_goes_through_the_whole_chain(undisturbed: Undisturbed) -> None:
    """What is killed above is the chain that people run, each step staged, judged and published."""
    for table in killed_builder.STEPS:
        for place in ("staged", "judged", "prepared", "table committed", "closed"):
            assert f"{place} {table}" in undisturbed.reached
