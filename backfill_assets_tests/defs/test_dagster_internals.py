"""Names in Dagster that change without notice. Where one of these tests fails after an upgrade, its docstring says what
to do: each part of ``defs/dagster_internals.py`` can be taken out by itself, at the figure that stands there.
"""

from __future__ import annotations

import inspect
import json
import logging
import multiprocessing
import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import date
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.storage.dagster_run import DagsterRunStatus
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._core.utils import make_new_run_id
from dagster._daemon import controller
from dagster._daemon.monitoring.run_monitoring import execute_run_monitoring_iteration
from dagster._grpc import server
from dagster_webserver import app
from dagster_webserver import cli as webserver_cli

from backfill_assets.cli.dev.dagster_home import dagster_home
from backfill_assets.defs import dagster_internals
from backfill_assets.defs import dagster_internals as event_log
from backfill_assets.defs.dagster_internals import (
    EVENT_BATCH_SIZE,
    LocalEventLog,
    begin_at_first_page,
    look_at_backfills_often,
    start_runs_warm,
)
from backfill_assets.defs.location import code_location
from backfill_assets.settings import Settings
from backfill_assets_tests.defs.conftest import run_range
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG

ROOT = Path(dagster_internals.__file__).parents[2]


def test_the_version_that_was_tried_is_the_locked_one() -> None:
    """Run the tests of ``defs`` and ``stories`` with the new one, then write its number into the module."""
    (tried,) = re.findall(r"Tried with Dagster (\d+\.\d+\.\d+)", str(dagster_internals.__doc__))
    assert dg.__version__ == tried


def test_the_daemon_reads_its_interval_from_the_constant_that_is_set() -> None:
    """Otherwise: drop ``look_at_backfills_often``. The end of a backfill is then waited for up to 30 s instead of 2."""
    assert controller.DEFAULT_DAEMON_INTERVAL_SECONDS == 30
    assert inspect.getsource(controller).count("DEFAULT_DAEMON_INTERVAL_SECONDS") > 1
    module = SimpleNamespace(DEFAULT_DAEMON_INTERVAL_SECONDS=30)
    look_at_backfills_often(module)
    assert module.DEFAULT_DAEMON_INTERVAL_SECONDS == 2
    other = SimpleNamespace()
    look_at_backfills_often(other)
    assert vars(other) == {}, "another Dagster keeps its own"


def test_the_code_server_has_the_names_that_are_replaced() -> None:
    """Otherwise: drop ``start_runs_warm``. Each run then spends two to three seconds on imports."""
    names = vars(server)
    assert names["multiprocessing"].get_context("spawn").get_start_method() == "spawn"
    assert names["get_python_environment_entry_point"]("python") == ["python", "-m", "dagster"]


def test_the_address_of_the_ui_leads_to_the_first_page() -> None:
    """Otherwise: drop ``begin_at_first_page``. The UI begins at the timeline of runs then."""
    module = SimpleNamespace(DagsterWebserver=vars(app)["DagsterWebserver"])
    assert inspect.getsource(app.create_app_from_workspace_process_context).count("DagsterWebserver(") == 1
    assert vars(webserver_cli)["create_app_from_workspace_process_context"].__globals__ is vars(app)
    begin_at_first_page(module)
    first, *others = module.DagsterWebserver(None).build_routes()
    assert (first.path, first.endpoint(None).headers["location"]) == ("/", "/assets/start_here")
    assert "/graphql" in {each.path for each in others}


def test_runs_are_forked_and_a_reloaded_server_forks_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without the names starts its runs as it does."""
    monkeypatch.setattr(forkserver, "ensure_running", lambda: None)
    found = ModuleType("server")
    vars(found).update(multiprocessing=None, get_python_environment_entry_point=None)
    start_runs_warm(found)
    assert isinstance(found.multiprocessing.get_context("spawn"), ForkServerContext)
    entry = found.get_python_environment_entry_point(sys.executable)
    assert entry == [sys.executable, "-m", dagster_internals.__name__]
    other = SimpleNamespace(multiprocessing="its own")
    start_runs_warm(other)
    assert vars(other) == {"multiprocessing": "its own"}


def test_the_event_log_overrides_what_dagster_calls() -> None:
    """Otherwise: write ``storage: {sqlite: {base_dir: .data/dagster}}`` into ``dagster.yaml``. Nothing is lost: the
    files are Dagster's own. Its share of a backfill is then five times as much.
    """
    sqlite = sqlite_event_log.SqliteEventLogStorage
    for name in ("_connect", "store_event", "store_event_batch"):
        assert callable(getattr(sqlite, name)), name
    assert "with self._db_lock:" in inspect.getsource(sqlite._connect), "a batch takes it once for all of its events"


def test_both_processes_end_at_once() -> None:
    """Before anything else that they do: handlers of what is imported later run first."""
    started = inspect.getsource(dagster_internals).partition('if __name__ == "__main__":')[2]
    assert started.split("\n")[2].strip() == "atexit.register(gc.freeze)"


def test_the_files_of_the_instance_name_what_is_there() -> None:
    """A name that is wrong there is an error of every process of Dagster."""
    named = re.findall(r"module: backfill_assets\.(\S+)\n\s+class: (\S+)", (ROOT / "dagster.yaml").read_text())
    assert named == [("defs.dagster_internals", "LocalStorage"), ("defs.dagster_internals", "LocalRunLauncher")]
    assert all(hasattr(dagster_internals, name) for _, name in named)


# --------------------------------------- the event log stores what Dagster's own stores, a batch in one transaction


FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
_OWN_TO_A_RUN = re.compile(r'[0-9a-f]{8}-[0-9a-f-]{27}|\d+(\.\d+)?(e-\d+)?(m?s\b)?|(?<="log_key": ")[a-z]+')
"""Durations with their unit: a step takes milliseconds or, on a slow machine, seconds."""


def materialize(instance: dg.DagsterInstance, failing: Mapping[str, list[date]]) -> dg.ExecuteInProcessResult:
    location = code_location(SMALL_CATALOG, fake_resources(FakeBuilder(failing=failing)))
    return run_range(location, instance, "2017-03-01..2017-03-02", FACT, REVENUE)


def stored(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables of the index and of the run, without what differs from run to run."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for path in sorted(folder.rglob("*.db")):
        if path.name in ("runs.db", "schedules.db"):
            continue
        which = "index" if path.name == "index.db" else "run"
        with sqlite3.connect(path) as connection:
            names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
            for (table,) in names:
                rows = connection.execute(f'select * from "{table}"').fetchall()  # noqa: S608
                found[f"{which}.{table}"] = sorted(
                    tuple(_OWN_TO_A_RUN.sub("", str(value)) for value in row) for row in rows
                )
    return found


def test_the_same_rows_are_stored_as_by_dagsters_own_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table that passes, and of one whose gate fails."""
    failing = {REVENUE: [date(2017, 3, 1)]}
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(tmp_path / "plain")) as plain:
        assert not materialize(plain, failing).success
    monkeypatch.setenv(EVENT_BATCH_SIZE, "1000")
    with dg.DagsterInstance.from_config(str(dagster_home(Settings.at(tmp_path / "own")))) as own:
        assert isinstance(own.event_log_storage, LocalEventLog)
        assert not materialize(own, failing).success
    kept, upstream = stored(tmp_path / "own"), stored(tmp_path / "plain")
    assert kept.keys() == upstream.keys()
    assert len(kept["index.event_logs"]) > 10
    assert len(kept["index.asset_check_executions"]) == len(upstream["index.asset_check_executions"]) > 0
    for table, rows in upstream.items():
        assert [row for row in rows if "ENGINE_EVENT" not in str(row)] == [
            row for row in kept[table] if "ENGINE_EVENT" not in str(row)
        ], table


def test_dagsters_own_log_reads_what_was_stored(own_instance: dg.DagsterInstance, tmp_path: Path) -> None:
    assert materialize(own_instance, {}).success
    with dg.DagsterInstance.from_ref(own_instance.get_ref()) as again:
        assert isinstance(again.event_log_storage, LocalEventLog), "as handed to a run"
    base = own_instance.event_log_storage._base_dir  # type: ignore[attr-defined]
    home = Path(base).parents[1]
    (home / "dagster.yaml").write_text(f"storage: {{sqlite: {{base_dir: {json.dumps(str(Path(base).parents[1]))}}}}}\n")
    with dg.DagsterInstance.from_config(str(home)) as plain:
        assert type(plain.event_log_storage) is not type(own_instance.event_log_storage)
        assert plain.get_materialized_partitions(dg.AssetKey(FACT)) == {"2017-03-01", "2017-03-02"}


def test_a_batch_that_fails_leaves_nothing_behind(
    own_instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = own_instance.add_run(dg.DagsterRun(job_name="played", run_id=make_new_run_id()))
    own_instance.report_engine_event("Began.", run, EngineEventData.in_process(1))
    log = own_instance.event_log_storage
    first, *_ = before = [each.event_log_entry for each in own_instance.get_records_for_run(run.run_id).records]
    stored = Mock(side_effect=[None, OSError("the disk is full")])

    def store(event: dg.EventLogEntry) -> None:
        stored()
        type(log).store_event(log, event)

    with monkeypatch.context() as patch:
        patch.setattr(log, "store_event", store)
        with pytest.raises(OSError, match="the disk is full"):
            log.store_event_batch([first, first])
    assert len(own_instance.get_records_for_run(run.run_id).records) == len(before)
    log.store_event_batch([first, first])
    assert len(own_instance.get_records_for_run(run.run_id).records) == len(before) + 2


def test_events_come_in_batches_unless_the_environment_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EVENT_BATCH_SIZE, "7")
    event_log.batch_events()
    assert os.environ[EVENT_BATCH_SIZE] == "7"
    monkeypatch.delenv(EVENT_BATCH_SIZE)
    event_log.batch_events()
    assert os.environ[EVENT_BATCH_SIZE] == "1000"


# ------------------------------------------ a run whose process was killed has failed as soon as the launcher looks


HERE, ELSEWHERE = "localhost", "code-server.example"


@pytest.fixture
def worker() -> Iterator[BaseProcess]:
    """A process started as Dagster's code server starts those of its runs."""
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    process.start()
    yield process
    process.kill()
    process.join()


def started(own_instance: dg.DagsterInstance, pid: int | None, host: str = HERE) -> str:
    """A run that has reported its process, if ``pid`` is given, by a code server on ``host``."""
    run = dg.DagsterRun(
        job_name="played",
        run_id=make_new_run_id(),
        status=DagsterRunStatus.STARTED,
        tags={GRPC_INFO_TAG: json.dumps({"host": host, "port": 4000})},
    )
    own_instance.add_run(run)
    if pid is not None:
        own_instance.report_engine_event(f"Started process for run (pid: {pid}).", run, EngineEventData.in_process(pid))
    return run.run_id


def looked_at(own_instance: dg.DagsterInstance, run_id: str) -> DagsterRunStatus:
    """The run's status after a tick of the daemon that watches runs."""
    assert own_instance.run_monitoring_enabled
    context = SimpleNamespace(instance=own_instance, create_request_context=lambda: None)
    errors = [each for each in execute_run_monitoring_iteration(context, logging.getLogger("daemon")) if each]  # type: ignore[arg-type]
    assert not errors
    run = own_instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def test_a_run_whose_process_is_gone_has_failed(own_instance: dg.DagsterInstance, worker: BaseProcess) -> None:
    """Not before: a long step says nothing for a long time."""
    assert worker.pid is not None
    run_id = started(own_instance, worker.pid)
    assert looked_at(own_instance, run_id) is DagsterRunStatus.STARTED
    worker.kill()
    worker.join()
    assert looked_at(own_instance, run_id) is DagsterRunStatus.FAILURE


@pytest.mark.parametrize(("told", "host"), [(True, ELSEWHERE), (False, HERE)], ids=["elsewhere", "untold"])
def test_what_cannot_be_seen_is_left_alone(
    own_instance: dg.DagsterInstance, worker: BaseProcess, told: bool, host: str
) -> None:
    """A code server on another machine, and a run in the process of a command, have other processes."""
    worker.kill()
    worker.join()
    run_id = started(own_instance, worker.pid if told else None, host)
    assert looked_at(own_instance, run_id) is DagsterRunStatus.STARTED


def test_another_process_with_the_same_number_is_not_the_run(own_instance: dg.DagsterInstance) -> None:
    """Numbers are given again: the first process of the machine is there always."""
    assert looked_at(own_instance, started(own_instance, 1)) is DagsterRunStatus.FAILURE


def test_runs_and_sensors_print_by_another_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, `BACKFILL_LOG_FORMAT=json` leaves Dagster's lines as text: take `log_to` out of `location.py`."""
    from dagster import _loggers
    from dagster._core.definitions import instigation_logger

    for module in (_loggers, instigation_logger):
        monkeypatch.setattr(module, "create_console_logger", module.create_console_logger)  # put back afterwards
    said: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.dagster_meta["orig_message"])  # type: ignore[attr-defined]

    dagster_internals.log_to(Handler)

    @dg.op
    def speaks() -> None:
        dg.get_dagster_logger().info("staged")

    @dg.job
    def speaking() -> None:
        speaks()

    assert speaking.execute_in_process().success and "staged" in said
