"""Turns declared datasets into a Dagster code location."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from dagster_shared.utils.warnings import disable_dagster_warnings

from backfill_assets.datasets.dataset import Dataset
from backfill_assets.defs.assets import step_assets
from backfill_assets.defs.partition_statuses import partition_status_sensor
from backfill_assets.defs.partitions import DailyChain
from backfill_assets.defs.schedules import daily_job, daily_schedule


def code_location(datasets: Sequence[Dataset], chain: DailyChain, resources: Mapping[str, Any]) -> dg.Definitions:
    """Assets, gates, daily job, schedule and sensor for ``datasets``. ``resources`` must have ``backfill``.

    Steps run one after the other in the run's own process: they share one Spark session, and another process for each
    would cost ten seconds a step.
    """
    tables = [table.name for dataset in datasets for table in dataset.tables]
    job = daily_job(tables)
    return dg.Definitions(
        assets=_assets(datasets, chain),
        jobs=[job],
        schedules=[daily_schedule(job)],
        sensors=[partition_status_sensor(tables, chain)],
        resources=dict(resources),
        executor=dg.in_process_executor,
    )


def _assets(datasets: Sequence[Dataset], chain: DailyChain) -> list[dg.AssetsDefinition]:
    # Partitioned checks are in preview in this Dagster; its version is pinned, and the tests are the guard.
    with disable_dagster_warnings():
        return [step_assets(step, dataset, chain) for dataset in datasets for step in dataset.steps]
