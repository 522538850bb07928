"""``make dev`` with Dagster's real processes: each of its parts is killed with -9, and runs go on or are ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.dagster_run import DagsterRunStatus

from backfill_assets.settings import Settings
from backfill_assets_tests.stories import waiting_location
from backfill_assets_tests.stories.real_dagster import MakeDev
from backfill_assets_tests.stories.waiting_location import MAY_END

DAEMON, CODE, UI = "dagster_internals daemon", "code-server", "dagster_internals webserver"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked up below /proc"),
]


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[MakeDev]:
    """No JVM: the Spark that it is given is never asked."""
    variables = {"BACKFILL_HOME": str(tmp_path), "SPARK_REMOTE": "sc://127.0.0.1:1"}
    dagster = MakeDev(Settings.at(tmp_path), variables, waiting_location.__name__)
    with dagster.processes():
        yield dagster


@pytest.fixture
def instance(dev: MakeDev) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(dev.home)) as found:
        yield found


def _launch(dev: MakeDev, instance: dg.DagsterInstance) -> str:
    run_id = dev.materialize("waiting")
    dev.wait_for(lambda: _status(instance, run_id) is DagsterRunStatus.STARTED, "the run to start")
    return run_id


def _status(instance: dg.DagsterInstance, run_id: str) -> DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def _process_of(instance: dg.DagsterInstance, run_id: str) -> int:
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT).records
    told = [record.event_log_entry.dagster_event for record in records]
    (pid,) = [
        int(str(each.engine_event_data.metadata["pid"].value))
        for each in told
        if each is not None and (each.message or "").startswith("Started process for run")
    ]
    return pid


def test_each_part_comes_back_and_the_run_goes_on(dev: MakeDev, instance: dg.DagsterInstance, tmp_path: Path) -> None:
    """Daemon, code server and UI; afterwards the run under way ends well, and the next one is launched as before."""
    run = _launch(dev, instance)
    for part in (DAEMON, CODE, UI):
        dev.kill_part(part)
        assert _status(instance, run) is DagsterRunStatus.STARTED
    (tmp_path / MAY_END).touch()
    dev.wait_for(lambda: _status(instance, run) is DagsterRunStatus.SUCCESS, "the run to end well")
    again = dev.materialize("waiting")
    dev.wait_for(lambda: _status(instance, again) is DagsterRunStatus.SUCCESS, "another run to end well")


def test_a_run_that_was_killed_is_ended(dev: MakeDev, instance: dg.DagsterInstance) -> None:
    """Alone, and with everything else, as if the power had failed: then by the next start."""
    run = _launch(dev, instance)
    os.kill(_process_of(instance, run), signal.SIGKILL)
    dev.wait_for(lambda: _status(instance, run) is DagsterRunStatus.FAILURE, "the killed run to be ended")
    run = _launch(dev, instance)
    dev.kill_everything()
    assert _status(instance, run) is DagsterRunStatus.STARTED
    dev.start()
    dev.wait_for(lambda: _status(instance, run) is DagsterRunStatus.FAILURE, "the run to be ended by the next start")
