"""All that this package uses of Dagster's private modules, which change without notice.

Tried with Dagster 1.13.27, the version in ``uv.lock``. ``test_dagster_internals.py`` says for each part what to do if a
later Dagster differs. What each part gains over plain Dagster:

- :class:`LocalEventLog`: ten days of four tables take 2.1 CPU seconds of Dagster instead of 11.1.
- :func:`report_checks`, :func:`report_materializations`: batches for that event log.
- :func:`start_runs_warm`: a run begins 2 to 3 s sooner, the time that imports take.
- :func:`look_at_backfills_often`: the end of a backfill is seen after 2 s instead of 30 s.
- :class:`LocalRunLauncher`: a run killed together with its code server is not shown as started for ever.
- :func:`show_as_run`: the page of a stopped campaign is not green.
- :func:`reload_code`: partitions end where data ends without a click on Reload.
- :func:`begin_at_first_page`: the UI's address leads to ``start_here``.
- :func:`log_to`: what runs and sensors print can be lines of JSON.

``python -m backfill_assets.defs.dagster_internals code-server start``, ``... daemon run`` and ``... webserver`` are
Dagster's commands with these patches.
"""

from __future__ import annotations

import atexit
import gc
import json
import logging
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from types import SimpleNamespace
from typing import Any

import dagster as dg

# Types that Dagster's public functions take or give, and has under private names only.
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph
from dagster._core.definitions.data_version import CODE_VERSION_TAG, DATA_VERSION_TAG
from dagster._core.definitions.events import AssetKeyPartitionKey
from dagster._core.definitions.utils import MAX_TITLE_LENGTH
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.events import (
    AssetMaterializationPlannedData,
    DagsterEvent,
    DagsterEventBatchMetadata,
    StepMaterializationData,
)
from dagster._core.execution.backfill import (
    BULK_ACTION_TERMINAL_STATUSES,
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
)
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME, SqliteEventLogStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage

# Documented tags.
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    BACKFILL_ID_TAG,
    GRPC_INFO_TAG,
    MAX_RETRIES_TAG,
    PARTITION_NAME_TAG,
    PRIORITY_TAG,
    RETRY_NUMBER_TAG,
    RUN_KEY_TAG,
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
    USER_TAG,
    WILL_RETRY_TAG,
)
from sqlalchemy.engine import Connection

from backfill_assets import clock
from backfill_assets.spark.service import command_line
from backfill_assets.ui_addresses import FIRST_PAGE

Target = AssetCheckEvaluationTargetMaterializationData
CheckStatus = AssetCheckExecutionRecordStatus

# ------------------------------------------------------------------ what is printed


def log_to(handler: Callable[[], logging.Handler]) -> None:
    """Runs, sensors and schedules of this process print by ``handler``; the UI's logs stay."""
    from dagster import _loggers
    from dagster._core.definitions import instigation_logger

    def console(name: str, level: str | int) -> logging.Logger:
        found = logging.getLoggerClass()(name, level)
        found.addHandler(handler())
        return found

    for module in (_loggers, instigation_logger):
        module.create_console_logger = console  # type: ignore[attr-defined]


# ------------------------------------------------------------------ checks of days


def report_checks(
    instance: dg.DagsterInstance, run_id: str, evaluations: Iterable[dg.AssetCheckEvaluation], step: str | None = None
) -> int:
    """Stores one batch: a step's evaluations would each be a write. ``run_id`` may be made up."""
    events = []
    for each in evaluations:
        verdict = "passed" if each.passed else "did not pass"
        said = f"Asset check '{each.check_name}' on '{each.asset_key.to_user_string()}' {verdict}."
        events.append(_event(dg.DagsterEventType.ASSET_CHECK_EVALUATION, each, step_key=step, message=said))
    _report(instance, run_id, events)
    return len(events)


def report_materializations(instance: dg.DagsterInstance, events: Iterable[dg.AssetMaterialization]) -> None:
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    _report(instance, RUNLESS_RUN_ID, [_event(kind, StepMaterializationData(each)) for each in events])


def _event(kind: dg.DagsterEventType, data: Any, **more: Any) -> DagsterEvent:
    return DagsterEvent(event_type_value=kind.value, event_specific_data=data, job_name=RUNLESS_JOB_NAME, **more)


def _report(instance: dg.DagsterInstance, run_id: str, events: Sequence[DagsterEvent]) -> None:
    batch = clock.token(16)
    for number, event in enumerate(events, start=1):
        place = DagsterEventBatchMetadata(batch, is_end=number == len(events))
        instance.report_dagster_event(event, run_id, batch_metadata=place)


def newest_materializations(
    instance: dg.DagsterInstance, table: str, days: Collection[str]
) -> dict[str, dg.EventLogRecord]:
    key = dg.AssetKey(table)
    newest = instance.event_log_storage.get_latest_storage_id_by_partition(
        key, dg.DagsterEventType.ASSET_MATERIALIZATION
    )
    ids = [newest[day] for day in days if day in newest]
    if not ids:
        return {}
    records = instance.fetch_materializations(dg.AssetRecordsFilter(key, storage_ids=ids), limit=len(ids)).records
    return {str(record.partition_key): record for record in records}


def targets(instance: dg.DagsterInstance, table: str, days: Collection[str]) -> dict[str, Target]:
    return {
        day: Target(storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp)
        for day, record in newest_materializations(instance, table, days).items()
    }


@dataclass(frozen=True)
class ShownCheck:
    table: str
    check: str
    day: str
    status: CheckStatus
    planned_by: str


def shown_checks(instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey]) -> Iterator[ShownCheck]:
    for info in instance.event_log_storage.get_asset_check_partition_info(keys=keys) if keys else ():
        if info.partition_key:
            table, check = info.check_key.asset_key.to_user_string(), info.check_key.name
            run = info.latest_planned_run_id or ""
            yield ShownCheck(table, check, info.partition_key, info.latest_execution_status, run)


@dataclass(frozen=True)
class Said:
    verdict: dg.AssetCheckEvaluation
    run: str


def newest_evaluations(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, limit: int = 1, day: str | None = None
) -> list[dg.AssetCheckEvaluation]:
    return [each.verdict for each in newest_said(instance, key, limit, day)]


def newest_said(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, limit: int = 1, day: str | None = None
) -> list[Said]:
    records = instance.event_log_storage.get_asset_check_execution_history(
        key,
        limit,
        status={CheckStatus.FAILED, CheckStatus.SUCCEEDED},
        partition_filter=None if day is None else PartitionKeyFilter(key=day),
    )
    events = ((record.event.dagster_event, record.run_id) for record in records if record.event)
    return [Said(event.asset_check_evaluation_data, run) for event, run in events if event]


def show_as_run(instance: dg.DagsterInstance, run: dg.DagsterRun, asset: str, partition: str) -> None:
    """Fails a partition with its run, as Dagster does if the run planned it and has not materialized it."""
    planned = AssetMaterializationPlannedData(dg.AssetKey(asset), partition)
    event = DagsterEvent.build_asset_materialization_planned_event(run.job_name, asset, planned)
    instance.report_dagster_event(event, run.run_id)


# ------------------------------------------------------------------ code locations and what is on


def reload_code(origin: object, timeout_seconds: int, after_seconds: float) -> bool:
    """Reloads after this tick, whose process it ends; runs go on. False if only the UI can ask."""
    if not isinstance(origin, GrpcServerCodeLocationOrigin):
        return False
    client = origin.create_client()

    def ask() -> None:
        # A server without this call is left alone: the next tick tells a person.
        with suppress(Exception):
            client.reload_code(timeout_seconds)

    timer = threading.Timer(after_seconds, ask)
    timer.daemon = True
    timer.start()
    return True


def is_stopped(instance: dg.DagsterInstance, name: str) -> bool:
    states = instance.all_instigator_state() if instance.schedule_storage else []
    return any(not state.is_running for state in states if state.instigator_name == name)


def is_process_gone(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    launcher = instance.run_launcher
    if run.status is not dg.DagsterRunStatus.STARTED or not launcher.supports_check_run_worker_health:
        return False
    return launcher.check_run_worker_health(run).status is WorkerStatus.FAILED


# ------------------------------------------------------------------ the run launcher of dagster.yaml

_THIS_MACHINE = {"localhost", "127.0.0.1"}
_STARTED = "Started process for run"
_OF_A_RUN = "multiprocessing"


class LocalRunLauncher(dg.DefaultRunLauncher):
    """Also detects that the process of a run is gone, on this machine; all others count as alive.

    Dagster itself shows a run killed with its code server as started for ever, and never retries it.
    """

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        pid = self._process_of(run)
        if pid is None or _OF_A_RUN in command_line(pid):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.FAILED, f"its process {pid} is gone: it was killed")

    def _process_of(self, run: dg.DagsterRun) -> int | None:
        """Returns None for a run of a command or of another machine."""
        if json.loads(run.tags.get(GRPC_INFO_TAG, "{}")).get("host") not in _THIS_MACHINE:
            return None
        events = self._instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT).records
        logged = (each.event_log_entry.dagster_event for each in events)
        started = [each for each in logged if each is not None and (each.message or "").startswith(_STARTED)]
        return int(str(started[-1].engine_event_data.metadata["pid"].value)) if started else None


# ------------------------------------------------------------------ the event log of dagster.yaml

EVENT_BATCH_SIZE = "DAGSTER_EVENT_BATCH_SIZE"
_BATCH = "1000"


def batch_events() -> None:
    os.environ.setdefault(EVENT_BATCH_SIZE, _BATCH)


class LocalStorage(DagsterSqliteStorage):
    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = LocalEventLog(self._event_log_storage._base_dir)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> LocalStorage:
        return cls.from_local(inst_data=inst_data, **config_value)


class LocalEventLog(SqliteEventLogStorage):
    """Dagster's sqlite event log, with one transaction a file for a batch of events, where Dagster's own takes two or
    three connections an event. The files stay the same.
    """

    def __init__(self, base_dir: str) -> None:
        self._in_batch: dict[str, Connection] = {}
        self._known: set[str] = set()
        super().__init__(base_dir)
        # Reentrant: a batch holds the lock, and so does the storing of each event in it.
        self._db_lock: Any = threading.RLock()

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            if shard in self._in_batch:
                yield self._in_batch[shard]
            else:
                with super()._connect(shard) as connection:
                    yield connection

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        shards = dict.fromkeys((INDEX_SHARD_NAME, *(event.run_id for event in events)))
        with self._db_lock, ExitStack() as transactions:
            transactions.callback(self._in_batch.clear)
            for shard in shards:
                self._in_batch[shard] = transactions.enter_context(super()._connect(shard))
            for event in events:
                self.store_event(event)

    def has_table(self, table_name: str) -> bool:
        if table_name not in self._known and super().has_table(table_name):
            self._known.add(table_name)
        return table_name in self._known

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        if column_name not in self._known and super()._has_asset_key_col_on_connection(conn, column_name):
            self._known.add(column_name)
        return column_name in self._known


# ------------------------------------------------------------------ processes with shorter waits

BACKFILLS_EVERY_SECONDS = 2
_INTERVAL = "DEFAULT_DAEMON_INTERVAL_SECONDS"
_NAME = "backfill_assets.defs.dagster_internals"
_IMPORTED = ("dagster._grpc.impl", "backfill_assets.defs.location")
"""Without the definitions: no table may be open when a process is forked."""
_CONTEXT, _COMMAND = "multiprocessing", "get_python_environment_entry_point"


def look_at_backfills_often(controller: Any, seconds: float = BACKFILLS_EVERY_SECONDS) -> None:
    """Dagster's interval is 30 s, without a setting; its daemon reads the constant as its loop begins."""
    if hasattr(controller, _INTERVAL):
        setattr(controller, _INTERVAL, seconds)


def start_runs_warm(server: Any) -> None:
    """Make Dagster's ``server`` module fork runs from a process that has imported everything.

    Runs have the code of their server. Without the replaced names they start as in plain Dagster.
    """
    if hasattr(server, _CONTEXT) and hasattr(server, _COMMAND):
        vars(server)[_CONTEXT] = SimpleNamespace(get_context=_warm_context)
        vars(server)[_COMMAND] = lambda python: [python, "-m", _NAME]


def _warm_context(_: str) -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_IMPORTED))
    # It imports in parallel with the server.
    forkserver.ensure_running()
    return context


def begin_at_first_page(app: Any) -> None:
    from starlette.responses import RedirectResponse
    from starlette.routing import Route

    class BeginsAtFirstPage(app.DagsterWebserver):  # type: ignore[misc]
        def build_routes(self) -> list[Any]:
            first = Route("/", lambda _: RedirectResponse(FIRST_PAGE))
            return [first, *super().build_routes()]

    app.DagsterWebserver = BeginsAtFirstPage


def main() -> None:
    if sys.argv[1:2] == ["webserver"]:
        from dagster_webserver import app
        from dagster_webserver import cli as webserver_cli

        del sys.argv[1]
        begin_at_first_page(app)
        serve: Any = webserver_cli.main
        serve()
        return
    if sys.argv[1:2] == ["daemon"]:
        from dagster._daemon import cli as daemon_cli
        from dagster._daemon import controller

        del sys.argv[1]
        look_at_backfills_often(controller)
        daemon_cli.main()
        return
    from dagster import _cli as cli
    from dagster._grpc import server

    start_runs_warm(server)
    sys.argv[0] = "dagster"
    run: Any = cli.main
    run()


if __name__ == "__main__":
    # Skips garbage collection at exit, which takes over two seconds on a busy machine.
    atexit.register(gc.freeze)
    main()
