"""The version of a table that readers are pinned to, even after an engine's clean-up deleted it.

Engines (VACUUM, ALTER) write versions that change no file. Maintenance moves such a pin on; a reader whose version is
gone takes the newest if its files are the log's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import (
    NO_FILES,
    AddedFile,
    LogState,
    VersionGone,
    files_at,
    newest_version,
    read_log,
)
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Before, DayChange, DayContent, DayState, Expected, InputRead, logical_of
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.closed_days import Closings
from backfill_assets.publish.log import Entry, Head, PublicationLog
from backfill_assets.publish.unreadable import Unreadable, read_or_say


def pinned_files(log: PublicationLog, head: Head, table: str) -> LogState:
    """No files if nothing was published.

    Raises :class:`VersionGone` if the pinned version is gone and the newest has other files than the log knows.
    """
    version = head.state.versions.get(table)
    if version is None:
        return NO_FILES
    try:
        return read_log(log.storage, table, version)
    except VersionGone as error:
        newest = _newest_if_known(log, head, table)
        if newest is None:
            raise VersionGone(
                f"{error.message} It is what readers are pinned to, and others have changed {table} since.",
                hint=f"Publish a day of {table} (backfill run with --force): that pins it to its newest version.",
            ) from error
        return newest


def pinned_versions(log: PublicationLog, head: Head, tables: Iterable[str]) -> dict[str, int]:
    """An unreadable table gets the log's version: reading it raises."""
    named = {table: head.state.versions[table] for table in tables if table in head.state.versions}
    looks = {
        table: read_or_say(log.storage, table, version, partial(pinned_files, log, head, table))
        for table, version in named.items()
    }
    return {table: named[table] if isinstance(each, Unreadable) else each.version for table, each in looks.items()}


def _newest_if_known(log: PublicationLog, head: Head, table: str) -> LogState | None:
    """Nothing is known while a publication is open."""
    version = newest_version(log.storage, table)
    if version is None or head.state.is_written(table):
        return None
    newest = read_log(log.storage, table, version)
    known = {day: state.physical for (_, day), state in log.day_states(head, {table}).items()}
    physical_of = {day: fingerprints.physical(paths) for day, paths in newest.by_day().items()}
    same = all(physical_of.get(day, fingerprints.EMPTY_DAY) == files for day, files in known.items())
    return newest if same and physical_of.keys() <= known.keys() else None


def moved_pins(log: PublicationLog, head: Head, tables: Iterable[str]) -> dict[str, int]:
    moved = {}
    for table in tables:
        pinned, newest = head.state.versions.get(table), newest_version(log.storage, table)
        if pinned is None or newest is None or newest == pinned or head.state.is_written(table):
            continue
        if _same_files(log, head, table, newest):
            moved[table] = newest
    return moved


def _same_files(log: PublicationLog, head: Head, table: str, newest: int) -> bool:
    try:
        return pinned_files(log, head, table).active.keys() == read_log(log.storage, table, newest).active.keys()
    except VersionGone:
        return False  # others changed it: an own publication pins it again


def pin_again(log: PublicationLog, tables: Iterable[str]) -> Mapping[str, int]:
    """Move pins to newer versions that changed nothing, in one entry; returns the tables that moved."""
    wanted = list(tables)
    moved: dict[str, int] = {}

    def pin(head: Head) -> Entry | None:
        moved.clear()
        moved.update(moved_pins(log, head, wanted))
        versions = {**head.state.versions, **moved}
        row = {"event": "pinned", "detail": json.dumps(dict(sorted(versions.items())))}
        return ([row], lambda file: head.state.pinning(versions)) if moved else None

    log.settle("Pinning tables to their newest versions", pin)
    return moved


# ------------------------------------------------------------------ one look, for a build and for PREPARE

States = Mapping[TableDay, DayState]


@dataclass(frozen=True)
class Pin:
    """Captured *before* any input is read; compare-and-swap expects it."""

    expected: Mapping[TableDay, Expected]
    inputs: Mapping[str, InputRead]
    states: States
    closings: Closings = ()
    """What closes days, at the same entry of the log."""

    def content(self, key: TableDay) -> DayContent | None:
        state = self.states.get(key)
        return state.content_of(self.expected[key].files) if state else None


@dataclass(frozen=True)
class Look:
    """The log at one head, then the tables; a build starts with one, PREPARE compares its own."""

    head: Head
    states: States
    written: Mapping[str, Mapping[date, Sequence[AddedFile]]]
    transactions: Mapping[str, Mapping[str, int]]
    read: Mapping[str, LogState]

    @classmethod
    def at(
        cls, log: PublicationLog, head: Head, written: Mapping[str, MainTable | None], read: Iterable[str], *also: str
    ) -> Look:
        inputs = tuple(read)
        return cls(
            head,
            states=log.day_states(head, {*written, *inputs, *also}),
            written={table: main.state().files_by_day() if main else {} for table, main in written.items()},
            transactions={table: main.transactions() if main else {} for table, main in written.items()},
            read={table: pinned_files(log, head, table) for table in inputs},
        )

    def expected(self, table: str, days: Iterable[date]) -> dict[TableDay, Expected]:
        found = {}
        for day in days:
            state = self.states.get(TableDay(table, day))
            paths = tuple(sorted(file.path for file in self.written[table].get(day, ())))
            found[TableDay(table, day)] = Expected(files=paths, publication=state.publication if state else "")
        return found

    def before(self, table: str, changes: Iterable[DayChange]) -> dict[date, Before]:
        images = {}
        for day in (change.day for change in changes):
            state, files = self.states.get(TableDay(table, day)), tuple(sorted(self.written[table].get(day, ())))
            known = state.content_of(file.path for file in files) if state else None
            images[day] = Before(files=files)
            if state:
                ours = state.physical == fingerprints.physical(file.path for file in files)
                origin = state.origin if ours or not files else replace(state.origin, computed_by="", gained_by="")
                images[day] = Before(files=files, content=known, publication=state.publication, origin=origin)
        return images

    def input(self, table: str, days: Iterable[date], *, exact: bool = False) -> InputRead:
        files, active = self.read[table], self.read[table].by_day()
        logicals = {
            day: logical_of(self.states.get(TableDay(table, day)), fingerprints.physical(active.get(day, ())))
            for day in sorted(set(days))
        }
        return InputRead(table=table, version=files.version if files.version >= 0 else None, days=logicals, exact=exact)

    def withdrawn(self, storage: Storage, read: InputRead) -> frozenset[date]:
        """Days with rows withdrawn or replaced since; gained rows count if ``exact``."""
        now, has = self.input(read.table, read.days).days, self.read[read.table].by_day()
        changed = frozenset(day for day, logical in read.days.items() if now[day] != logical)
        if read.exact or not changed:
            return changed
        try:
            was = files_at(storage, read.table, read.version).by_day()
        except VersionGone:
            return changed
        return frozenset(day for day in changed if not was.get(day, frozenset()) <= has.get(day, frozenset()))
