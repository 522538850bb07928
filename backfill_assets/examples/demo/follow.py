"""Follows a native Dagster backfill to its end, and ends it: what the UI's page of it does, for the demo."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from backfill_assets.defs.dagster_internals import (
    BACKFILL_ID_TAG,
    BULK_ACTION_TERMINAL_STATUSES,
    BulkActionStatus,
    PartitionBackfill,
)
from backfill_assets.errors import InvalidRequest

_NEWEST_RECORDS = 20


@dataclass(frozen=True)
class BackfillProgress:
    """Where a backfill stands. ``steps`` maps a step's name to its status in the newest run that reached it."""

    backfill_id: str
    status: str
    runs: Mapping[str, int]
    steps: Mapping[str, str]
    step_seconds: Mapping[str, float]
    message: str = ""
    """The newest message of a run about its days, with the time left."""
    error: str = ""
    failure: str = ""
    """The message of the step that failed, with what to do next."""

    @property
    def ended(self) -> bool:
        return BulkActionStatus(self.status) in BULK_ACTION_TERMINAL_STATUSES

    @property
    def succeeded(self) -> bool:
        return self.status in (BulkActionStatus.COMPLETED_SUCCESS.value, BulkActionStatus.COMPLETED.value)


def watch(
    instance: dg.DagsterInstance,
    backfill_id: str,
    *,
    goes_on: Callable[[], bool] = lambda: True,
    every_seconds: float = 1.0,
) -> Iterator[BackfillProgress]:
    """The backfill's progress whenever it changes. A daemon does the work; ``goes_on`` says whether it still does.

    The last one has ``ended``, unless the daemon has ended before.
    """
    last: BackfillProgress | None = None
    while last is None or (not last.ended and goes_on()):
        now = progress(instance, backfill_id)
        if now != last:
            yield now
        last = now
        if not now.ended:
            time.sleep(every_seconds)


def progress(instance: dg.DagsterInstance, backfill_id: str) -> BackfillProgress:
    """Where the backfill stands now; an unknown id raises :class:`InvalidRequest`."""
    backfill = _existing_backfill(instance, backfill_id)
    runs = instance.get_runs(filters=dg.RunsFilter(tags={BACKFILL_ID_TAG: backfill_id}))
    steps: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for run in reversed(runs):
        for step in instance.get_run_step_stats(run.run_id):
            steps[step.step_key] = step.status.value if step.status else "STARTED"
            if step.start_time and step.end_time:
                seconds[step.step_key] = round(step.end_time - step.start_time, 3)
    return BackfillProgress(
        backfill_id=backfill_id,
        status=backfill.status.value,
        runs=dict(Counter(run.status.value for run in runs)),
        steps=steps,
        step_seconds=seconds,
        message=_newest_message(instance, runs),
        error=backfill.error.message.strip() if backfill.error else "",
        failure=_failure(instance, runs) if "FAILURE" in steps.values() else "",
    )


def cancel_backfill(instance: dg.DagsterInstance, backfill_id: str) -> None:
    """End a backfill whose daemon and runs are dead: no run is shown as running then, and no daemon resumes it.

    While a daemon lives, use :func:`ask_to_cancel`: it stops the runs themselves.
    """
    backfill = _existing_backfill(instance, backfill_id)
    for run in instance.get_runs(filters=dg.RunsFilter(tags={BACKFILL_ID_TAG: backfill_id})):
        if not run.is_finished:
            instance.report_run_canceled(run, message="The process that ran it was stopped.")
    if backfill.status not in BULK_ACTION_TERMINAL_STATUSES:
        ended = backfill._replace(status=BulkActionStatus.CANCELED, backfill_end_timestamp=time.time())
        instance.update_backfill(ended)


def ask_to_cancel(instance: dg.DagsterInstance, backfill_id: str) -> None:
    """Let the daemon that carries out a backfill stop its runs and end it, as the UI's button does."""
    backfill = _existing_backfill(instance, backfill_id)
    if backfill.status not in BULK_ACTION_TERMINAL_STATUSES:
        instance.update_backfill(backfill._replace(status=BulkActionStatus.CANCELING))


def _existing_backfill(instance: dg.DagsterInstance, backfill_id: str) -> PartitionBackfill:
    backfill = instance.get_backfill(backfill_id)
    if backfill is None:
        raise InvalidRequest(f"There is no backfill {backfill_id!r}.", hint="Its page in the UI shows its id.")
    return backfill


def _failure(instance: dg.DagsterInstance, runs: Sequence[dg.DagsterRun]) -> str:
    """The first failure of the newest run: what failed later failed because of it."""
    for run in runs[:1]:
        kind = dg.DagsterEventType.STEP_FAILURE
        for record in instance.get_records_for_run(run.run_id, of_type=kind, limit=1).records:
            event = record.event_log_entry.dagster_event
            failure = event.step_failure_data if event else None
            if failure and failure.user_failure_data and failure.user_failure_data.description:
                return str(failure.user_failure_data.description)
            return failure.error.message.strip() if failure and failure.error else ""
    return ""


def _newest_message(instance: dg.DagsterInstance, runs: Sequence[dg.DagsterRun]) -> str:
    """Runs come newest first; what is not an event is something that a step logged."""
    for run in runs[:1]:
        for record in instance.get_records_for_run(run.run_id, limit=_NEWEST_RECORDS, ascending=False).records:
            entry = record.event_log_entry
            if not entry.is_dagster_event and " days " in entry.user_message:
                return entry.user_message
    return ""
