"""A run whose process was killed has failed, as soon as the launcher looks; Dagster alone would wait for ever."""

from __future__ import annotations

import json
import logging
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.storage.dagster_run import DagsterRunStatus
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._core.utils import make_new_run_id
from dagster._daemon.monitoring.run_monitoring import execute_run_monitoring_iteration

from backfill_assets.cli.dev.dagster_home import dagster_home
from backfill_assets.settings import Settings

HERE, ELSEWHERE = "localhost", "code-server.example"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """With the repository's own ``dagster.yaml``."""
    with dg.DagsterInstance.from_config(str(dagster_home(Settings.at(tmp_path)))) as found:
        yield found


@pytest.fixture
def worker() -> Iterator[BaseProcess]:
    """A process started as Dagster's code server starts those of its runs."""
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    process.start()
    yield process
    process.kill()
    process.join()


def started(instance: dg.DagsterInstance, pid: int | None, host: str = HERE) -> str:
    """A run that has reported its process, if ``pid`` is given, by a code server on ``host``."""
    run = dg.DagsterRun(
        job_name="played",
        run_id=make_new_run_id(),
        status=DagsterRunStatus.STARTED,
        tags={GRPC_INFO_TAG: json.dumps({"host": host, "port": 4000})},
    )
    instance.add_run(run)
    if pid is not None:
        instance.report_engine_event(f"Started process for run (pid: {pid}).", run, EngineEventData.in_process(pid))
    return run.run_id


def looked_at(instance: dg.DagsterInstance, run_id: str) -> DagsterRunStatus:
    """The run's status after a tick of the daemon that watches runs."""
    assert instance.run_monitoring_enabled
    context = SimpleNamespace(instance=instance, create_request_context=lambda: None)
    errors = [each for each in execute_run_monitoring_iteration(context, logging.getLogger("daemon")) if each]  # type: ignore[arg-type]
    assert not errors
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def test_a_run_whose_process_is_gone_has_failed(instance: dg.DagsterInstance, worker: BaseProcess) -> None:
    """Not before: a long step says nothing for a long time."""
    assert worker.pid is not None
    run_id = started(instance, worker.pid)
    assert looked_at(instance, run_id) is DagsterRunStatus.STARTED
    worker.kill()
    worker.join()
    assert looked_at(instance, run_id) is DagsterRunStatus.FAILURE


@pytest.mark.parametrize(("told", "host"), [(True, ELSEWHERE), (False, HERE)], ids=["elsewhere", "untold"])
def test_what_cannot_be_seen_is_left_alone(
    instance: dg.DagsterInstance, worker: BaseProcess, told: bool, host: str
) -> None:
    """A code server on another machine, and a run in the process of a command, have other processes."""
    worker.kill()
    worker.join()
    run_id = started(instance, worker.pid if told else None, host)
    assert looked_at(instance, run_id) is DagsterRunStatus.STARTED


def test_another_process_with_the_same_number_is_not_the_run(instance: dg.DagsterInstance) -> None:
    """Numbers are given again: the first process of the machine is there always."""
    assert looked_at(instance, started(instance, 1)) is DagsterRunStatus.FAILURE
