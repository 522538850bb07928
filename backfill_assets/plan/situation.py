"""All that a plan is computed from: the steps, the state of the lakehouse, the landed days, the machine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.campaign_journal import JournalEntry
from backfill_assets.lakehouse.records import DayContent, is_adopted
from backfill_assets.landing.zone import LandedDay
from backfill_assets.model.declaration import Step
from backfill_assets.plan.records import Plan
from backfill_assets.rebuild.decide import published_days
from backfill_assets.state.edited_logic import EditedLogic
from backfill_assets.state.observed import LogView


@dataclass(frozen=True)
class Machine:
    """Where it would run; ``free_bytes`` of the lakehouse's disk, None where that has no limit we could ask for."""

    cores: int = 1
    core_hour_price: Decimal | None = None
    free_bytes: int | None = None


@dataclass(frozen=True)
class PlanContext:
    """``steps`` are in build order and include all they read; ``begins`` is the first day that can have data."""

    steps: Sequence[Step]
    observed: LogView
    begins: date
    today: date
    bytes: Mapping[str, Mapping[date, int]] = field(default_factory=dict)
    """Bytes of Parquet by table and day."""
    schemas: Mapping[str, str] = field(default_factory=dict)
    """Main's schema as Delta's JSON, of tables that exist."""
    declared_schemas: Mapping[str, str] = field(default_factory=dict)
    """The schema that the contract declares, in the same form, of the same tables."""
    landed: Mapping[str, Mapping[date, LandedDay]] = field(default_factory=dict)
    """By raw table and arrival day."""
    files_may_go: Mapping[str, datetime] = field(default_factory=dict)
    in_place: Mapping[str, str] = field(default_factory=dict)
    """By table of others, which version of it is read, and how far back its own history goes."""
    """From when on files of the pinned version may be reclaimed, of tables that main has moved on from."""
    open_plans: Sequence[Plan] = ()
    """Plans that are being carried out."""
    journals: Sequence[Sequence[JournalEntry]] = ()
    """Of the newest campaigns: what their steps took."""
    edited: Sequence[EditedLogic] = ()
    """Versions that were edited in place since they published days."""
    machine: Machine = Machine()
    rollback_window_days: int = 30
    now: datetime = datetime(2017, 1, 1, tzinfo=UTC)

    def step_of(self, table: str) -> Step:
        for step in self.steps:
            if table in step.table_names:
                return step
        raise InvalidRequest(f"There is no table {table!r}.", hint="backfill status lists the tables.")

    def with_version(self, table: str, version: str) -> PlanContext:
        """This context with ``version`` as the current one for ``table``; one that is not declared changes nothing."""
        target = self.step_of(table)
        if not version or version not in {each.name for each in target.versions}:
            return self
        chosen = replace(target, current=version)
        return replace(self, steps=[chosen if step is target else step for step in self.steps])

    def content(self, table: str, day: date) -> DayContent | None:
        return self.observed.content(TableDay(table, day))

    def logical(self, table: str, day: date) -> str:
        """The logical fingerprint that a build would find on the day, known without reading it."""
        return self.observed.logical(TableDay(table, day))

    def is_adopted(self, step: Step, day: date) -> bool:
        """True for a day that was taken over with its table, and is rebuilt only on a person's word."""
        return is_adopted(self.observed.states, step.table_names, day)

    def is_foreign(self, table: str, day: date) -> bool:
        """True if a build would find files on the day that no publication put there."""
        state = self.observed.states.get(TableDay(table, day))
        return self.observed.physical(TableDay(table, day)) != (state.physical if state else fingerprints.EMPTY_DAY)

    def published_days(self) -> dict[str, set[date]]:
        """The days that are published, by table."""
        return published_days(self.observed.states)

    def begun_periods(self, step: Step, starts: Iterable[date]) -> set[date]:
        """Those of ``starts`` whose periods have begun. Days have to be over; weeks and months need not."""
        first = step.cadence.start(self.begins)
        return {day for day in starts if first <= day < self.today}
