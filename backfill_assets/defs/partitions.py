"""How days become Dagster partitions, and what a step's reads mean in them."""

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
    """What all tables of a chain of datasets share, so that one run can carry a range of days through its daily ones.

    Dagster puts a child into its parent's run only if both have the same partitions definition and the same
    backfill policy. ``days_per_run`` is the policy: ``None`` puts a whole range into one run, ``n`` fans it out.
    """

    start: date
    """The first day that results can be made of. What is looked back to has earlier days, which have no partition."""
    days_per_run: int | None = None
    name: str = ""
    """What the chain leads to; people select its tables by it."""
    last: date | None = None
    """The last day, if the data of the chain has ended; None if its days go on until yesterday."""

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
    """All tables of a code location, as they are declared, and their partitions."""

    catalog: Catalog
    data: Mapping[str, DataDays] | None = None
    """By dataset, where data begins and has ended: so do its partitions. None: nobody looks."""
    days_per_run: int | None = None

    @cached_property
    def chain_of(self) -> Mapping[str, Chain]:
        """By dataset. A chain is named for what it leads to: the dataset that reads the others."""
        found: dict[str, Chain] = {}
        for each, leads_to in ((each, chain[-1].name) for chain in self.catalog.chains for each in chain):
            first, last = (self.data or {}).get(each.name, DataDays())
            found[each.name] = Chain(first or each.first_day, self.days_per_run, leads_to, last)
        return found

    @cached_property
    def by_table(self) -> Mapping[str, Partitions]:
        """Of the tables that are built here: those of others are assets of others."""
        return {
            name: self.chain_of[dataset.name].of(step)
            for dataset in self.catalog.datasets
            for step in dataset.steps
            for name in step.table_names
            if not step.external
        }

    def has(self, table: str, day: date) -> bool:
        """Whether a day of a table that is built here has a partition."""
        return table in self.by_table and self.by_table[table].has_partition_key(day.isoformat())

    def builds(self, table: str, day: date) -> bool:
        """Whether runs build a day of a table: it has a partition, or one of the first partitions looks back to it."""
        return self.has(table, day) or day in self._earlier.get(table, ())

    def without_partition(self, days: Mapping[str, Iterable[date]]) -> dict[str, set[date]]:
        """Those of ``days`` that are earlier than the first partition of their table, by table."""
        first = {table: parse_day(str(self.by_table[table].start.date())) for table in days}
        earlier = {table: {day for day in of_table if day < first[table]} for table, of_table in days.items()}
        return {table: found for table, found in earlier.items() if found}

    @cached_property
    def _earlier(self) -> Mapping[str, DayRange]:
        """By table, the days before the first partition that are looked back to."""
        found: dict[str, DayRange] = {}
        for chain in self.catalog.chains:
            begins, start = chain[0].first_day, self.chain_of[chain[0].name].start
            steps = [step for step in self.catalog.steps if any(step in each.steps for each in chain)]
            for table, first in earliest_looked_back_to(steps, start).items():
                if (earliest := max(first, begins)) < start:
                    found[table] = DayRange(earliest, start - timedelta(days=1))
        return found


def _partitions(cadence: Cadence, start: date, last: date | None) -> Partitions:
    """The week and the month that are not over yet are partitions too: their reports say that they are incomplete.

    Data that has ended has a last week and a last month, which are over.
    """
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
    """A day depends on the same day of its inputs, a week or a month on its days.

    The mapping has no look back: with it, Dagster's dialog would add every later day that looks back to the chosen
    range, also days for which nothing has landed, and would need another run for them. The sensor ``repairs`` builds
    the later days that a change really reaches. The first week may begin before the first day.
    """
    return dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)
