"""Launches a run from within another one of the same code location: at once, where a sensor would take its time."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import dagster as dg

from backfill_assets.defs.private_dagster import QueuedRunCoordinator


def prepare_run(
    instance: dg.DagsterInstance,
    launcher: dg.DagsterRun,
    job: dg.JobDefinition,
    assets: Collection[dg.AssetKey],
    tags: Mapping[str, str],
) -> str | None:
    """Create a run of ``job``, of ``assets`` only; returns its id. It waits until :func:`queue_run`.

    None if ``launcher`` was not started by a code server, or if the instance has no queue: then a sensor has to do it.
    """
    origin, code = launcher.remote_job_origin, launcher.job_code_origin
    if origin is None or code is None or not isinstance(instance.run_coordinator, QueuedRunCoordinator):
        return None
    created = instance.create_run_for_job(
        job,
        status=dg.DagsterRunStatus.NOT_STARTED,
        tags={**job.run_tags, **tags},
        asset_selection=frozenset(assets),
        remote_job_origin=origin._replace(job_name=job.name),
        job_code_origin=code._replace(job_name=job.name),
    )
    return created.run_id


def queue_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Put a prepared run into the queue. Queueing needs no workspace: the daemon that starts the run has one."""
    instance.submit_run(run_id, workspace=None)  # type: ignore[arg-type]
