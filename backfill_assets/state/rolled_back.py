"""Which days a person has rolled back, also when compactions and undone undos came after it, and how long that holds.

A person has undone what was made of the inputs of then. A day whose inputs have changed since is built again, by the
version that its put-back rows were published with: else an undo would keep corrections out for ever.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayState, Kind, Prepared
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import made_of, upstream
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.rows import DAY_COLUMNS, day_states, newest_days
from backfill_assets.state.observed import LogView
from backfill_assets.state.status import published_version

MOVES_FILES: tuple[Kind, ...] = ("rollback", "compact")
"""The kinds of publications that compute nothing: what they bring was made by an earlier one."""


@dataclass(frozen=True)
class FileMove:
    """A rollback or a compaction, and when it was prepared."""

    kind: Kind
    at: datetime


def find_nothing(_publication: str) -> Prepared | None:
    """A log that has no publication in full."""
    return None


def tell_nothing(_rollback: str, _key: TableDay) -> str | None:
    """A log that does not say what a day held when a rollback had closed."""
    return None


@dataclass(frozen=True)
class Rollbacks:
    """Answers for each day whether a rollback stands. ``find`` reads a publication in full from the log."""

    moves: Mapping[str, FileMove] = field(default_factory=dict)
    """Every rollback and compaction, by publication."""
    find: Callable[[str], Prepared | None] = find_nothing
    published_then: Callable[[str, TableDay], str | None] = tell_nothing
    """The logical fingerprint of a day as it was published when a rollback had closed; None if that is not known."""

    def of(self, table: str, day: date, publication: str) -> str:
        """The rollback by which a person put the day back that ``publication`` left; empty if none stands.

        A compaction changes nothing about it. Undoing a rollback brings back what that had taken away, so the day is
        again as the publication before the rollback left it. One that only follows an undo was staged, and not put
        back.
        """
        while publication in self.moves:
            prepared = self.find(publication)
            moved_back = prepared
            if self.moves[publication].kind == "rollback":
                moved_back = self.find(prepared.publication.provenance.undoes) if prepared else None
                if moved_back is None:
                    return publication
                if moved_back.publication.kind not in MOVES_FILES:
                    return publication if moved_back.before_of(table, day) else ""
            before = moved_back.before_of(table, day) if moved_back else None
            publication = before.publication if before else ""
        return ""

    def newest(self, table: str, day: date, publication: str) -> str:
        """The last rollback of the day that ``publication`` left, below compactions; empty if none stands."""
        if not self.of(table, day, publication):
            return ""
        while self.moves[publication].kind == "compact":
            prepared = self.find(publication)
            before = prepared.before_of(table, day) if prepared else None
            publication = before.publication if before else ""
        return publication

    def has_changed(self, rollback: str, key: TableDay, observed: LogView) -> bool:
        """Was the day published with other content since ``rollback``? A foreign write is not: it is repaired."""
        then = self.published_then(rollback, key)
        return then is not None and then != published_logical(observed.states.get(key))

    def withdrew(self, rollback: str, keys: Collection[TableDay]) -> bool:
        """Did ``rollback`` take rows away from one of these days?"""
        prepared = self.find(rollback)
        changes = prepared.publication.tables if prepared else ()
        taken = (
            (before.content.rows, day.content.rows if day.content else 0)
            for change in changes
            for day in change.days
            if TableDay(change.table, day.day) in keys
            if prepared and (before := prepared.before_of(change.table, day.day)) and before.content
        )
        return any(rows > left for rows, left in taken)

    def at(self, rollback: str) -> datetime:
        return self.moves[rollback].at.astimezone(UTC)


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


def undo_of(rollbacks: Rollbacks, steps: Sequence[Step], step: Step, day: date, observed: LogView) -> Undo | None:
    """The rollback that stands on a day of one of the tables of ``step``; ``steps`` are all, in build order."""
    states = (observed.states.get(TableDay(table, day)) for table in step.table_names)
    found = [name for each in states if each and (name := rollbacks.newest(each.table, day, each.publication))]
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


def _inputs(step: Step, day: date, observed: LogView) -> list[TableDay]:
    """What the day is made of by its own version; by the current one where that is not declared any more."""
    if not step.versions:
        return []
    own = published_version(step, day, observed.states)
    version = next((each for each in step.versions if each.name == own), step.version())
    made = made_of(step, version, day, observed.filled([step]))
    return [TableDay(table, each) for table, days in made.items() for each in days]


def rollbacks(storage: Storage) -> Rollbacks:
    """Read the rollbacks and compactions from the log's columns; single ones in full only when a day is asked for."""
    log = PublicationLog(storage)
    rows = log.files().rows(["publication", "at"], event="prepared", kind=MOVES_FILES)

    @cache
    def find(publication: str) -> Prepared | None:
        found = log.find_prepared(publication) if publication else None
        return found[0] if found else None

    @cache
    def closed_at(rollback: str) -> int:
        return log.closed_at(rollback)

    @cache
    def states_then(rollback: str, table: str) -> dict[date, DayState]:
        until = closed_at(rollback)
        published = log.files().rows(DAY_COLUMNS, until=until, event="published", table=table).select(DAY_COLUMNS)
        return {state.day: state for state in day_states(newest_days([published]))}

    def published_then(rollback: str, key: TableDay) -> str:
        return published_logical(states_then(rollback, key.table).get(key.day))

    moves = {row["publication"]: FileMove(row["kind"], row["at"]) for row in rows.to_pylist()}
    return Rollbacks(moves, find, published_then)
