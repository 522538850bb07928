"""The daily job over every daily table of a chain, and when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.storage.tags import PRIORITY_TAG

if TYPE_CHECKING:
    from dagster._core.definitions.partitions.partitioned_schedule import UnresolvedPartitionedAssetScheduleDefinition
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

_HOUR_UTC = 2
_BEFORE_ANY_BACKFILL = "10"


def daily_job(chain: str, tables: Sequence[str]) -> UnresolvedAssetJobDefinition:
    """One day through all daily steps in one process, on one Spark session; ``chain`` names the job."""
    return dg.define_asset_job(
        f"daily_{chain}",
        selection=dg.AssetSelection.assets(*tables),
        description=f"Ingests what arrived on a day and brings it through to the daily tables of {chain}.",
        executor_def=dg.in_process_executor,
        tags={PRIORITY_TAG: _BEFORE_ANY_BACKFILL},
    )


def daily_schedule(
    chain: str,
    job: UnresolvedAssetJobDefinition,
) -> UnresolvedPartitionedAssetScheduleDefinition | dg.ScheduleDefinition:
    """Yesterday, every day at two o'clock UTC, once its arrivals are complete.

    It is off until a person turns it on: cloning this repository must not start work by itself.
    """
    return dg.build_schedule_from_partitioned_job(
        job,
        name=f"every_day_{chain}",
        description="Builds the day that has just ended (UTC). Off until you turn it on.",
        hour_of_day=_HOUR_UTC,
        default_status=dg.DefaultScheduleStatus.STOPPED,
    )
