"""What a run in the foreground does, decided before any Spark starts: which days of which tables, and why. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.backfill.status import DayStatus, Statuses
from backfill_assets.datasets.dataset import Step
from backfill_assets.errors import InvalidRequest


@dataclass(frozen=True)
class StepRun:
    """The days of one step, by why they are in the run; for weeks and months their first days."""

    step: Step
    statuses: Mapping[date, DayStatus]
    force: bool = False

    @property
    def days(self) -> list[date]:
        return sorted(self.statuses)

    @property
    def unchanged(self) -> list[date]:
        """Days that will be found published from the same inputs by the same code, as things stand now."""
        return [day for day in self.days if self.statuses[day] is DayStatus.FRESH and not self.force]


def planned(
    steps: Sequence[Step], tables: Collection[str], days: Collection[date], statuses: Statuses, *, force: bool = False
) -> list[StepRun]:
    """The steps that build ``tables``, in build order, each with the periods that ``days`` touch.

    ``statuses`` are those of every table and at least these days. A step's day is in the state of its worst table.
    """
    chosen = [step for step in steps if any(table.name in tables for table in step.tables)]
    return [StepRun(step, _worst(step, days, statuses), force) for step in chosen]


def around(
    steps: Sequence[Step], tables: Collection[str], *, upstream: bool = False, downstream: bool = False
) -> list[str]:
    """``tables``, with all that they are computed from and all that is computed from them if that is asked for."""
    wanted = set(tables)
    if upstream:
        for step in reversed(steps):
            if _names(step) & wanted:
                wanted |= _names(step) | _reads(step)
    if downstream:
        reached = set(tables)
        for step in steps:
            if _reads(step) & reached:
                reached |= _names(step)
        wanted |= reached
    return [table.name for step in steps for table in step.tables if table.name in wanted]


def require_ended(days: Collection[date], today: date) -> None:
    """Raise :class:`InvalidRequest` for days that are not over."""
    if max(days) >= today:
        raise InvalidRequest(
            f"The days end with {max(days)}, which is not over; today is {today} in UTC.",
            hint="End them with yesterday at the latest: what arrives today is not complete.",
        )


def _worst(step: Step, days: Collection[date], statuses: Statuses) -> dict[date, DayStatus]:
    order = list(DayStatus)
    return {
        start: max((statuses[table.name][start] for table in step.tables), key=order.index)
        for start in step.cadence.starts(days)
    }


def _names(step: Step) -> set[str]:
    return {table.name for table in step.tables}


def _reads(step: Step) -> set[str]:
    return set() if step.source else {read.table for read in step.version().reads}
