"""The daily job over every daily table, and when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from dagster._core.definitions.partitions.partitioned_schedule import UnresolvedPartitionedAssetScheduleDefinition
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

DAILY_JOB = "daily"
_HOUR_UTC = 2


def daily_job(tables: Sequence[str]) -> UnresolvedAssetJobDefinition:
    """One day through all steps in one process, on one Spark session."""
    return dg.define_asset_job(
        DAILY_JOB,
        selection=dg.AssetSelection.assets(*tables),
        description="Ingests what arrived on a day and brings it through to the reports.",
        executor_def=dg.in_process_executor,
    )


def daily_schedule(
    job: UnresolvedAssetJobDefinition,
) -> UnresolvedPartitionedAssetScheduleDefinition | dg.ScheduleDefinition:
    """Yesterday, every day at two o'clock UTC, once its arrivals are complete.

    It is off until a person turns it on: cloning this repository must not start work by itself.
    """
    return dg.build_schedule_from_partitioned_job(
        job,
        name="every_day",
        description="Builds the day that has just ended (UTC). Off until you turn it on.",
        hour_of_day=_HOUR_UTC,
        default_status=dg.DefaultScheduleStatus.STOPPED,
    )
