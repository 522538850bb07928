"""How days become Dagster partitions, and what a step's reads mean in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

import dagster as dg

from backfill_assets.datasets.dataset import Reads

PARTITION_FORMAT = "%Y-%m-%d"


@dataclass(frozen=True)
class DailyChain:
    """What all daily tables share, so that one run can carry a range through all of them.

    Dagster puts a child into its parent's run only if both have the same partitions definition and the same
    backfill policy. ``days_per_run`` is the policy: ``None`` puts a whole range into one run, ``n`` fans it out.
    """

    start: date
    days_per_run: int | None = None
    partitions: dg.DailyPartitionsDefinition = field(init=False)
    policy: dg.BackfillPolicy = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", daily_partitions(self.start))
        object.__setattr__(self, "policy", backfill_policy(self.days_per_run))


def daily_partitions(start: date) -> dg.DailyPartitionsDefinition:
    return dg.DailyPartitionsDefinition(start_date=start.isoformat(), fmt=PARTITION_FORMAT, timezone="UTC")


def backfill_policy(days_per_run: int | None) -> dg.BackfillPolicy:
    if days_per_run is None:
        return dg.BackfillPolicy.single_run()
    return dg.BackfillPolicy.multi_run(max_partitions_per_run=days_per_run)


def partition_mapping(reads: Reads) -> dg.TimeWindowPartitionMapping:
    """The partitions of the table read that one day depends on.

    The days before the first partition do not exist for Dagster; whether their data is there is for the gates to say.
    """
    return dg.TimeWindowPartitionMapping(
        start_offset=reads.first, end_offset=reads.last, allow_nonexistent_upstream_partitions=True
    )
