"""Builds the reference data that facts of a stream look back to, as far as it has landed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date

from backfill_assets.datasets import registry
from backfill_assets.days import TableDay
from backfill_assets.model.declaration import Step
from backfill_assets.rebuild.ingest import ArrivalBuild
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.step_build import StepBuild


@dataclass(frozen=True)
class ReferenceData:
    """The tables besides their own chain that ``steps`` read, such as rates."""

    lake: Lake
    steps: tuple[Step, ...]
    run: RunInfo
    progress: Progress

    def build(self, days: Collection[date]) -> None:
        """Build the reference days that ``days`` look back to, that have landed and were never published.

        Also of today: what lands later today makes its facts stale.
        """
        for table, wanted in self._missing(days).items():
            (step,) = self.lake.with_current([registry.step(table)])
            (raw,) = (registry.step(read.table) for read in step.version().reads[:1])
            landed = self._landed(raw, wanted)
            if raw.source is None or not landed:
                continue
            ArrivalBuild(self.lake, raw, self.run, self.progress).run_days(landed)
            StepBuild(self.lake, step, step.version(), self.run, self.progress).run_days(landed)

    def _missing(self, days: Iterable[date]) -> dict[str, list[date]]:
        own = {name for step in self.steps for name in step.table_names}
        read_of: dict[str, set[date]] = {}
        for step in self.steps:
            for read in step.version().reads[1:]:
                if read.table not in own:
                    periods = (step.cadence.period(day) for day in days)
                    read_of.setdefault(read.table, set()).update(day for period in periods for day in read.days(period))
        states = self.lake.publisher.log.day_states(self.lake.publisher.log.head(), set(read_of))
        return {
            table: [day for day in sorted(found) if TableDay(table, day) not in states]
            for table, found in read_of.items()
        }

    def _landed(self, raw: Step, days: Collection[date]) -> list[date]:
        landing = self.lake.landing
        if raw.source is None or not landing.paths(raw.source.name):
            return []
        found = landing.deliveries(raw.source.name, days)
        return [day for day in days if found[day] == "landed"]
