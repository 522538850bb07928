"""The Spark server dies in the middle of a run: a clear failure, nothing published, and the next run works."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.build import Builder, RunInfo
from backfill_assets.datasets import registry
from backfill_assets.days import DayRange
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse import session as session_module
from backfill_assets.lakehouse.connect_server import ConnectServer, connect_server
from backfill_assets.lakehouse.session import spark_session
from backfill_assets.sample.synthetic_tally import SyntheticSpec
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
            builder = Builder.from_settings(workshop.settings, lambda: session)
            with pytest.raises(LakehouseUnusable) as failure:
                builder.build(registry.step("raw_sales"), list(DAYS), run=RunInfo("doomed"))
            killer.join()
    assert "Spark server went away while raw_sales was built: nothing of it was published" in failure.value.message
    assert "backfill spark start" in str(failure.value.hint)
    log = workshop.builder.lake.publisher.log
    assert not log.head().state.versions and not log.head().state.open
    workshop.build("raw_sales", DAYS)
    assert workshop.states("raw_sales").keys() >= set(DAYS)


def _kill_when_it_stages(server: ConnectServer, lakehouse: Path) -> None:
    deadline = time.monotonic() + 120
    while not list(lakehouse.glob("raw_sales/_timelines/*/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    server.process.kill()
