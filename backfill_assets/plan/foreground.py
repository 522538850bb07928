"""What a run in the foreground builds: which days of which tables, and why. Pure, decided before Spark starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cache
from types import MappingProxyType

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import DayState
from backfill_assets.model.declaration import Step
from backfill_assets.plan.graph import published_days, reading_as_published
from backfill_assets.plan.status import DayStatus, Statuses
from backfill_assets.published.observed import LogView
from backfill_assets.published.rolled_back import Rollbacks
from backfill_assets.rebuild.decide import rolled_back


@dataclass(frozen=True)
class Rollback:
    """The publication by which a person put days back, and when."""

    publication: str
    at: datetime


@dataclass(frozen=True)
class StepRun:
    """The days of one step, by why they are in the run; for weeks and months their first days."""

    step: Step
    statuses: Mapping[date, DayStatus]
    force: bool = False
    later: frozenset[date] = frozenset()
    """Days that were not asked for, and look back to those that were: each is built as it was published."""
    earlier: frozenset[date] = frozenset()
    """Days that were not asked for, and that others look back to: each is built as it was published, if it was."""
    pending: Mapping[date, int] = field(default_factory=dict)
    """Of a step with a source: how many landed files are to be ingested, by arrival day."""
    rolled_back: Mapping[date, Rollback] = field(default_factory=dict)
    """Days that would be built again although a person rolled them back."""

    @property
    def days(self) -> list[date]:
        return sorted(self.statuses)

    @property
    def unchanged(self) -> list[date]:
        """Days that will be found published from the same inputs by the same code, as things stand now."""
        return [day for day in self.days if not self._would_be_built(day)]

    @property
    def to_build(self) -> list[date]:
        return [day for day in self.days if self._would_be_built(day)]

    def _would_be_built(self, day: date) -> bool:
        forced = self.force and day not in self.later | self.earlier
        return forced or self.statuses[day] is not DayStatus.FRESH or day in self.pending


def planned(
    steps: Sequence[Step],
    tables: Collection[str],
    days: Collection[date],
    statuses: Statuses,
    *,
    force: bool = False,
    later: Mapping[str, Collection[date]] | None = None,
    earlier: Mapping[str, Collection[date]] | None = None,
    as_published: Statuses | None = None,
    pending: Mapping[str, Mapping[date, int]] = MappingProxyType({}),
) -> list[StepRun]:
    """The steps that build ``tables``, in build order, each with the periods that ``days`` touch.

    ``statuses`` are those of every table and at least these days. A step's day is in the state of its worst table.
    ``later`` and ``earlier`` days of a step come along, in the state that they have ``as_published``. ``pending`` has
    the landed files that are to be ingested, by raw table and arrival day.
    """
    runs = []
    for step in _building(steps, tables):
        more, before = (frozenset((each or {}).get(step.name, ())) for each in (later, earlier))
        found = _worst(step, step.cadence.starts(days), statuses) | _worst(
            step, more | before, as_published or statuses
        )
        files = {day: count for day, count in pending.get(step.name, {}).items() if day in found}
        # Raw is only ever appended to: there is nothing of it to force.
        runs.append(StepRun(step, found, force and step.source is None, more, before, files))
    return runs


def later_days(
    steps: Sequence[Step], tables: Collection[str], days: Collection[date], observed: LogView
) -> dict[str, set[date]]:
    """The published periods of ``tables`` that look back to ``days`` and do not lie in them, by step.

    With them come those that are computed from them.
    """
    published = published_days(observed)
    built: dict[str, set[date]] = {}
    found: dict[str, set[date]] = {}
    for step in _building(steps, tables):
        asked = set(step.cadence.starts(days))
        around = reading_as_published(step, built, observed) - asked
        later = {day for day in around if TableDay(step.name, day) in published}
        built |= dict.fromkeys(_names(step), asked | later)
        if later:
            found[step.name] = later
    return found


def with_rolled_back(
    plan: Sequence[StepRun], states: Mapping[TableDay, DayState], rollbacks: Callable[[], Rollbacks]
) -> list[StepRun]:
    """``plan`` with the days that a person rolled back named in it, of those that would be built again.

    ``rollbacks`` reads the log; it is called once, and only if it matters.
    """
    known = cache(rollbacks)
    to_build = [TableDay(table.name, day) for each in plan for table in each.step.tables for day in each.to_build]
    found = {key: Rollback(by, known().at(by)) for key, by in rolled_back(to_build, states, known).items()}
    return [
        replace(each, rolled_back={day: by for (table, day), by in found.items() if table in _names(each.step)})
        for each in plan
    ]


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


def _building(steps: Sequence[Step], tables: Collection[str]) -> list[Step]:
    return [step for step in steps if any(table.name in tables for table in step.tables)]


def _worst(step: Step, starts: Collection[date], statuses: Statuses) -> dict[date, DayStatus]:
    order = list(DayStatus)
    return {start: max((statuses[table.name][start] for table in step.tables), key=order.index) for start in starts}


def _names(step: Step) -> set[str]:
    return {table.name for table in step.tables}


def _reads(step: Step) -> set[str]:
    return set() if step.source else {read.table for read in step.version().reads}
