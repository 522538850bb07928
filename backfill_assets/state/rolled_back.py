"""How long a rollback holds a day.

A rollback undoes what was made of the inputs of then. A day whose inputs change is rebuilt by its put-back version:
otherwise corrections would stay out for ever. A day's :class:`Origin` names its rollback.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from typing import Protocol

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayState, Prepared
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Filled, made_of, upstream
from backfill_assets.publish.log import PublicationLog
from backfill_assets.state.diagnosis import INPUT_CHANGED, Cause
from backfill_assets.state.observed import LogView
from backfill_assets.state.status import Statuses, published_version


def find_nothing(_rollback: str) -> tuple[Prepared, datetime] | None:
    return None


def tell_nothing(_rollback: str, _key: TableDay) -> str | None:
    return None


@dataclass(frozen=True)
class Rollbacks:
    find: Callable[[str], tuple[Prepared, datetime] | None] = find_nothing
    """A rollback in full, and when it was prepared."""
    published_then: Callable[[str, TableDay], str | None] = tell_nothing
    """Logical fingerprint of a day when the rollback was closed; None if unknown."""
    closed_at: Callable[[str], int] = lambda _rollback: -1
    """The rollback's entry of the log; -1 if unknown."""

    def has_changed(self, rollback: str, key: TableDay, observed: Seen) -> bool:
        """Was the day published with other content since? A foreign write does not count: it is repaired."""
        state = observed.states.get(key)
        if state is not None and state.publication and state.sequence <= self.closed_at(rollback):
            return False
        then = self.published_then(rollback, key)
        return then is not None and then != published_logical(state)

    def withdrew(self, rollback: str, keys: Collection[TableDay]) -> bool:
        """Did the rollback remove rows of one of these days?"""
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
        """Raises :class:`LookupError` if the log does not have it."""
        if (found := self.find(rollback)) is None:
            raise LookupError(f"The log has no {rollback}.")
        return found[1].astimezone(UTC)


NO_ROLLBACKS = Rollbacks()


def published_logical(state: DayState | None) -> str:
    """The fingerprint that was published, whatever the files are now."""
    return state.content.logical if state and state.content else fingerprints.NEVER_PUBLISHED


class UndoIs(enum.StrEnum):
    HELD = "held"
    """No input has changed since: the day stays."""
    OVER = "over"
    """An input has changed since: the day is rebuilt by its put-back version."""
    ASKED = "asked"
    """Raw rows of the day were withdrawn too: a person decides."""


@dataclass(frozen=True)
class Undo:
    rollback: str
    state: UndoIs

    @property
    def cause(self) -> Cause | None:
        """None if it no longer holds the day."""
        return _HOLDS.get(self.state)

    @property
    def holds(self) -> bool:
        """Does the day stay as it is, against every repair? Asked where one is decided, and again where it builds."""
        return self.cause is not None


_HOLDS = {UndoIs.HELD: Cause.ROLLED_BACK, UndoIs.ASKED: Cause.UNDONE_WITH_RAW}
NOTHING_UNDONE: Mapping[TableDay, Undo] = {}
_BEHIND = INPUT_CHANGED | {Cause.MISSING}


class Seen(Protocol):
    """The states of a step's days and of all that they are made of."""

    @property
    def states(self) -> Mapping[TableDay, DayState]: ...

    def filled(self, steps: Iterable[Step]) -> Filled:
        """Days with rows of tables that ``steps`` read as of a day."""


def undo_of(rollbacks: Rollbacks, steps: Sequence[Step], step: Step, day: date, observed: Seen) -> Undo | None:
    """The rollback of a day of ``step``, if any; ``steps`` are all, in build order."""
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
    """Days that a person rolled back and whose inputs are others now; ``steps`` in build order."""
    for step in (each for each in steps if each.versions):
        found = ((table, statuses.get(table, {})) for table in step.table_names)
        for key in (TableDay(table, day) for table, days in found for day, cause in days.items() if cause in _BEHIND):
            if key in observed.states and (undo := undo_of(known, steps, step, key.day, observed)):
                yield key, undo


def _inputs(step: Step, day: date, observed: Seen) -> list[TableDay]:
    if not step.versions:
        return []
    own = published_version(step, day, observed.states)
    version = next((each for each in step.versions if each.name == own), step.version())
    made = made_of(step, version, day, observed.filled([step]))
    return [TableDay(table, each) for table, days in made.items() for each in days]


def rollbacks(storage: Storage) -> Rollbacks:
    log = PublicationLog(storage)
    closed_at = cache(log.closed_at)

    @cache
    def states_then(rollback: str, table: str) -> dict[date, DayState]:
        return {key.day: state for key, state in log.states_at(closed_at(rollback), [table]).items()}

    def published_then(rollback: str, key: TableDay) -> str:
        return published_logical(states_then(rollback, key.table).get(key.day))

    return Rollbacks(cache(log.find_prepared), published_then, closed_at)
