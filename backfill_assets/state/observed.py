"""The lakehouse now: every day's newest state in the log, and the files that days really have."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import LogState, newest_version, read_log, schema_at
from backfill_assets.lakehouse.records import DayContent, DayRecord, DayRecords, DayState, content_in, logical_of
from backfill_assets.lakehouse.retry import Retry
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.current_versions import with_current
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Filled, tables_as_of
from backfill_assets.publish.closed_days import Closings
from backfill_assets.publish.log import Head, PublicationLog
from backfill_assets.publish.pinned import pinned_files
from backfill_assets.publish.unreadable import Unreadable, given_back, read_or_say

_MOST_LOOKS = 20

Physicals = Mapping[str, Mapping[date, str]]
"""Physical fingerprints of days with files."""


@dataclass(frozen=True)
class LogView:
    """``newest`` is what main holds now; ``pinned`` what a build would read: the last closed entry's versions.

    A table that a publication under way writes is as of the last closed entry in ``newest`` too: half a publication is
    no foreign write.
    """

    states: Mapping[TableDay, DayState] = field(default_factory=dict)
    newest: Physicals = field(default_factory=dict)
    pinned: Physicals = field(default_factory=dict)
    sequence: int = -1
    versions: Mapping[str, int] = field(default_factory=dict)
    """Delta versions of the last closed entry."""
    writing: Mapping[str, frozenset[str]] = field(default_factory=dict)
    switches: Mapping[str, str] = field(default_factory=dict)
    """Versions that publications made current, by step."""
    files: Mapping[str, LogState] = field(default_factory=dict, repr=False)
    read_files: Mapping[str, LogState] = field(default_factory=dict, repr=False)
    unreadable: Mapping[str, Unreadable] = field(default_factory=dict)
    """Only their ``states`` are here, and nothing can be decided about them."""
    closings: Closings = ()
    """What closes days, as of the log."""
    asked_of_books: Closings = ()
    """Closings and reopenings that wait for another person."""

    @property
    def open(self) -> tuple[str, ...]:
        return tuple(self.writing)

    @property
    def bytes(self) -> dict[str, dict[date, int]]:
        return {
            table: {day: sum(state.active[path].size for path in paths) for day, paths in state.by_day().items()}
            for table, state in self.read_files.items()
            if state.version >= 0
        }

    def require(self, tables: Iterable[str]) -> None:
        """Raises :class:`LakehouseUnusable`, with what mends it, if one of ``tables`` cannot be read."""
        for each in (self.unreadable[table] for table in tables if table in self.unreadable):
            raise each.error

    def undecided(self, steps: Iterable[Step]) -> dict[str, Unreadable]:
        """Unreadable tables and those built with or from one, each with that one."""
        found = dict(self.unreadable)
        for step in steps if found else ():
            touched = (*step.table_names, *(read.table for version in step.versions for read in version.reads))
            if blamed := next((found[table] for table in touched if table in found), None):
                found = {**dict.fromkeys(step.table_names, blamed), **found}
        return found

    def readable(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        undecided = self.undecided(steps)
        return tuple(step for step in steps if step.name not in undecided)

    def require_decided(self, steps: Sequence[Step], tables: Iterable[str]) -> None:
        """Raises :class:`LakehouseUnusable` if one of ``tables`` is undecided."""
        undecided = self.undecided(steps)
        self.require(tables := list(tables))
        for table in tables:
            if each := undecided.get(table):
                raise LakehouseUnusable(
                    f"{table} is made of {each.table}, which cannot be read: {each.why}", hint=each.next_step
                )

    @property
    def sound_versions(self) -> dict[str, int]:
        return {table: version for table, version in self.versions.items() if table not in self.unreadable}

    def now(self, key: TableDay) -> str:
        return self.newest.get(key.table, {}).get(key.day, fingerprints.EMPTY_DAY)

    def physical(self, key: TableDay) -> str:
        """The physical fingerprint that a build would find."""
        return self.pinned.get(key.table, {}).get(key.day, fingerprints.EMPTY_DAY)

    def logical(self, key: TableDay) -> str:
        """The logical fingerprint that a build would find."""
        return logical_of(self.states.get(key), self.physical(key))

    def content(self, key: TableDay) -> DayContent | None:
        """What the log says, also after a foreign write."""
        return content_in(self.states, key)

    def publication(self, key: TableDay) -> str:
        """The last one of the day; empty if it has none."""
        state = self.states.get(key)
        return state.publication if state else ""

    def is_foreign(self, key: TableDay) -> bool:
        """Whether a build would find files that no publication put there."""
        state = self.states.get(key)
        return self.physical(key) != (state.physical if state else fingerprints.EMPTY_DAY)

    def filled(self, steps: Iterable[Step]) -> Filled:
        """Days with rows, as a build would find them, of tables that ``steps`` read as of a day."""
        return {
            table: sorted(
                day
                for day in {*self.pinned.get(table, ()), *(day for name, day in self.states if name == table)}
                if fingerprints.has_rows(self.logical(TableDay(table, day)))
            )
            for table in tables_as_of(steps)
        }

    def with_current(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        return with_current(steps, self.switches)

    def over(self, records: DayRecords) -> LogView:
        """This view with ``records`` in place of its days. Such days are of no publication; one never published is
        missing.
        """
        states = {
            TableDay(table, day): DayState(table, day, "", self.sequence, each.physical, each.content)
            for table, days in records.items()
            for day, each in days.items()
        }
        files = {table: _files_over(self.pinned.get(table, {}), days) for table, days in records.items()}
        pinned = {**self.pinned, **files}
        return replace(self, states={**self.states, **states}, newest=pinned, pinned=pinned)

    def contents(self, table: str) -> dict[date, DayContent | None]:
        """What a build would find; None for a foreign write."""
        files = self.pinned.get(table, {})
        published = {day: state for (name, day), state in self.states.items() if name == table and state.content}
        known = {
            day: state.content
            for day, state in published.items()
            if state.physical == files.get(day, fingerprints.EMPTY_DAY)
        }
        return {**dict.fromkeys(files), **known}


def filled_in(steps: Iterable[Step], states: Mapping[TableDay, DayState]) -> Filled:
    """Days with rows, by the log alone, of tables that ``steps`` read as of a day."""
    wanted = tables_as_of(steps)
    if not wanted:
        return {}
    found: dict[str, list[date]] = {table: [] for table in wanted}
    for (table, day), state in states.items():
        if table in wanted and state.content is not None and state.content.rows:
            found[table].append(day)
    return {table: sorted(days) for table, days in found.items()}


def _files_over(files: Mapping[date, str], over: Mapping[date, DayRecord]) -> Mapping[date, str]:
    below = {day: physical for day, physical in files.items() if day not in over}
    return below | {day: each.physical for day, each in over.items() if each.files}


@contextmanager
def gc_paused() -> Iterator[None]:
    """Years of days are many small objects that stay: searching them costs 50 % more."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def observe(storage: Storage, tables: Iterable[str], log: PublicationLog | None = None) -> LogView:
    """:func:`observe_each`; raises :class:`LakehouseUnusable` if one of ``tables`` cannot be read."""
    view = observe_each(storage, tables, log)
    view.require(view.unreadable)
    return view


def observe_each(storage: Storage, tables: Iterable[str], log: PublicationLog | None = None) -> LogView:
    """Reads logs only. An unreadable table is named in the view, and hides no other. A ``log`` read before knows most
    days.

    Looks again if ``tables`` were published to meanwhile: that would look like a foreign write.
    """
    wanted = list(tables)
    log = log or PublicationLog(storage)
    retry = Retry(f"Looking at {', '.join(wanted)}", most=_MOST_LOOKS)
    while True:
        head = log.head()
        view = _observe(log, head, wanted)
        if log.head().state.news_of(wanted) == head.state.news_of(wanted):
            return view
        retry.lost("they were published to at every look")


def schemas_read(storage: Storage, view: LogView) -> dict[str, str]:
    """The schemas that a build would find, as Delta's JSON; only of tables that exist."""
    return {
        name: schema_at(storage, name, files.version) for name, files in view.read_files.items() if files.version >= 0
    }


def _observe(log: PublicationLog, head: Head, wanted: list[str]) -> LogView:
    looks = {table: _look(log, head, table) for table in wanted}
    unreadable = {table: each for table, each in looks.items() if isinstance(each, Unreadable)}
    sound = {table: each for table, each in looks.items() if not isinstance(each, Unreadable)}
    read = {table: _by_day(pinned) for table, (pinned, _) in sound.items()}
    versions = {table: pinned.version for table, (pinned, _) in sound.items() if pinned.version >= 0}
    return LogView(
        states=log.day_states(head, wanted),
        newest={
            table: read[table] if newest is pinned else _by_day(newest) for table, (pinned, newest) in sound.items()
        },
        pinned=read,
        sequence=head.version,
        versions={**head.state.versions, **versions},
        writing={name: entry.writes for name, entry in head.state.open.items()},
        switches=head.state.switches,
        files={table: newest for table, (_, newest) in sound.items()},
        read_files={table: pinned for table, (pinned, _) in sound.items()},
        unreadable=unreadable,
        closings=head.state.books,
        asked_of_books=head.state.books_asked,
    )


def _look(log: PublicationLog, head: Head, table: str) -> tuple[LogState, LogState] | Unreadable:
    if by := head.state.released.get(table):
        return given_back(table, by)

    def read() -> tuple[LogState, LogState]:
        pinned = pinned_files(log, head, table)
        return pinned, _now(log, head, table, pinned)

    return read_or_say(log.storage, table, head.state.versions.get(table), read)


def _now(log: PublicationLog, head: Head, table: str, pinned: LogState) -> LogState:
    version = newest_version(log.storage, table)
    if head.state.is_written(table) or version in (None, pinned.version):
        return pinned
    return read_log(log.storage, table, version)


def _by_day(state: LogState) -> Mapping[date, str]:
    return {day: fingerprints.physical(paths) for day, paths in state.by_day().items()}
