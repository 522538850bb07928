"""A stream as Dagster's own processes run it: one click starts it, kill -9 of everything, and it is back; one stops it.

The stream itself is played without Spark: what is tried here is who starts, watches and stops it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.defs.streams import STREAM_TAG
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.settings import Settings
from backfill_assets.stream.lease import StreamStatus, read_stream
from backfill_assets_tests.stories import stream_location
from backfill_assets_tests.stories.real_dagster import RealDagster

pytestmark = pytest.mark.story

ASSET = "stream_small"
OFTEN = {"report_every_seconds": 1, "from_beginning": True}


@pytest.fixture
def dagster(tmp_path: Path) -> Iterator[RealDagster]:
    settings = Settings.at(tmp_path)
    found = RealDagster(settings, {"BACKFILL_HOME": str(tmp_path)}, stream_location.__name__)
    with found.processes():
        yield found


def status_of(dagster: RealDagster) -> StreamStatus | None:
    return read_stream(Storage(str(dagster.settings.lakehouse)), "raw_sales")


def wait_for_batches(dagster: RealDagster, after: str = "") -> StreamStatus:
    """The status of a stream of another run than ``after``, once it has published."""

    def published() -> bool:
        status = status_of(dagster)
        return status is not None and status.holder.run != after and status.batches > 2

    dagster.wait_for(published, "a stream that publishes")
    status = status_of(dagster)
    assert status
    return status


def streams(instance: dg.DagsterInstance) -> dict[str, dg.DagsterRunStatus]:
    runs = instance.get_runs(dg.RunsFilter(tags={STREAM_TAG: ASSET}))
    return {run.run_id: run.status for run in runs}


def test_a_stream_is_back_after_everything_was_killed_and_off_after_it_was_stopped(dagster: RealDagster) -> None:
    """The sensor that starts it again is on from the start."""
    first = dagster.materialize(ASSET, config=OFTEN)
    before = wait_for_batches(dagster)
    with dg.DagsterInstance.from_config(str(dagster.home)) as instance:
        assert before.holder.run == first
        dagster.kill_everything()
        dagster.wait_for(before.holder.is_gone, "the end of the stream whose run was killed")
        dagster.start()
        after = wait_for_batches(dagster, first)
        second = after.holder.run
        assert streams(instance) == {first: dg.DagsterRunStatus.FAILURE, second: dg.DagsterRunStatus.STARTED}
        again = instance.get_run_by_id(second)
        assert again and again.run_config == {"ops": {ASSET: {"config": OFTEN}}}
        dagster.terminate(second)
        dagster.wait_for(lambda: streams(instance)[second] is dg.DagsterRunStatus.CANCELED, "the end of the run")
        ended = status_of(dagster)
        assert ended and ended.state == "stopped" and after.holder.is_gone()
        time.sleep(5)
        assert set(streams(instance)) == {first, second}
