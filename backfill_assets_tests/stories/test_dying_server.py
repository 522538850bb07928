"""The Spark server dies in the middle of a run: a clear failure, nothing published, and the next run works."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.errors import SparkLost
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import BuildResult, RunInfo
from backfill_assets.settings import Settings
from backfill_assets.spark import session as session_module
from backfill_assets.spark.connect_server import ConnectServer, connect_server, start_connect_server
from backfill_assets.spark.session import KEPT_BY, spark_session
from backfill_assets_tests.conftest import SMALL_SPARK
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-04-13..2017-04-14")
SPEC = SyntheticSpec(days=DAYS, rows_per_day=50, seed=13)


@pytest.mark.filterwarnings("ignore:.*RETRIES_EXCEEDED.*:UserWarning")
def test_a_server_that_dies_in_the_middle_of_a_run(
    tmp_path: Path, connect_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed while it stages; the second run is on another server and finds a lakehouse as if nothing was."""
    monkeypatch.setattr(session_module, "_RETRIES", 4)
    workshop = Workshop(tmp_path, lambda: connect_spark)
    workshop.land_synthetic(SPEC)
    with connect_server(workshop.settings, options=SMALL_SPARK) as server:
        here = replace(workshop.settings, spark_profile="connect", spark_remote=server.url)
        with spark_session(here, "doomed") as session:
            killer = threading.Thread(target=_kill_when_it_stages, args=(server, workshop.settings.lakehouse))
            killer.start()
            builder = Builder.from_settings(workshop.settings, CATALOG, lambda: session)
            with pytest.raises(SparkLost) as failure:
                builder.build(CATALOG.step("raw_sales"), list(DAYS), run=RunInfo("doomed"))
            killer.join()
    assert "Spark server went away while raw_sales was built: nothing of it was published" in failure.value.message
    assert "backfill spark start" in str(failure.value.hint)
    log = workshop.builder.lake.publisher.log
    assert not log.head().state.versions and not log.head().state.open
    workshop.build("raw_sales", DAYS)
    assert workshop.states("raw_sales").keys() >= set(DAYS)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*RETRIES_EXCEEDED.*:UserWarning")
def test_a_run_goes_on_when_its_server_is_started_again(
    tmp_path: Path, connect_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under ``make dev``: one run, which waits for the server and publishes; the client is as patient as ever."""
    monkeypatch.setenv(KEPT_BY, "make dev")
    workshop = Workshop(tmp_path, lambda: connect_spark)
    workshop.land_synthetic(SPEC)
    said: list[str] = []
    with connect_server(workshop.settings, options=SMALL_SPARK) as server:
        here = replace(workshop.settings, spark_profile="connect", spark_remote=server.url)
        spark = SharedSpark(settings=here)
        backfill = Backfill(settings=here, catalog=CATALOG, spark=spark)
        spark.session()
        killer = threading.Thread(target=_kill_when_it_stages, args=(server, workshop.settings.lakehouse))
        killer.start()

        def build() -> BuildResult:
            return backfill.builder().build(CATALOG.step("raw_sales"), list(DAYS), run=RunInfo("resumed"))

        restarts = threading.Thread(target=_start_again, args=(server, workshop.settings, killer))
        restarts.start()
        try:
            result = backfill.resume(build, said.append)
        finally:
            restarts.join()
            _STARTED.pop().stop()
    assert said and "Waiting for Spark, then going on from what is staged." in said[0]
    assert {day.day for day in result.days} >= set(DAYS)
    assert workshop.states("raw_sales").keys() >= set(DAYS)


_STARTED: list[ConnectServer] = []


def _start_again(server: ConnectServer, settings: Settings, killer: threading.Thread) -> None:
    killer.join()
    server.process.wait()
    _STARTED.append(start_connect_server(settings, server.port, SMALL_SPARK))


def _kill_when_it_stages(server: ConnectServer, lakehouse: Path) -> None:
    deadline = time.monotonic() + 120
    while not list(lakehouse.glob("raw_sales/_timelines/*/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    server.process.kill()
