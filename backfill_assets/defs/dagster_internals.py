"""All that this package uses of Dagster's private modules: they change without notice, so this one module knows them.

Tried with Dagster 1.13.27, the version in ``uv.lock``. ``test_dagster_internals.py`` says for each part what to do when
a later Dagster differs. What each part is worth beside plain Dagster:

- :class:`LocalEventLog`: 90 days of 4 tables take Dagster 2.1 s instead of 10.3 s.
- :func:`report_checks`, and its batches in the event log: a check for each edge costs what one check a table cost.
- :func:`start_runs_warm`: a run begins 2 to 3 s sooner: that is what a new Python spends on imports.
- :func:`look_at_backfills_often`: the end of a backfill is seen after 2 s instead of 30 s.
- :class:`LocalRunLauncher`: a run that was killed with its code server is not shown as started for ever.
- :func:`reload_code`: partitions end where data ends without a click on Reload.

``python -m backfill_assets.defs.dagster_internals code-server start`` and ``... daemon run`` are Dagster's commands
with shorter waits.
"""

from __future__ import annotations

import atexit
import gc
import json
import multiprocessing
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import dagster as dg

# Types that Dagster's public functions take or give, and has under private names only.
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph
from dagster._core.definitions.data_version import CODE_VERSION_TAG
from dagster._core.definitions.events import AssetKeyPartitionKey
from dagster._core.definitions.utils import MAX_TITLE_LENGTH
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.events import DagsterEvent, DagsterEventBatchMetadata
from dagster._core.execution.backfill import (
    BULK_ACTION_TERMINAL_STATUSES,
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
)
from dagster._core.instance.utils import RUNLESS_JOB_NAME
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
    SqliteEventLogStorageWatchdog,
)
from dagster._core.storage.sql import create_engine
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
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
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
    USER_TAG,
)
from dagster._core.utils import make_new_backfill_id
from sqlalchemy import bindparam, func, select
from sqlalchemy.engine import Connection
from sqlalchemy.pool import NullPool

from backfill_assets.spark.service import command_line

Target = AssetCheckEvaluationTargetMaterializationData
"""The materialization that the evaluation of a check is about."""
CheckStatus = AssetCheckExecutionRecordStatus

# ------------------------------------------------------------------ checks of days


def report_checks(
    instance: dg.DagsterInstance, run_id: str, evaluations: Iterable[dg.AssetCheckEvaluation], step: str | None = None
) -> int:
    """Store ``evaluations`` for a run, in one batch; returns how many. Yielded by a step, each is a write of its own.

    Dagster keeps one evaluation of a check for each partition and run, and "no run" counts as a run: ``run_id`` may be
    made up for what no run has published.
    """
    found, batch = list(evaluations), str(uuid4())
    for number, evaluation in enumerate(found, start=1):
        verdict = "passed" if evaluation.passed else "did not pass"
        event = DagsterEvent(
            event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION.value,
            event_specific_data=evaluation,
            job_name=RUNLESS_JOB_NAME,
            step_key=step,
            message=f"Asset check '{evaluation.check_name}' on '{evaluation.asset_key.to_user_string()}' {verdict}.",
        )
        is_end = number == len(found)
        instance.report_dagster_event(event, run_id, batch_metadata=DagsterEventBatchMetadata(batch, is_end))
    return len(found)


def newest_materializations(
    instance: dg.DagsterInstance, table: str, days: Collection[str]
) -> dict[str, dg.EventLogRecord]:
    """The newest materialization of each of ``days`` that has one."""
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
    """The newest materialization of each of ``days``, for evaluations of checks to point at."""
    return {
        day: Target(storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp)
        for day, record in newest_materializations(instance, table, days).items()
    }


@dataclass(frozen=True)
class ShownCheck:
    """How Dagster shows a check of a day: the status of its newest attempt, and the run that planned it."""

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


def newest_evaluations(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, limit: int = 1, day: str | None = None
) -> list[dg.AssetCheckEvaluation]:
    """What was said of a check, newest first; of one ``day`` if it is given."""
    records = instance.event_log_storage.get_asset_check_execution_history(
        key,
        limit,
        status={CheckStatus.FAILED, CheckStatus.SUCCEEDED},
        partition_filter=None if day is None else PartitionKeyFilter(key=day),
    )
    events = (record.event.dagster_event for record in records if record.event)
    return [event.asset_check_evaluation_data for event in events if event]


# ------------------------------------------------------------------ code locations and what is on


def reload_code(origin: object, timeout_seconds: int, after_seconds: float) -> bool:
    """Ask the code server to load its code again, when this tick is over: it ends the process that this runs in.

    Runs go on. False for a server that can only be asked by the UI.
    """
    if not isinstance(origin, GrpcServerCodeLocationOrigin):
        return False
    client = origin.create_client()

    def ask() -> None:
        # A server without this call stays as it is, and the next tick says what to do.
        with suppress(Exception):
            client.reload_code(timeout_seconds)

    timer = threading.Timer(after_seconds, ask)
    timer.daemon = True
    timer.start()
    return True


def is_on(instance: dg.DagsterInstance, name: str) -> bool:
    """Whether a schedule or sensor that is off from the start was turned on. An instance for a test keeps nothing."""
    states = instance.all_instigator_state() if instance.schedule_storage else []
    return any(state.is_running for state in states if state.instigator_name == name)


# ------------------------------------------------------------------ the run launcher of dagster.yaml

_THIS_MACHINE = {"localhost", "127.0.0.1"}
_STARTED = "Started process for run"
_OF_A_RUN = "multiprocessing"
"""Is in the command line of every process that a code server starts for a run."""


class LocalRunLauncher(DefaultRunLauncher):
    """Dagster's own run launcher, which also detects that the process of a run is gone.

    A run that is killed cannot report its end. Its code server reports it; but if that was killed too, Dagster would
    show the run as started for ever, keep its place in the queue, and never retry it. Dagster's monitoring daemon asks
    this launcher, which checks the processes of code servers on this machine and reports all other runs as alive.
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
        """The run's process id; None if it recorded none, as in a command, or if its server is on another machine."""
        if json.loads(run.tags.get(GRPC_INFO_TAG, "{}")).get("host") not in _THIS_MACHINE:
            return None
        events = self._instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT).records
        logged = (each.event_log_entry.dagster_event for each in events)
        started = [each for each in logged if each is not None and (each.message or "").startswith(_STARTED)]
        return int(str(started[-1].engine_event_data.metadata["pid"].value)) if started else None


# ------------------------------------------------------------------ the event log of dagster.yaml

EVENT_BATCH_SIZE = "DAGSTER_EVENT_BATCH_SIZE"
_BATCH = "1000"
_MOST_KEPT = 16
"""A web server reads the files of many runs."""


def batch_events() -> None:
    """Let Dagster hand over the events of a step in batches, unless the environment says how many."""
    os.environ.setdefault(EVENT_BATCH_SIZE, _BATCH)


class LocalStorage(DagsterSqliteStorage):
    """Dagster's storage on sqlite with this event log: named in ``dagster.yaml``, with the same folder as before."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = LocalEventLog(self._event_log_storage._base_dir)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> LocalStorage:
        return cls.from_local(inst_data=inst_data, **config_value)


@dataclass(frozen=True)
class _Kept:
    """A connection, the process that opened it, and the file that it was opened on."""

    connection: Connection
    process: int
    file: tuple[int, int]


class LocalEventLog(SqliteEventLogStorage):
    """Dagster's event log on sqlite, with one kept connection for each of its files; threads take turns.

    Dagster's own opens, commits and closes two or three connections for each event. This one stores a batch of events
    in one transaction for each file. What is stored, and where, is the same: either reads what the other has written.
    """

    def __init__(self, base_dir: str) -> None:
        self._turn = threading.RLock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._in_transaction: dict[str, Connection] = {}
        self._known_columns: set[str] = set()
        self._known_tables: set[str] = set()
        super().__init__(base_dir)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._turn:
            if shard in self._in_transaction:
                yield self._in_transaction[shard]
                return
            connection = self._connection(shard)
            with connection.begin():
                self._in_transaction[shard] = connection
                try:
                    yield connection
                finally:
                    del self._in_transaction[shard]

    def _connection(self, shard: str) -> Connection:
        kept = self._kept.get(shard)
        if kept is None or (kept.process, kept.file) != (os.getpid(), self._file(shard)):
            self._forget(shard)
            kept = self._kept[shard] = self._open(shard)
        self._kept.move_to_end(shard)
        for oldest in [name for name in self._kept if name != INDEX_SHARD_NAME][:-_MOST_KEPT]:
            self._forget(oldest)
        return kept.connection

    def _open(self, shard: str) -> _Kept:
        engine = create_engine(
            self.conn_string_for_shard(shard),
            poolclass=NullPool,
            connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
        )
        if shard not in self._initialized_dbs or self._file(shard) is None:
            self._initdb(engine)
            self._initialized_dbs.add(shard)
        connection = engine.connect()
        # Dagster writes in WAL mode: a killed process loses nothing, only a machine without power its last commits.
        sqlite: Any = connection.connection.dbapi_connection
        sqlite.execute("PRAGMA synchronous=NORMAL")
        return _Kept(connection, os.getpid(), self._file(shard) or (0, 0))

    def _file(self, shard: str) -> tuple[int, int] | None:
        """Which file the shard is: another one after it was deleted, as wiping a run does."""
        try:
            found = Path(self.path_for_shard(shard)).stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _forget(self, shard: str) -> None:
        kept = self._kept.pop(shard, None)
        # A forked process leaves the connection of its parent alone.
        if kept is not None and kept.process == os.getpid():
            kept.connection.close()

    def _forget_all(self) -> None:
        with self._turn:
            for shard in list(self._kept):
                self._forget(shard)

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Store ``events`` in one transaction for each file: that of their run, and the index over all runs."""
        shards = dict.fromkeys((INDEX_SHARD_NAME, *(event.run_id for event in events)))
        with self._turn, ExitStack() as stack:
            for shard in shards:
                stack.enter_context(self._connect(shard))
            if len({event.run_id for event in events}) == 1 and all(map(_is_check_of_a_day, events)):
                self._store_checks(events[0].run_id, events)
                return
            for event in events:
                self.store_event(event)

    def _store_checks(self, run_id: str, events: Sequence[dg.EventLogEntry]) -> None:
        """Evaluations of checks by one run, with one statement for each table in place of four for each event."""
        rows = [self._event_to_row(event) for event in events]
        with self.run_connection(run_id) as connection:
            connection.execute(SqlEventLogStorageTable.insert(), rows)
        with self.index_connection() as connection:
            connection.execute(SqlEventLogStorageTable.insert(), rows)
            last = connection.execute(select(func.max(SqlEventLogStorageTable.c.id))).scalar_one()
            first = last - len(rows) + 1
            found = [_execution(event, row, first + n) for n, (event, row) in enumerate(zip(events, rows, strict=True))]
            planned = self._planned_checks(connection, run_id)
            if known := [each for each in found if _which(each) in planned]:
                connection.execute(_UPDATE_PLANNED, [{f"the_{k}": v for k, v in each.items()} for each in known])
            if others := [each for each in found if _which(each) not in planned]:
                connection.execute(AssetCheckExecutionsTable.insert(), others)

    def _planned_checks(self, connection: Connection, run_id: str) -> set[tuple[Any, ...]]:
        columns = AssetCheckExecutionsTable.c
        chosen = select(columns.asset_key, columns.check_name, columns.partition).where(columns.run_id == run_id)
        return {tuple(row) for row in connection.execute(chosen)}

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        if column_name not in self._known_columns and super()._has_asset_key_col_on_connection(conn, column_name):
            self._known_columns.add(column_name)
        return column_name in self._known_columns

    def has_table(self, table_name: str) -> bool:
        if table_name not in self._known_tables and super().has_table(table_name):
            self._known_tables.add(table_name)
        return table_name in self._known_tables

    def wipe(self) -> None:
        self._forget_all()
        super().wipe()

    def upgrade(self) -> None:
        self._known_columns.clear()
        self._known_tables.clear()
        super().upgrade()

    def dispose(self) -> None:
        self._forget_all()
        super().dispose()

    def watch(self, run_id: str, cursor: str | None, callback: Any) -> None:
        """Call ``callback`` for new events of a run: they are in its write-ahead log before they are in its file."""
        super().watch(run_id, cursor, callback)
        observer: Any = self._obs
        observer.remove_handler_for_watch(*self._watchers[run_id][callback])
        follower = _WriteAheadWatchdog(self, run_id, callback, cursor)
        self._watchers[run_id][callback] = (follower, observer.schedule(follower, self._base_dir, recursive=True))


class _WriteAheadWatchdog(SqliteEventLogStorageWatchdog):
    def __init__(self, log: LocalEventLog, run_id: str, callback: Any, cursor: str | None) -> None:
        super().__init__(log, run_id, callback, cursor)
        self._patterns = [self._log_path, f"{self._log_path}-wal"]

    def on_modified(self, event: Any) -> None:
        self._process_log()


_IDENTITY = ("asset_key", "check_name", "partition")
_SAID = (
    "execution_status",
    "evaluation_event",
    "evaluation_event_timestamp",
    "evaluation_event_storage_id",
    "materialization_event_storage_id",
)
_UPDATE_PLANNED = (
    AssetCheckExecutionsTable.update()
    .where(*(AssetCheckExecutionsTable.c[name] == bindparam(f"the_{name}") for name in (*_IDENTITY, "run_id")))
    .values({name: bindparam(f"the_{name}") for name in _SAID})
)


def _is_check_of_a_day(event: dg.EventLogEntry) -> bool:
    is_check = event.dagster_event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
    return (
        is_check and bool(event.run_id) and event.get_dagster_event().asset_check_evaluation_data.partition is not None
    )


def _execution(event: dg.EventLogEntry, row: Mapping[str, Any], storage_id: int) -> dict[str, Any]:
    """What Dagster's table of executed checks keeps of an evaluation."""
    evaluation: dg.AssetCheckEvaluation = event.get_dagster_event().asset_check_evaluation_data
    target = evaluation.target_materialization_data
    status = CheckStatus.SUCCEEDED if evaluation.passed else CheckStatus.FAILED
    return {
        "asset_key": evaluation.asset_key.to_string(),
        "check_name": evaluation.check_name,
        "partition": evaluation.partition,
        "run_id": event.run_id,
        "execution_status": status.value,
        "evaluation_event": row["event"],
        "evaluation_event_timestamp": row["timestamp"],
        "evaluation_event_storage_id": storage_id,
        "materialization_event_storage_id": target.storage_id if target else None,
    }


def _which(execution: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(execution[name] for name in _IDENTITY)


# ------------------------------------------------------------------ processes with shorter waits

BACKFILLS_EVERY_SECONDS = 2
_INTERVAL = "DEFAULT_DAEMON_INTERVAL_SECONDS"
_NAME = "backfill_assets.defs.dagster_internals"
_IMPORTED = ("dagster._grpc.impl", "backfill_assets.defs.location")
"""Not the definitions: what opens tables may not be open when a process is forked."""
_CONTEXT, _COMMAND = "multiprocessing", "get_python_environment_entry_point"


def look_at_backfills_often(controller: Any, seconds: float = BACKFILLS_EVERY_SECONDS) -> None:
    """Set the constant that the backfill daemon reads when its loop begins: 30 seconds in plain Dagster, which a
    person waits for at the end of each backfill. Without it, Dagster's interval stays.
    """
    if hasattr(controller, _INTERVAL):
        setattr(controller, _INTERVAL, seconds)


def start_runs_warm(server: Any) -> None:
    """Let ``server``, Dagster's module, fork its runs from a process that has imported everything.

    Plain Dagster starts a new Python for each run, which spends two to three seconds on imports. Runs have the code of
    the server that starts them, also of the process that a reload starts. Without the names that are replaced here,
    runs start as Dagster starts them.
    """
    if hasattr(server, _CONTEXT) and hasattr(server, _COMMAND):
        vars(server)[_CONTEXT] = SimpleNamespace(get_context=_warm_context)
        vars(server)[_COMMAND] = lambda python: [python, "-m", _NAME]


def _warm_context(_: str) -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_IMPORTED))
    # Its imports go on while the server has its own.
    forkserver.ensure_running()
    return context


def main() -> None:
    """``daemon`` and its arguments, or those of ``dagster`` for a code server."""
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
    # Python would look for garbage among everything that was ever imported: two seconds and more of a busy machine.
    atexit.register(gc.freeze)
    main()
