"""What is not as it must be, by step and day, from the logs and from the watchdogs. Pure: no clock, no data."""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property

from backfill_assets.backfill.downstream import buildable, published_days
from backfill_assets.backfill.status import DayStatus, Statuses
from backfill_assets.datasets.dataset import Step
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.observed import Observed
from backfill_assets.lakehouse.publication import logical_of


class Reason(enum.StrEnum):
    """Why a day is not as it must be, gravest first."""

    FOREIGN_WRITE = "foreign write"
    WATCHDOG = "watchdog failed"
    LATE_ROWS = "late rows arrived"
    INPUT_CHANGED = "input changed"
    MISSING = "never built"


@dataclass(frozen=True)
class FailedWatch:
    """A watchdog that failed, and what it looked at: it says nothing about what was published since."""

    table: str
    day: date
    publication: str
    physical: str


@dataclass(frozen=True, order=True)
class Trouble:
    """One day of one step that is not as it must be. ``evidence`` is the state that it is in, as 12 hex digits."""

    table: str
    day: date
    reason: Reason
    evidence: str

    def __str__(self) -> str:
        return f"{self.table} {self.day}: {self.reason.value} [{self.evidence}]"


def _anywhere(table: str, day: date) -> bool:
    return True


@dataclass(frozen=True)
class Seen:
    """All that the decision about repairs is made from. ``steps`` are in build order and contain whatever they read."""

    steps: Sequence[Step]
    observed: Observed
    failed_watches: Collection[FailedWatch] = ()
    attempts: Mapping[str, int] = field(default_factory=dict)
    """How many repairs were launched before, by evidence."""
    busy: Mapping[str, str] = field(default_factory=dict)
    """The tables that something under way may write, with what that is."""
    failed_gates: Collection[tuple[str, date]] = ()
    """Days whose newest attempt did not pass its gates: on a second attempt they must not hold the others back."""
    has_partition: Callable[[str, date], bool] = _anywhere
    today: date = date.max
    """Days that have not ended have rows already if a source is ahead of time; they are nobody's trouble yet."""
    rollbacks: Callable[[], Collection[str]] = frozenset
    """The publications that were rollbacks; only asked for when something is wrong."""

    @cached_property
    def rolled_back(self) -> set[tuple[str, date]]:
        """Days of steps that a person has put back: they stay as they are until a person launches them."""
        rollbacks = set(self.rollbacks())
        states = self.observed.states
        put_back = {(table, day) for (table, day), state in states.items() if state.publication in rollbacks}
        steps = {table.name: step for step in self.steps for table in step.tables}
        return {
            (table.name, date.fromisoformat(day))
            for name, day in put_back
            if name in steps
            for table in steps[name].tables
        }

    def may_build(self, table: str, day: date) -> bool:
        return self.has_partition(table, day) and (table, day) not in self.rolled_back

    @cached_property
    def published(self) -> set[tuple[str, str]]:
        return published_days(self.observed)


def troubles(seen: Seen, statuses: Statuses) -> tuple[list[Trouble], list[Trouble]]:
    """Those of raw tables, which nothing can build again, and all others; a day of a step is named once."""
    watched = {(watch.table, watch.day) for watch in seen.failed_watches if _still_speaks(watch, seen.observed)}
    raw: list[Trouble] = []
    others: list[Trouble] = []
    for step in seen.steps:
        for day in sorted({day for table in step.tables for day in statuses.get(table.name, {})}):
            found = [
                (reason, table.name)
                for table in step.tables
                if (reason := _reason(seen, step, table.name, day, statuses, watched))
            ]
            if found and day < seen.today:
                reason, table = min(found, key=lambda each: list(Reason).index(each[0]))
                trouble = Trouble(table, day, reason, _evidence(seen, step, day, reason))
                (raw if step.source else others).append(trouble)
    return raw, others


def _reason(
    seen: Seen, step: Step, table: str, day: date, statuses: Statuses, watched: Collection[tuple[str, date]]
) -> Reason | None:
    status = statuses[table].get(day, DayStatus.FRESH)
    if status is DayStatus.FOREIGN_WRITE:
        return Reason.FOREIGN_WRITE
    if (table, day) in watched:
        return Reason.WATCHDOG
    if status is DayStatus.INPUT_CHANGED:
        sources = {each.name for other in seen.steps if other.source for each in other.tables}
        from_raw = {read.table for read in step.version().reads} & sources
        return Reason.LATE_ROWS if from_raw else Reason.INPUT_CHANGED
    if status is DayStatus.MISSING and step.source is None and buildable(step, day, seen.published):
        return Reason.MISSING
    return None


def _still_speaks(watch: FailedWatch, observed: Observed) -> bool:
    state = observed.states.get((watch.table, str(watch.day)))
    physical = observed.newest.get(watch.table, {}).get(str(watch.day), fingerprints.EMPTY_DAY)
    return state is not None and (state.publication, physical) == (watch.publication, watch.physical)


def _evidence(seen: Seen, step: Step, day: date, reason: Reason) -> str:
    """The state that a day and its inputs are in; a repair that changes nothing leaves it as it was."""
    own = [_of_day(seen.observed, table.name, day) for table in step.tables]
    reads = () if step.source else step.version().reads
    period = step.cadence.period(day)
    inputs = [(read.table, str(d), _logical(seen.observed, read.table, d)) for read in reads for d in read.days(period)]
    return digest([step.name, str(day), reason.name, own, inputs], 12)


def _of_day(observed: Observed, table: str, day: date) -> tuple[str, str]:
    state = observed.states.get((table, str(day)))
    physical = observed.newest.get(table, {}).get(str(day), fingerprints.EMPTY_DAY)
    return (state.publication if state else "", physical)


def _logical(observed: Observed, table: str, day: date) -> str:
    physical = observed.pinned.get(table, {}).get(str(day), fingerprints.EMPTY_DAY)
    return logical_of(observed.states.get((table, str(day))), physical)


def by_table(troubles: Iterable[Trouble]) -> dict[str, set[date]]:
    """The days of each table."""
    found: dict[str, set[date]] = {}
    for trouble in troubles:
        found.setdefault(trouble.table, set()).add(trouble.day)
    return found


def digest(value: object, length: int) -> str:
    """The first hex digits of a hash of ``value``."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:length]
