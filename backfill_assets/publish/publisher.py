"""Entry to the publication protocol, and PREPARE, which makes all refusals before any table is touched.

``docs/architecture.md`` says what breaks when a rule is dropped; each rule has a mutant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial

from deltalake.exceptions import DeltaError

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError, LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse.delta_log import newest_version
from backfill_assets.lakehouse.main_table import MainTable, read_afresh
from backfill_assets.lakehouse.records import (
    CurrentVersion,
    InputRead,
    Outcome,
    Prepared,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.retry import Retry, warn
from backfill_assets.lakehouse.torn_commit import drop_torn_commit
from backfill_assets.publish.books import say_declared
from backfill_assets.publish.closed_days import Books, require_open
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.finish import Finish
from backfill_assets.publish.log import Head, HeadState, OpenEntry
from backfill_assets.publish.pinned import Look, Pin
from backfill_assets.publish.rows import closed_rows, prepared_rows
from backfill_assets.publish.torn_days import require_whole
from backfill_assets.publish.unreadable import require_newest, require_ours

__all__ = ["Conflict", "CrashPoint", "Pin", "Published", "Publisher"]

_ROUNDS_BEFORE_A_TURN = 5
_TURN_LOOK_SECONDS = 0.1
_MOST_TURN_LOOKS = 100


@dataclass(frozen=True)
class Conflict:
    """Main or an input moved since staging: exactly these days are to be staged again."""

    days: Mapping[str, frozenset[date]] = field(default_factory=dict)
    inputs: Mapping[str, frozenset[date]] = field(default_factory=dict)
    reads: tuple[InputRead, ...] = ()
    reasons: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    gone: bool = False


@dataclass(frozen=True)
class Published:
    publication: str
    versions: Mapping[str, int]
    leaves_stale: Mapping[str, tuple[date, ...]] = field(default_factory=dict)
    """The days of readers that it names as stale, by table."""


@dataclass(frozen=True)
class Readers:
    """The tables that read what a publication brings, and how it is completed with the days that it leaves stale.

    PREPARE asks on the state that it compares: readers built meanwhile are named, too. An entry that is open for
    ``tables`` is finished first, if it can be; their readers lock nothing.
    """

    tables: Callable[[Publication], frozenset[str]] = lambda _: frozenset()
    completed: Callable[[Publication], Publication] = lambda publication: publication
    as_of: int | None = None
    """The log's version that the request was completed on."""


NO_READERS = Readers()


class Publisher(Finish):
    """Brings staged days into main, and undoes it; safe among any others, alive or dead."""

    def pin(
        self,
        writes: Mapping[str, Iterable[date]],
        reads: Mapping[str, Iterable[date]],
        exact: Iterable[str] = (),
        also: Iterable[str] = (),
    ) -> Pin:
        """The expected state of days to write, and versions of days to read, as of the last closed entry. ``exact``
        inputs may not even gain rows; of ``also`` only day states are read.
        """
        self.log.begin()  # A lakehouse that cannot be written is refused before anything is computed.
        look = read_afresh(f"Looking at {', '.join(writes)}", lambda: self._look(writes, reads, also))
        expected = (look.expected(table, days) for table, days in writes.items())
        wholly = frozenset(exact)
        return Pin(
            {key: each for of_table in expected for key, each in of_table.items()},
            {table: look.input(table, days, exact=table in wholly) for table, days in reads.items()},
            look.states,
            look.head.state.books,
        )

    def _look(self, writes: Iterable[str], reads: Iterable[str], also: Iterable[str]) -> Look:
        mains = {table: MainTable.open(self.storage, table, self._known) for table in writes}
        return Look.at(self.log, self.log.head(), mains, reads, *also)

    def publish(self, publication: Publication, readers: Readers = NO_READERS) -> Published | Conflict:
        """Prepare, commit to each table, close. Refused days come back as :class:`Conflict`; nothing is half done.

        An id is for one attempt: again, it gives the logged outcome. Raises :class:`PublicationRefused` for what can
        never be published (schema, partition).
        """
        if isinstance(prepared := self.prepare(publication, readers), Conflict):
            return prepared
        if self.finish(publication.id) == "done":
            versions, stale = self.log.versions_of(publication.id), (prepared or publication).leaves_stale
            return Published(publication.id, {table: versions[table] for table in publication.writes}, stale)
        days = {change.table: frozenset(day.day for day in change.days) for change in publication.tables}
        reason = f"another writer changed the table while {publication.id} was under way, so it was aborted"
        return Conflict(days=days, reasons=(reason,))

    def recover(self, tables: Collection[str] = ()) -> dict[str, Outcome]:
        """Finish every open entry, without commits torn by a loss of power. One that cannot be stays open with a
        warning, or raises if it writes one of ``tables``.
        """
        outcomes: dict[str, Outcome] = {}
        for publication, entry in self.log.without_a_torn_entry().state.open.items():
            try:
                outcomes[publication] = self._finish_what_may_be_torn(entry)
            except (BackfillError, DeltaError, OSError) as error:
                if entry.writes & set(tables):
                    raise
                warn(
                    f"{publication} is open and cannot be finished, so its tables ({', '.join(sorted(entry.writes))})"
                    f" wait; others go on. {error}"
                )
        return outcomes

    def _finish_what_may_be_torn(self, entry: OpenEntry) -> Outcome:
        """Only tables of open entries have a commit not yet synced."""
        try:
            return self.finish(entry.publication)
        except LakehouseUnusable:
            if not [table for table in sorted(entry.writes) if self._drop_torn(table)]:
                raise
        return self.finish(entry.publication)

    def _drop_torn(self, table: str) -> bool:
        version, pinned = newest_version(self.storage, table), self.log.head().state.versions.get(table, -1)
        return version is not None and version > pinned and drop_torn_commit(self.storage, table, version)

    # ------------------------------------------------------------------ PREPARE

    def prepare(self, publication: Publication, readers: Readers = NO_READERS) -> Publication | Conflict | None:
        """The publication as it is on the log now; None if an earlier attempt brought it there. A round lost to other
        tables repeats the append alone.
        """
        check_request(publication)
        touched, read_by = publication.locks | publication.reads, readers.tables(publication)
        tables = publication.writes | publication.reads | read_by
        retry, rows, as_of = Retry(f"Preparing {publication.id}"), None, None
        staged = [f"{change.table}/{add.path}" for change in publication.tables for d in change.days for add in d.adds]
        lost = 0
        while True:
            head = self._head_in_turn(publication)
            if publication.id in head.state.open or publication.id in head.state.outcomes:
                return None
            if say_declared(self, head) or self._finish_blocking(head.state, touched, read_by):
                retry.lost("other publications of its tables are under way")
                continue
            state = head.state
            news = (state.news_of(tables), state.reclaimed, _current_of(publication, state), state.books)
            if rows is None or news != as_of:
                completed = publication if head.version == readers.as_of else readers.completed(publication)
                checked = read_afresh(retry.what, partial(self._check, completed, head))
                if not isinstance(checked, Prepared):
                    return checked
                rows, as_of = prepared_rows(checked), news
            opening = partial(head.state.opening, completed, self.retention_days, clock.now())
            if self.log.append(head, rows, opening, staged):
                self.reached(CrashPoint.PREPARED, publication.id)
                return completed
            lost += 1
            if lost % _ROUNDS_BEFORE_A_TURN == 0:
                self._ask_for_a_turn(publication)
            retry.lost("other publications are appended to the log first")

    def foresee(self, publication: Publication) -> Conflict | None:
        head = self.log.head()
        require_open(publication, Books(head.state.books, self.declared))
        mains = {change.table: self._open(head, change, self.retention_days) for change in publication.tables}
        return self._conflict_of(publication, Look.at(self.log, head, mains, publication.reads))

    def _check(self, publication: Publication, head: Head) -> Prepared | Conflict | None:
        kept_days = head.state.window_days(self.retention_days, clock.now())
        mains = {change.table: self._open(head, change, kept_days) for change in publication.tables}
        if self._is_known(publication, head, mains):
            return None
        if publication.kind != "adopt":
            require_ours(head.state.released, publication.writes)
        require_open(publication, Books(head.state.books, self.declared))
        self.reached(CrashPoint.TABLES_READ, publication.id)
        look = Look.at(self.log, head, mains, publication.reads)
        moved = self._conflict_of(publication, look)
        if moved is not None:
            return moved
        before = {change.table: look.before(change.table, change.days) for change in publication.tables}
        prepared = Prepared(publication=publication, before=before, window_days=self.retention_days)
        _check_fit(prepared, mains)
        for main in mains.values():
            main.keep_for(kept_days)
        return prepared

    def _is_known(self, publication: Publication, head: Head, mains: Mapping[str, MainTable]) -> bool:
        """If the transaction is shared, or there are no tables, only the log knows."""
        if publication.transaction or not publication.tables:
            return self.log.outcome(head, publication.id) is not None
        return any(main.transaction(publication.id) is not None for main in mains.values())

    def _ask_for_a_turn(self, publication: Publication) -> None:
        head = self.log.head()
        state = head.state.asking(publication.id, clock.now())
        self.log.append(head, [{"event": "waiting", "publication": publication.id}], lambda file: state)

    def _head_in_turn(self, publication: Publication) -> Head:
        """Publications that have waited longer go first, for one turn at most."""
        for _ in range(_MOST_TURN_LOOKS):
            head = self.log.head()
            self.reached(CrashPoint.LOG_READ, publication.id)
            if next(iter(head.state.waiting(clock.now())), publication.id) == publication.id:
                break
            clock.sleep(_TURN_LOOK_SECONDS)
        return head

    def _finish_blocking(self, state: HeadState, touched: Collection[str], read_by: Collection[str]) -> bool:
        """Open entries lock whole tables; those of ``read_by`` are finished if they can be."""
        blocking = [entry for entry in state.open.values() if not entry.writes.isdisjoint(touched)]
        for entry in blocking:
            self.finish(entry.publication)
        if not blocking and any(not entry.writes.isdisjoint(read_by) for entry in state.open.values()):
            return bool(self.recover())
        return bool(blocking)

    def _open(self, head: Head, change: TableChange, kept_days: int) -> MainTable:
        main, pinned = MainTable.open(self.storage, change.table, self._known), head.state.versions.get(change.table)
        require_newest(change.table, main.version if main else None, pinned)
        if main and (main.version, pinned) == (0, None) and drop_torn_commit(self.storage, change.table, 0):
            main = None
        return main or MainTable.create(self.storage, change.table, change.table_schema, kept_days)

    def _conflict_of(self, publication: Publication, look: Look) -> Conflict | None:
        days: dict[str, frozenset[date]] = {}
        inputs: dict[str, frozenset[date]] = {}
        reads: list[InputRead] = []
        reasons = _moved_switches(publication, look.head.state)
        passed: list[str] = []
        gone = False
        for change in publication.tables:
            lost = self._reclaimed_days(look.head, change, reasons)
            gone = gone or bool(lost)
            lost |= _changed_days(change, look, reasons)
            moved_on = _passed_positions(change, look, reasons)
            passed += moved_on
            # The rows of every day may be in main already.
            lost |= {day.day for day in change.days} if moved_on else set()
            if lost:
                days[change.table] = frozenset(lost)
        for read in publication.inputs:  # a table is listed once for every version of it that was read
            if withdrawn := look.withdrawn(self.storage, read):
                reasons += [f"{read.table} {day} was replaced after it was read" for day in sorted(withdrawn)[:3]]
                inputs[read.table] = inputs.get(read.table, frozenset()) | withdrawn
                reads.append(read)
        if reasons:
            return Conflict(days, inputs, tuple(reads), tuple(reasons), tuple(passed), gone)
        require_whole(publication, look.states)
        return None

    def _reclaimed_days(self, head: Head, change: TableChange, reasons: list[str]) -> set[date]:
        """Main must never name a missing file."""
        day_of = {f"{change.table}/{add.path}": day.day for day in change.days for add in day.adds}
        doomed = {
            path for file in head.state.reclaiming.values() for path in self.log.reclaim_paths(file)
        } & day_of.keys()
        for path in doomed:  # a process that meets the intent carries it out, so that no build adopts the file again
            self.storage.delete(path)
        gone = doomed | set(self.storage.missing(day_of))
        reasons += [f"the file {path} was reclaimed or is gone" for path in sorted(gone)[:3]]
        return {day_of[path] for path in gone}


def _current_of(publication: Publication, state: HeadState) -> dict[str, CurrentVersion | None]:
    return {step: state.current.get(step) for step in publication.switches}


def _moved_switches(publication: Publication, state: HeadState) -> list[str]:
    moved = []
    for step, now in _current_of(publication, state).items():
        switch = publication.switches[step]
        version, by = (now.version, now.publication) if now else ("", "")
        if (version, by) != (switch.former, switch.former_by):
            moved.append(f"{step} was switched to {version or 'the declared version'} since")
    return moved


def check_request(publication: Publication) -> None:
    for step, switch in publication.switches.items():
        if switch.version == switch.former:
            raise PublicationRefused(
                f"{step}: {switch.version or 'the declared version'} is current already.",
                hint="A switch names another version than the current one.",
            )
    _refuse_twice(f"{publication.id}: the table", [change.table for change in publication.tables])
    for change in publication.tables:
        _refuse_twice(f"{change.table}: the day", [str(day.day) for day in change.days])
        _refuse_twice(f"{change.table}: the source position", [position.id for position in change.positions])
        for day, file in ((each.day, file) for each in change.days for file in each.adds):
            if file.day != str(day):  # delta-rs would take it silently
                raise PublicationRefused(f"{change.table}: the file {file.path} holds {file.day}, not {day}.")
        for position in change.positions:
            if position.after == (position.before or 0) or position.id in (publication.id, publication.transaction):
                raise PublicationRefused(
                    f"{change.table}: the source position {position.id} does not move on from {position.before}.",
                    hint="Positions count from 1, and have names of their own.",
                )


def _refuse_twice(what: str, names: list[str]) -> None:
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise PublicationRefused(f"{what} {twice[0]} is listed more than once in one publication.")


def _check_fit(prepared: Prepared, mains: Mapping[str, MainTable]) -> None:
    """Also computes what FINISH will: an entry that cannot be finished locks its tables for good."""
    for change in prepared.publication.tables:
        target, files = prepared.target(change.table), prepared.before_files(change.table)
        mains[change.table].require_writable(target, files)
        problems = mains[change.table].obstacles(change.table_schema, target, files)
        if problems:
            raise PublicationRefused(
                f"The staged rows do not fit the table {change.table}: " + "; ".join(problems) + ".",
                hint="A new nullable column is taken in; any other change rebuilds the table's whole history.",
            )
    closed_rows(prepared, "done", {}, dict.fromkeys(prepared.publication.writes, 0))


def _changed_days(change: TableChange, look: Look, reasons: list[str]) -> set[date]:
    """Appends commute."""
    now = look.expected(change.table, (day.day for day in change.days))
    moved: set[date] = set()
    for day in change.days:
        here = now[TableDay(change.table, day.day)]
        current = set(here.files)
        if change.mode == "append":
            if current & {add.path for add in day.adds}:
                moved.add(day.day)
                reasons.append(f"{change.table} {day.day} already has a file that is to be appended")
        elif current != set(day.expected.files) or here.publication != day.expected.publication:
            moved.add(day.day)
            reasons.append(f"another writer published or changed {change.table} {day.day} since it was looked at")
    return moved


def _passed_positions(change: TableChange, look: Look, reasons: list[str]) -> list[str]:
    now = look.transactions[change.table]
    passed = [p.id for p in change.positions if now.get(p.id, 0) != (p.before or 0)]
    reasons += [f"{change.table} has already taken in {id}" for id in passed[:3]]
    return passed
