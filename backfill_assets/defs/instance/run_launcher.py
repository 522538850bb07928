"""The run launcher of ``dagster.yaml``: Dagster's own, which also detects that the process of a run is gone.

A run that is killed cannot report its end. Its code server reports it; but if that was killed too, Dagster would show
the run as started for ever, keep its place in the queue, and never end its backfill. So Dagster's monitoring daemon
asks this launcher every few seconds.
"""

from __future__ import annotations

import json

import dagster as dg

from backfill_assets.defs.private_dagster import GRPC_INFO_TAG, CheckRunHealthResult, DefaultRunLauncher, WorkerStatus
from backfill_assets.spark.service import command_line

_THIS_MACHINE = {"localhost", "127.0.0.1"}
_STARTED = "Started process for run"
_OF_A_RUN = "multiprocessing"
"""Is in the command line of every process that a code server starts for a run."""


class LocalRunLauncher(DefaultRunLauncher):
    """Checks the processes of runs that a code server on this machine has started. Reports all other runs as alive."""

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
