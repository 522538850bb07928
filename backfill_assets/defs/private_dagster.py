"""What this package uses of Dagster's private modules: they change without notice, so this one module knows them.

Tried with Dagster 1.13.27, the version in ``uv.lock``. After an upgrade, read this list first. `import dagster` loads
all of these modules but ``execution.backfill``; the daemon's modules are loaded on demand.
"""

from __future__ import annotations

from typing import Any

from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph
from dagster._core.definitions.data_version import CODE_VERSION_TAG
from dagster._core.definitions.events import AssetKeyPartitionKey
from dagster._core.definitions.partitions.partitioned_schedule import UnresolvedPartitionedAssetScheduleDefinition
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.definitions.utils import MAX_TITLE_LENGTH
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.events import DagsterEvent
from dagster._core.execution.backfill import (
    BULK_ACTION_TERMINAL_STATUSES,
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
)
from dagster._core.instance.utils import RUNLESS_JOB_NAME
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteInstigatorOrigin
from dagster._core.run_coordinator.queued_run_coordinator import QueuedRunCoordinator
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    ScheduleInstigatorData,
    SensorInstigatorData,
)
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
    SqliteEventLogStorageWatchdog,
)
from dagster._core.storage.sql import create_engine
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    BACKFILL_ID_TAG,
    GRPC_INFO_TAG,
    PARTITION_NAME_TAG,
    PRIORITY_TAG,
    RETRY_NUMBER_TAG,
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
    USER_TAG,
)
from dagster._core.utils import make_new_backfill_id
from sqlalchemy.engine import Connection
from sqlalchemy.pool import NullPool

EVENT_BATCH_SIZE = "DAGSTER_EVENT_BATCH_SIZE"
"""How many events of a step Dagster hands over at once; 0 without it."""

__all__ = [
    "ASSET_PARTITION_RANGE_END_TAG",  # the last day of a run that builds a range of days
    "ASSET_PARTITION_RANGE_START_TAG",  # the first day of such a run
    "BACKFILL_ID_TAG",  # the backfill that a run belongs to
    "BULK_ACTION_TERMINAL_STATUSES",  # the statuses of a backfill that has ended
    "CODE_VERSION_TAG",  # the code version of a materialization that is reported without a run
    "EVENT_BATCH_SIZE",
    "GRPC_INFO_TAG",  # the code server that a run was started by, and its host
    "INDEX_SHARD_NAME",  # the sqlite file with the events of all runs that concern assets and checks
    "MAX_TITLE_LENGTH",  # the most characters of a backfill's title
    "NOT_FINISHED_STATUSES",  # the statuses of a run that has not ended
    "PARTITION_NAME_TAG",  # the day of a run that builds one day
    "PRIORITY_TAG",  # the place of a run in the queue
    "RETRY_NUMBER_TAG",  # set on a run that Dagster retries by itself
    "RUNLESS_JOB_NAME",  # the job name of events that are reported without a run
    "SCHEDULE_NAME_TAG",  # the schedule that launched a run
    "SENSOR_NAME_TAG",  # the sensor that launched a run
    "SQLITE_BUSY_TIMEOUT_SECONDS",  # how long Dagster waits for another process's transaction
    "USER_TAG",  # the person who launched a run
    "AssetCheckEvaluationTargetMaterializationData",  # the materialization that a check's evaluation is about
    "AssetCheckExecutionRecord",  # an execution of a check, and its verdict
    "AssetCheckExecutionRecordStatus",  # how a check of a day came out
    "AssetGraphSubset",  # the tables and days of a backfill
    "AssetKeyPartitionKey",  # a table and a day in such a subset
    "BaseAssetGraph",  # the type of a repository's asset graph
    "BulkActionStatus",  # the status of a backfill
    "BulkActionsFilter",  # the backfills to list
    "CheckRunHealthResult",  # what a run launcher answers Dagster's monitoring daemon
    "Connection",  # of SQLAlchemy, to Dagster's own tables
    "DagsterEvent",  # an event, to report evaluations of checks without a run
    "DagsterSqliteStorage",  # Dagster's own storage on sqlite
    "DefaultRunLauncher",  # Dagster's own run launcher
    "GrpcServerCodeLocationOrigin",  # a code server that can be asked to load its code again
    "InstigatorState",  # whether a schedule or sensor is on, as Dagster keeps it
    "InstigatorStatus",
    "InstigatorType",
    "NullPool",
    "PartitionBackfill",  # a backfill, to launch and to read
    "PartitionKeyFilter",  # the days whose check results to read
    "QueuedRunCoordinator",  # what puts runs into the queue, if the instance has one
    "RemoteInstigatorOrigin",  # the code location that a schedule or sensor belongs to
    "ScheduleInstigatorData",  # what is kept of a schedule that is on
    "SensorInstigatorData",  # what is kept of a sensor that is on
    "SqliteEventLogStorage",  # Dagster's own event log on sqlite
    "SqliteEventLogStorageWatchdog",  # its follower of a run's events
    "UnresolvedAssetJobDefinition",  # the type that `dg.define_asset_job` returns
    "UnresolvedPartitionedAssetScheduleDefinition",  # the type of a schedule of such a job
    "WorkerStatus",  # whether the process of a run is alive
    "code_server_modules",
    "create_engine",  # with the settings that Dagster gives it
    "daemon_modules",
    "make_new_backfill_id",  # the id of a backfill that is launched
]


def daemon_modules() -> tuple[Any, Any]:
    """``cli`` and ``controller`` of ``dagster-daemon``, to run it with a shorter interval. Loads the daemon's code."""
    from dagster._daemon import cli, controller

    return cli, controller


def code_server_modules() -> tuple[Any, Any]:
    """``cli`` and ``server`` of a code server, to start its runs sooner. Loads the server's code."""
    from dagster import _cli as cli
    from dagster._grpc import server

    return cli, server
