"""How days become Dagster partitions, and what a step's reads mean in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

import dagster as dg

from backfill_assets.days import Cadence
from backfill_assets.model.declaration import Step

PARTITION_FORMAT = "%Y-%m-%d"


Partitions = dg.DailyPartitionsDefinition | dg.WeeklyPartitionsDefinition | dg.MonthlyPartitionsDefinition
_THE_CURRENT_ONE = 1
_MONDAY = 1


@dataclass(frozen=True)
class Chain:
    """What all tables of a chain of datasets share, so that one run can carry a range of days through its daily ones.

    Dagster puts a child into its parent's run only if both have the same partitions definition and the same
    backfill policy. ``days_per_run`` is the policy: ``None`` puts a whole range into one run, ``n`` fans it out.
    """

    start: date
    days_per_run: int | None = None
    name: str = ""
    """What the chain leads to; people select its tables by it."""
    partitions: Mapping[Cadence, Partitions] = field(init=False)
    policy: dg.BackfillPolicy = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", {cadence: _partitions(cadence, self.start) for cadence in Cadence})
        object.__setattr__(self, "policy", backfill_policy(self.days_per_run))

    def of(self, step: Step) -> Partitions:
        return self.partitions[step.cadence]


def _partitions(cadence: Cadence, start: date) -> Partitions:
    """The week and the month that are not over yet are partitions too: their reports say that they are incomplete."""
    first = cadence.start(start).isoformat()
    match cadence:
        case Cadence.DAILY:
            return dg.DailyPartitionsDefinition(first, fmt=PARTITION_FORMAT, timezone="UTC")
        case Cadence.WEEKLY:
            return dg.WeeklyPartitionsDefinition(
                first, fmt=PARTITION_FORMAT, timezone="UTC", day_offset=_MONDAY, end_offset=_THE_CURRENT_ONE
            )
        case Cadence.MONTHLY:
            return dg.MonthlyPartitionsDefinition(
                first, fmt=PARTITION_FORMAT, timezone="UTC", end_offset=_THE_CURRENT_ONE
            )


def backfill_policy(days_per_run: int | None) -> dg.BackfillPolicy:
    if days_per_run is None:
        return dg.BackfillPolicy.single_run()
    return dg.BackfillPolicy.multi_run(max_partitions_per_run=days_per_run)


def partition_mapping() -> dg.TimeWindowPartitionMapping:
    """A day belongs to the same day of what it is made of, a week or a month to its days.

    That a step also looks back is not told to Dagster: its dialog would add every later day that looks back to the
    range it is given, also days that nothing has landed for, and need a run of their own for them. The later days
    that a change really reaches are for the sensor ``repairs``. The first week may begin before the first day.
    """
    return dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)
