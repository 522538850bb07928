"""What a plan is computed from: steps, state of the lakehouse, landed days, machine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import JournalEntry
from backfill_assets.landing.zone import LandedDay
from backfill_assets.model.declaration import Step
from backfill_assets.plan.records import Plan
from backfill_assets.publish.closed_days import Books
from backfill_assets.state.closed import books_of
from backfill_assets.state.edited_logic import EditedLogic
from backfill_assets.state.observed import LogView


@dataclass(frozen=True)
class Machine:
    """``free_bytes``: of the lakehouse's disk; None if unlimited or unknown."""

    cores: int = 1
    core_hour_price: Decimal | None = None
    free_bytes: int | None = None


@dataclass(frozen=True)
class PlanContext:
    """``steps``: in build order, with all they read. ``begins``: the first day that can have data."""

    steps: Sequence[Step]
    observed: LogView
    begins: date
    now: datetime
    bytes: Mapping[str, Mapping[date, int]] = field(default_factory=dict)
    schemas: Mapping[str, str] = field(default_factory=dict)
    """Main's, as Delta's JSON."""
    declared_schemas: Mapping[str, str] = field(default_factory=dict)
    landed: Mapping[str, Mapping[date, LandedDay]] = field(default_factory=dict)
    files_may_go: Mapping[str, datetime] = field(default_factory=dict)
    """When files of a pinned version that main has left may be reclaimed."""
    in_place: Mapping[str, str] = field(default_factory=dict)
    """By table of others: the version read, and how far back its own history goes."""
    open_plans: Sequence[Plan] = ()
    journals: Sequence[Sequence[JournalEntry]] = ()
    edited: Sequence[EditedLogic] = ()
    machine: Machine = Machine()
    rollback_window_days: int = 30

    @cached_property
    def books(self) -> Books:
        return books_of(self.observed, self.steps, self.now)

    @property
    def today(self) -> date:
        return self.now.date()

    def step_of(self, table: str) -> Step:
        for step in self.steps:
            if table in step.table_names:
                return step
        raise InvalidRequest(f"There is no table {table!r}.", hint="backfill status lists the tables.")

    def with_version(self, table: str, version: str) -> PlanContext:
        """``version`` as the current one of ``table``; an undeclared one changes nothing."""
        target = self.step_of(table)
        if not version or version not in {each.name for each in target.versions}:
            return self
        chosen = replace(target, current=version)
        return replace(self, steps=[chosen if step is target else step for step in self.steps])

    def begun_periods(self, step: Step, starts: Iterable[date]) -> set[date]:
        """Days have to be over; weeks and months only have to have begun."""
        first = step.cadence.start(self.begins)
        return {day for day in starts if first <= day < self.today}
