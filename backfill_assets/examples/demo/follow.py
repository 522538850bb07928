"""Where a native Dagster backfill stands, and how it is ended: what the UI's page of it does, for the demo."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
    steps: Mapping[str, str]
    step_seconds: Mapping[str, float]
    """Of each step that has begun, up to now while it runs."""
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


def progress(instance: dg.DagsterInstance, backfill_id: str) -> BackfillProgress:
    """Where the backfill stands now; an unknown id raises :class:`InvalidRequest`."""
    backfill = _existing_backfill(instance, backfill_id)
    runs = _runs(instance, backfill_id)
    steps: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for run in reversed(runs):
        for step in instance.get_run_step_stats(run.run_id):
            steps[step.step_key] = step.status.value if step.status else "STARTED"
            if step.start_time:
                seconds[step.step_key] = round((step.end_time or time.time()) - step.start_time, 3)
    newest = runs[0].run_id if runs else ""
    return BackfillProgress(
        backfill_id=backfill_id,
        status=backfill.status.value,
        steps=steps,
        step_seconds=seconds,
        message=_newest_message(instance, newest) if newest else "",
        error=backfill.error.message.strip() if backfill.error else "",
        failure=_failure(instance, newest) if "FAILURE" in steps.values() else "",
    )


def cancel_backfill(instance: dg.DagsterInstance, backfill_id: str, *, daemon_lives: bool = False) -> None:
    """End a backfill. A daemon that lives stops its runs itself, as after a click on the UI's button.

    Otherwise they are dead: none is shown as running after this, and no other daemon resumes it.
    """
    backfill = _existing_backfill(instance, backfill_id)
    ended = backfill._replace(status=BulkActionStatus.CANCELING)
    if not daemon_lives:
        ended = backfill._replace(status=BulkActionStatus.CANCELED, backfill_end_timestamp=time.time())
        for run in _runs(instance, backfill_id):
            if not run.is_finished:
                instance.report_run_canceled(run, message="The process that ran it was stopped.")
    if backfill.status not in BULK_ACTION_TERMINAL_STATUSES:
        instance.update_backfill(ended)


def _existing_backfill(instance: dg.DagsterInstance, backfill_id: str) -> PartitionBackfill:
    backfill = instance.get_backfill(backfill_id)
    if backfill is None:
        raise InvalidRequest(f"There is no backfill {backfill_id!r}.", hint="Its page in the UI shows its id.")
    return backfill


def _runs(instance: dg.DagsterInstance, backfill_id: str) -> Sequence[dg.DagsterRun]:
    """The newest first."""
    return instance.get_runs(filters=dg.RunsFilter(tags={BACKFILL_ID_TAG: backfill_id}))


def _failure(instance: dg.DagsterInstance, run_id: str) -> str:
    """The first failure of a run: what failed later failed because of it."""
    failed = dg.DagsterEventType.STEP_FAILURE
    for record in instance.get_records_for_run(run_id, of_type=failed, limit=1).records:
        event = record.event_log_entry.dagster_event
        failure = event.step_failure_data if event else None
        if failure and failure.user_failure_data and failure.user_failure_data.description:
            return str(failure.user_failure_data.description)
        return failure.error.message.strip() if failure and failure.error else ""
    return ""


def _newest_message(instance: dg.DagsterInstance, run_id: str) -> str:
    """What is not an event is something that a step logged."""
    for record in instance.get_records_for_run(run_id, limit=_NEWEST_RECORDS, ascending=False).records:
        entry = record.event_log_entry
        if not entry.is_dagster_event and " days " in entry.user_message:
            return entry.user_message
    return ""
