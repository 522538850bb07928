"""How long it holds that a person has rolled a day back.

A person has undone what was made of the inputs of then. A day whose inputs have changed since is built again, by the
version that its put-back rows were published with: else an undo would keep corrections out for ever. Which rollback
stands on a day is in its :class:`Origin`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayState, Prepared
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import made_of, upstream
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.rows import DAY_COLUMNS, day_states, newest_days
from backfill_assets.state.diagnosis import INPUT_CHANGED, Cause
from backfill_assets.state.observed import LogView
from backfill_assets.state.status import Statuses, published_version


def find_nothing(_rollback: str) -> tuple[Prepared, datetime] | None:
    """A log that has no rollback in full."""
    return None


def tell_nothing(_rollback: str, _key: TableDay) -> str | None:
    """A log that does not say what a day held when a rollback had closed."""
    return None


@dataclass(frozen=True)
class Rollbacks:
    """What the log has of rollbacks, and of the time when they were made; read when it is asked for."""

    find: Callable[[str], tuple[Prepared, datetime] | None] = find_nothing
    """A rollback in full, and when it was prepared."""
    published_then: Callable[[str, TableDay], str | None] = tell_nothing
    """The logical fingerprint of a day as it was published when a rollback had closed; None if that is not known."""

    def has_changed(self, rollback: str, key: TableDay, observed: LogView) -> bool:
        """Was the day published with other content since ``rollback``? A foreign write is not: it is repaired."""
        then = self.published_then(rollback, key)
        return then is not None and then != published_logical(observed.states.get(key))

    def withdrew(self, rollback: str, keys: Collection[TableDay]) -> bool:
        """Did ``rollback`` take rows away from one of these days?"""
        found = self.find(rollback)
        if found is None:
            return False
        prepared = found[0]
        taken = (
            (before.content.rows, day.content.rows if day.content else 0)
            for change in prepared.publication.tables
            for day in change.days
            if TableDay(change.table, day.day) in keys
            if (before := prepared.before_of(change.table, day.day)) and before.content
        )
        return any(rows > left for rows, left in taken)

    def at(self, rollback: str) -> datetime:
        """When it was prepared; raises :class:`LookupError` for one that the log does not have."""
        if (found := self.find(rollback)) is None:
            raise LookupError(f"The log has no {rollback}.")
        return found[1].astimezone(UTC)


def published_logical(state: DayState | None) -> str:
    """The logical fingerprint that a day was published with, whatever its files are now."""
    return state.content.logical if state and state.content else fingerprints.NEVER_PUBLISHED


class UndoIs(enum.StrEnum):
    """What a rollback means for a day that it put back."""

    HELD = "held"
    """No input has changed since: the day stays as it was put back."""
    OVER = "over"
    """An input has changed since: the day is built again, by the version that it was put back with."""
    ASKED = "asked"
    """An input has changed since, and rows of raw that the day is made of were withdrawn with it: a person decides."""


@dataclass(frozen=True)
class Undo:
    """The rollback by which a day is as it is."""

    rollback: str
    state: UndoIs

    @property
    def cause(self) -> Cause | None:
        """What it says about a day that is not made of what there is now; None where it holds the day no more."""
        return _HOLDS.get(self.state)


_HOLDS = {UndoIs.HELD: Cause.ROLLED_BACK, UndoIs.ASKED: Cause.UNDONE_WITH_RAW}
NOTHING_UNDONE: Mapping[TableDay, Undo] = {}
_BEHIND = INPUT_CHANGED | {Cause.MISSING}


def undo_of(rollbacks: Rollbacks, steps: Sequence[Step], step: Step, day: date, observed: LogView) -> Undo | None:
    """The rollback that stands on a day of one of the tables of ``step``; ``steps`` are all, in build order."""
    states = (observed.states.get(TableDay(table, day)) for table in step.table_names)
    found = [each.origin.put_back_by for each in states if each and each.origin.rolled_back_by]
    if not found:
        return None
    changed = [
        name
        for name in found
        if any(rollbacks.has_changed(name, key, observed) for key in _inputs(step, day, observed))
    ]
    if len(changed) < len(found):
        return Undo(next(name for name in found if name not in changed), UndoIs.HELD)
    raw = {each.name for each in steps if each.source}
    above = {
        TableDay(name, each) for name, days in upstream(steps, step, [day]).items() if name in raw for each in days
    }
    asked = next((name for name in changed if rollbacks.withdrew(name, above)), "")
    return Undo(asked or changed[0], UndoIs.ASKED if asked else UndoIs.OVER)


def undone_days(
    known: Rollbacks, steps: Sequence[Step], observed: LogView, statuses: Statuses
) -> Iterator[tuple[TableDay, Undo]]:
    """Those of ``statuses`` that a person put back and that are not made of what there is now.

    ``steps`` are all, in build order. The log is only read for days that were put back.
    """
    for step in (each for each in steps if each.versions):
        found = ((table, statuses.get(table, {})) for table in step.table_names)
        for key in (TableDay(table, day) for table, days in found for day, cause in days.items() if cause in _BEHIND):
            if key in observed.states and (undo := undo_of(known, steps, step, key.day, observed)):
                yield key, undo


def _inputs(step: Step, day: date, observed: LogView) -> list[TableDay]:
    """What the day is made of by its own version; by the current one where that is not declared any more."""
    if not step.versions:
        return []
    own = published_version(step, day, observed.states)
    version = next((each for each in step.versions if each.name == own), step.version())
    made = made_of(step, version, day, observed.filled([step]))
    return [TableDay(table, each) for table, days in made.items() for each in days]


def rollbacks(storage: Storage) -> Rollbacks:
    """Those of the log of ``storage``; each is read once, when something is asked of it."""
    log = PublicationLog(storage)
    closed_at = cache(log.closed_at)

    @cache
    def states_then(rollback: str, table: str) -> dict[date, DayState]:
        until = closed_at(rollback)
        published = log.files().rows(DAY_COLUMNS, until=until, event="published", table=table).select(DAY_COLUMNS)
        return {state.day: state for state in day_states(newest_days([published]))}

    def published_then(rollback: str, key: TableDay) -> str:
        return published_logical(states_then(rollback, key.table).get(key.day))

    return Rollbacks(cache(log.find_prepared), published_then)
