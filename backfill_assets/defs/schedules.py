"""The daily job over every daily table of a chain, and when it runs."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from backfill_assets.defs.assets import VERIFY_TAG, VERSION_TAG
from backfill_assets.defs.dagster_internals import (
    PRIORITY_TAG,
    UnresolvedAssetJobDefinition,
    UnresolvedPartitionedAssetScheduleDefinition,
)
from backfill_assets.rebuild.decide import AS_PUBLISHED

_HOUR_UTC = 2
_BEFORE_ANY_BACKFILL = "10"


def daily_job(chain: str, tables: Sequence[str]) -> UnresolvedAssetJobDefinition:
    """One day through all daily steps in one process, on one Spark session; ``chain`` names the job."""
    return dg.define_asset_job(
        f"daily_{chain}",
        selection=dg.AssetSelection.assets(*tables),
        description=f"Ingests what arrived on a day and brings it through to the daily tables of {chain}. A day that a "
        "stream has extended is built whole, and published if it differs. A day that is published keeps the version of "
        "the logic that it was published with; a new day gets the current one.",
        executor_def=dg.in_process_executor,
        tags={PRIORITY_TAG: _BEFORE_ANY_BACKFILL, VERIFY_TAG: "extended days", VERSION_TAG: AS_PUBLISHED},
    )


def schedule_name(chain: str) -> str:
    """The schedule of a chain's daily job."""
    return f"every_day_{chain}"


def daily_schedule(
    chain: str,
    job: UnresolvedAssetJobDefinition,
) -> UnresolvedPartitionedAssetScheduleDefinition | dg.ScheduleDefinition:
    """Yesterday, every day at two o'clock UTC, once its arrivals are complete.

    It is off until a person turns it on: cloning this repository must not start work by itself.
    """
    return dg.build_schedule_from_partitioned_job(
        job,
        name=schedule_name(chain),
        description="Builds the day that has just ended (UTC). Off until you turn it on.",
        hour_of_day=_HOUR_UTC,
        default_status=dg.DefaultScheduleStatus.STOPPED,
    )
