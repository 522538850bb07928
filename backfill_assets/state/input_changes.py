"""What came to a day's inputs since it was built, and so why it is stale. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from backfill_assets.days import TableDay
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.deletion import DELETED
from backfill_assets.model.graph import Filled, made_of
from backfill_assets.state.diagnosis import Cause, Signs, cause_of
from backfill_assets.state.observed import LogView


@dataclass(frozen=True)
class InputChanges:
    steps: Sequence[Step]
    observed: LogView

    @cached_property
    def filled(self) -> Filled:
        return self.observed.filled(self.steps)

    @cached_property
    def _raw(self) -> Mapping[str, Step]:
        return {table.name: step for step in self.steps if step.source for table in step.tables}

    def days_read(self, step: Step, version: Version | None, day: date) -> list[TableDay]:
        made = made_of(step, version, day, self.filled) if version else {}
        return [TableDay(table, each) for table, days in made.items() for each in days]

    def moved(self, step: Step, version: Version | None, day: date) -> list[TableDay]:
        """Input days that were published after it."""
        own = max((self._sequence(TableDay(table, day)) for table in step.table_names), default=-1)
        return [key for key in self.days_read(step, version, day) if self._sequence(key) > own]

    def cause(self, step: Step, version: Version, day: date) -> Cause:
        return cause_of(self.signs(step, version, day)) or Cause.INPUT

    def signs(self, step: Step, version: Version, day: date) -> Signs:
        moved = self.moved(step, version, day)
        if not any(read.table in self._raw for read in version.reads):
            looks_back = {read.table for read in version.reads if read.first < 0}
            provisional = bool(moved) and looks_back.issuperset(key.table for key in moved)
            return {Cause.REFERENCE: ""} if provisional else {Cause.INPUT: ""}
        from_raw = [key for key in moved if key.table in self._raw]
        asks = next(filter(None, map(self._asks, from_raw)), "")
        corrected = any(self._took_back(key) for key in from_raw)
        return {Cause.CORRECTED if corrected else Cause.LATE: "", **({Cause.TOO_LATE: asks} if asks else {})}

    def _sequence(self, key: TableDay) -> int:
        state = self.observed.states.get(key)
        return state.sequence if state else -1

    def _asks(self, key: TableDay) -> str:
        lateness, content = self._raw[key.table].lateness, self.observed.content(key)
        return lateness.asks(content.metrics) if lateness and content else ""

    def _took_back(self, key: TableDay) -> bool:
        content = self.observed.content(key)
        return bool(content and content.figure(DELETED))
