"""Days as Dagster partitions, and what reads mean in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

import dagster as dg

from backfill_assets.days import Cadence, DayRange, parse_day
from backfill_assets.landing.data_days import DataDays
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import earliest_looked_back_to

Partitions = dg.DailyPartitionsDefinition | dg.WeeklyPartitionsDefinition | dg.MonthlyPartitionsDefinition
_THE_CURRENT_ONE = 1
_MONDAY = 1


@dataclass(frozen=True)
class Chain:
    """What a chain's tables share. Dagster carries a range through them in one run only with one partitions definition
    and one backfill policy: ``days_per_run``, None for the whole range.
    """

    start: date
    days_per_run: int | None = None
    name: str = ""
    last: date | None = None

    @cached_property
    def partitions(self) -> Mapping[Cadence, Partitions]:
        return {cadence: _partitions(cadence, self.start, self.last) for cadence in Cadence}

    @property
    def policy(self) -> dg.BackfillPolicy:
        days = self.days_per_run
        return dg.BackfillPolicy.multi_run(days) if days else dg.BackfillPolicy.single_run()

    def of(self, step: Step) -> Partitions:
        return self.partitions[step.cadence]


@dataclass(frozen=True, eq=False)
class PartitionedTables:
    catalog: Catalog
    data: Mapping[str, DataDays] | None = None
    days_per_run: int | None = None

    @cached_property
    def chain_of(self) -> Mapping[str, Chain]:
        found: dict[str, Chain] = {}
        for each, leads_to in ((each, chain[-1].name) for chain in self.catalog.chains for each in chain):
            first, last = (self.data or {}).get(each.name, DataDays())
            found[each.name] = Chain(first or each.first_day, self.days_per_run, leads_to, last)
        return found

    @cached_property
    def by_table(self) -> Mapping[str, Partitions]:
        return {
            name: self.chain_of[dataset.name].of(step)
            for dataset in self.catalog.datasets
            for step in dataset.steps
            for name in step.table_names
            if not step.external
        }

    def has(self, table: str, day: date) -> bool:
        return table in self.by_table and self.by_table[table].has_partition_key(day.isoformat())

    def builds(self, table: str, day: date) -> bool:
        return self.has(table, day) or day in self._earlier.get(table, ())

    def without_partition(self, days: Mapping[str, Iterable[date]]) -> dict[str, set[date]]:
        first = {table: parse_day(str(self.by_table[table].start.date())) for table in days}
        earlier = {table: {day for day in of_table if day < first[table]} for table, of_table in days.items()}
        return {table: found for table, found in earlier.items() if found}

    @cached_property
    def _earlier(self) -> Mapping[str, DayRange]:
        found: dict[str, DayRange] = {}
        for chain in self.catalog.chains:
            begins, start = chain[0].first_day, self.chain_of[chain[0].name].start
            steps = [step for step in self.catalog.steps if any(step in each.steps for each in chain)]
            for table, first in earliest_looked_back_to(steps, start).items():
                if (earliest := max(first, begins)) < start:
                    found[table] = DayRange(earliest, start - timedelta(days=1))
        return found


def _partitions(cadence: Cadence, start: date, last: date | None) -> Partitions:
    """Includes the current week and month: their reports say that they are incomplete."""
    first = cadence.start(start).isoformat()
    end = None if last is None else (cadence.period(last).last + timedelta(days=1)).isoformat()
    offset = _THE_CURRENT_ONE if last is None else 0
    match cadence:
        case Cadence.DAILY:
            return dg.DailyPartitionsDefinition(first, end_date=end, timezone="UTC")
        case Cadence.WEEKLY:
            return dg.WeeklyPartitionsDefinition(
                first, end_date=end, timezone="UTC", day_offset=_MONDAY, end_offset=offset
            )
        case Cadence.MONTHLY:
            return dg.MonthlyPartitionsDefinition(first, end_date=end, timezone="UTC", end_offset=offset)


def partition_mapping() -> dg.TimeWindowPartitionMapping:
    """A week or month depends on its days; the first week may begin before the first day.

    Without look back: Dagster's dialog would add every later day in reach, where the sensor ``repairs`` builds those
    that change.
    """
    return dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)
