"""What is turned on in Dagster: read for the page of a stream, and turned on once when a new dataset goes live."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg

from backfill_assets.defs.private_dagster import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    RemoteInstigatorOrigin,
    ScheduleInstigatorData,
    SensorInstigatorData,
)


def is_on(instance: dg.DagsterInstance, name: str) -> bool:
    """Whether a schedule or sensor that is off from the start was turned on."""
    return any(state.is_running for state in _states(instance, name))


def turn_on_once(instance: dg.DagsterInstance, run: dg.DagsterRun, name: str, cron: str | None = None) -> bool:
    """Turn on a sensor, or a schedule with its ``cron``, of the code location of ``run``.

    False if a person has turned it on or off before: that counts. Also False without a code location.
    """
    if run.remote_job_origin is None or instance.schedule_storage is None or _states(instance, name):
        return False
    origin = RemoteInstigatorOrigin(run.remote_job_origin.repository_origin, name)
    now = datetime.now(UTC).timestamp()
    kind = InstigatorType.SCHEDULE if cron else InstigatorType.SENSOR
    data = ScheduleInstigatorData(cron, now) if cron else SensorInstigatorData(last_sensor_start_timestamp=now)
    instance.add_instigator_state(InstigatorState(origin, kind, InstigatorStatus.RUNNING, data))
    return True


def _states(instance: dg.DagsterInstance, name: str) -> list[InstigatorState]:
    """What was turned on or off, by a person or from here. An instance for a test or one command keeps nothing."""
    if instance.schedule_storage is None:
        return []
    return [state for state in instance.all_instigator_state() if state.instigator_name == name]
