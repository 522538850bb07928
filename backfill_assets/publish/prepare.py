"""PREPARE: everything that can be refused is refused here, before anything is committed to any table.

Log first, then the tables, then the append on that same version of the log: any change in between makes the append
fail, and what the new entries touch is looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial

from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile, LogState, VersionGone
from backfill_assets.lakehouse.main_table import MainTable, check_partitions, of_days
from backfill_assets.lakehouse.records import (
    Before,
    CurrentVersion,
    DayState,
    InputRead,
    Prepared,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.retry import Retry
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.finish import Finish
from backfill_assets.publish.log import Head, HeadState
from backfill_assets.publish.pinned import States, files_at, logicals, pinned_files
from backfill_assets.publish.rows import closed_rows, prepared_rows
from backfill_assets.publish.torn_days import require_whole

_ROUNDS_BEFORE_A_TURN = 5
_TURN_LOOK_SECONDS = 0.1
_MOST_TURN_LOOKS = 100
"""A round waits for one turn at most, for any number of publications that ask for one."""


@dataclass(frozen=True)
class Conflict:
    """Main or an input moved on since staging: these days, and only these, are to be staged again."""

    days: Mapping[str, frozenset[date]] = field(default_factory=dict)
    inputs: Mapping[str, frozenset[date]] = field(default_factory=dict)
    reads: tuple[InputRead, ...] = ()
    """The inputs that moved, as they were read."""
    reasons: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    """Source positions that have moved on since they were read."""
    gone: bool = False
    """Files that were to be published are not there; that is among the reasons."""


class Preparation(Finish):
    """Puts publications on the log, or says what moved."""

    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def prepare(self, publication: Publication) -> Conflict | None:
        """None when the publication is on the log, by this call or by an earlier attempt: the log knows its outcome.

        A round that is lost to a publication of other tables repeats only the append, not the checks.
        """
        check_request(publication)
        tables = publication.writes | publication.reads
        retry, rows, as_of = Retry(f"Preparing {publication.id}"), None, None
        lost = 0
        while True:
            head = self._head_in_turn(publication)
            if publication.id in head.state.open or publication.id in head.state.outcomes:
                return None
            if self._finish_blocking(head.state, publication):
                retry.lost("other publications of its tables are under way")
                continue
            news = (head.state.news_of(tables), head.state.reclaimed, _current_of(publication, head.state))
            if rows is None or news != as_of:
                checked = self._check(publication, head)
                if not isinstance(checked, Prepared):
                    return checked
                rows, as_of = prepared_rows(checked), news
            opening = partial(head.state.opening, publication, self.retention_days, self.now())
            if self.log.append(head, rows, opening):
                self.reached(CrashPoint.PREPARED, publication.id)
                return None
            lost += 1
            if lost % _ROUNDS_BEFORE_A_TURN == 0:
                self._ask_for_a_turn(publication)
            retry.lost("other publications are appended to the log first")

    def foresee(self, publication: Publication) -> Conflict | None:
        """What would refuse ``publication`` as things stand now; others may be first all the same."""
        head = self.log.head()
        mains = {change.table: self._open(change, self.retention_days) for change in publication.tables}
        states = self.log.day_states(head, publication.writes | publication.reads)
        active = {name: main.state() for name, main in mains.items()}
        moved = self._conflict_of(publication, head, states, mains, active)
        if moved is None:
            require_whole(publication, states)
        return moved

    def _check(self, publication: Publication, head: Head) -> Prepared | Conflict | None:
        """Look at log and tables; None when an earlier attempt committed already, and the log knows its outcome."""
        kept_days = head.state.window_days(self.retention_days, self.now())
        mains = {change.table: self._open(change, kept_days) for change in publication.tables}
        if self._is_known(publication, head, mains):
            return None
        self.reached(CrashPoint.TABLES_READ, publication.id)
        states = self.log.day_states(head, publication.writes | publication.reads)
        active = {name: main.state() for name, main in mains.items()}
        moved = self._conflict_of(publication, head, states, mains, active)
        if moved is not None:
            return moved
        require_whole(publication, states)
        prepared = Prepared(
            publication=publication,
            before=_before_images(publication, states, active),
            window_days=self.retention_days,
        )
        _check_fit(prepared, mains, active)
        for main in mains.values():
            main.keep_for(kept_days)
        return prepared

    def _is_known(self, publication: Publication, head: Head, mains: Mapping[str, MainTable]) -> bool:
        """Was it committed before, or fenced? Of one that shares its transaction, or has none, only the log knows."""
        if publication.transaction or not publication.tables:
            return self.log.outcome(head, publication.id) is not None
        return any(main.transaction(publication.id) is not None for main in mains.values())

    def _ask_for_a_turn(self, publication: Publication) -> None:
        """Ask others, on the log, to let this one pass. It is only a request: it expires, and refuses nothing."""
        head = self.log.head()
        state = head.state.asking(publication.id, self.now())
        self.log.append(head, [{"event": "waiting", "publication": publication.id}], lambda file: state)

    def _head_in_turn(self, publication: Publication) -> Head:
        """The newest head, once no publication is on it that has waited longer; after one turn in any case."""
        for _ in range(_MOST_TURN_LOOKS):
            head = self.log.head()
            self.reached(CrashPoint.LOG_READ, publication.id)
            if next(iter(head.state.waiting(self.now())), publication.id) == publication.id:
                break
            self.sleep(_TURN_LOOK_SECONDS)
        return head

    def _finish_blocking(self, state: HeadState, publication: Publication) -> bool:
        """An open entry locks whole tables, for writers and for readers: bring it to its end first."""
        touched = publication.locks | publication.reads
        blocking = [entry for entry in state.open.values() if entry.writes & touched]
        for entry in blocking:
            self.finish(entry.publication)
        return bool(blocking)

    def _open(self, change: TableChange, kept_days: int) -> MainTable:
        main = MainTable.open(self.storage, change.table)
        return main or MainTable.create(self.storage, change.table, change.table_schema, kept_days)

    def _conflict_of(
        self,
        publication: Publication,
        head: Head,
        states: States,
        mains: Mapping[str, MainTable],
        active: Mapping[str, LogState],
    ) -> Conflict | None:
        days: dict[str, frozenset[date]] = {}
        inputs: dict[str, frozenset[date]] = {}
        reads: list[InputRead] = []
        reasons: list[str] = []
        passed: list[str] = []
        gone = False
        for change in publication.tables:
            lost = self._reclaimed_days(head, change, reasons)
            gone = gone or bool(lost)
            lost |= _changed_days(change, states, active[change.table], reasons)
            moved_on = _passed_positions(change, mains[change.table], reasons)
            passed += moved_on
            # The rows of every day may be in main already.
            lost |= {day.day for day in change.days} if moved_on else set()
            if lost:
                days[change.table] = frozenset(lost)
        for read in publication.inputs:  # a table is listed once for every version of it that was read
            if withdrawn := self._withdrawn(read, head, states, reasons):
                inputs[read.table] = inputs.get(read.table, frozenset()) | withdrawn
                reads.append(read)
        reasons += _moved_switches(publication, head.state)
        return Conflict(days, inputs, tuple(reads), tuple(reasons), tuple(passed), gone) if reasons else None

    def _reclaimed_days(self, head: Head, change: TableChange, reasons: list[str]) -> set[date]:
        """Days with a staged file that is being, or was, reclaimed: main must never name a file that is not there."""
        day_of = {f"{change.table}/{add.path}": day.day for day in change.days for add in day.adds}
        doomed = {
            path for file in head.state.reclaiming.values() for path in self.log.reclaim_paths(file)
        } & day_of.keys()
        for path in doomed:  # a process that meets the intent carries it out, so that no build adopts the file again
            self.storage.delete(path)
        gone = doomed | set(self.storage.missing(day_of))
        reasons += [f"the staged file {path} was reclaimed or is gone" for path in sorted(gone)[:3]]
        return {day_of[path] for path in gone}

    def _withdrawn(self, read: InputRead, head: Head, states: States, reasons: list[str]) -> set[date]:
        """Input days whose rows were withdrawn or replaced since they were read. Gained rows make us stale, no more."""
        now = logicals(pinned_files(self.log, head, read.table), states, read.table, read.days)
        changed = {day for day, logical in read.days.items() if now[day] != logical}
        withdrawn = changed - (set() if read.exact else self._only_gained(read, head, changed))
        reasons += [f"{read.table} {day} was replaced after it was read" for day in sorted(withdrawn)[:3]]
        return withdrawn

    def _only_gained(self, read: InputRead, head: Head, changed: set[date]) -> set[date]:
        if not changed:
            return set()
        try:
            was = files_at(self.storage, read.table, read.version).by_day()
        except VersionGone:
            return set()
        has = pinned_files(self.log, head, read.table).by_day()
        return {day for day in changed if was.get(day, frozenset()) <= has.get(day, frozenset())}


def _current_of(publication: Publication, state: HeadState) -> dict[str, CurrentVersion | None]:
    """What is current by the log, of the steps that are to be switched."""
    return {step: state.current.get(step) for step in publication.switches}


def _moved_switches(publication: Publication, state: HeadState) -> list[str]:
    """Steps whose current version is another one than the switch was decided on."""
    moved = []
    for step, now in _current_of(publication, state).items():
        switch = publication.switches[step]
        version, by = (now.version, now.publication) if now else ("", "")
        if (version, by) != (switch.former, switch.former_by):
            moved.append(f"{step} was switched to {version or 'the declared version'} since")
    return moved


def check_request(publication: Publication) -> None:
    """Refuse what can never be published, in any state of the tables."""
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
        check_partitions(change.table, ((day.day, add) for day in change.days for add in day.adds))
        for position in change.positions:
            if position.after == (position.before or 0) or position.id in (publication.id, publication.transaction):
                raise PublicationRefused(
                    f"{change.table}: the source position {position.id} does not move on from {position.before}.",
                    hint="Positions count from 1, and have names of their own.",
                )


def _refuse_twice(what: str, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PublicationRefused(f"{what} {twice[0]} is listed more than once in one publication.")


def _check_fit(prepared: Prepared, mains: Mapping[str, MainTable], active: Mapping[str, LogState]) -> None:
    """Schema, and all that FINISH will compute: an entry that cannot be finished would lock its tables for good."""
    for change in prepared.publication.tables:
        target = prepared.target(change.table)
        files = of_days(active[change.table], target)
        mains[change.table].require_writable(target, files)
        problems = mains[change.table].obstacles(change.table_schema, target, files)
        if problems:
            raise PublicationRefused(
                f"The staged rows do not fit the table {change.table}: " + "; ".join(problems) + ".",
                hint="A new nullable column is taken in; any other change rebuilds the table's whole history.",
            )
    closed_rows(prepared, "done", {}, dict.fromkeys(prepared.publication.writes, 0))


def _changed_days(change: TableChange, states: States, active: LogState, reasons: list[str]) -> set[date]:
    """Days of main that are not as they were when they were staged. An append commutes with other appends."""
    files = active.by_day()
    moved: set[date] = set()
    for day in change.days:
        current = files.get(day.day, frozenset())
        if change.mode == "append":
            if current & {add.path for add in day.adds}:
                moved.add(day.day)
                reasons.append(f"{change.table} {day.day} already has a file that is to be appended")
        elif (
            current != frozenset(day.expected.files)
            or _publication(states, change, day.day) != day.expected.publication
        ):
            moved.add(day.day)
            reasons.append(f"another writer published or changed {change.table} {day.day} since it was staged")
    return moved


def _publication(states: States, change: TableChange, day: date) -> str:
    state = states.get(TableDay(change.table, day))
    return state.publication if state else ""


def _passed_positions(change: TableChange, main: MainTable, reasons: list[str]) -> list[str]:
    """The source positions of an append that moved since they were read."""
    passed = [p.id for p in change.positions if (main.transaction(p.id) or 0) != (p.before or 0)]
    reasons += [f"{change.table} has already taken in {id}" for id in passed[:3]]
    return passed


def _before_images(
    publication: Publication, states: States, active: Mapping[str, LogState]
) -> dict[str, dict[date, Before]]:
    images: dict[str, dict[date, Before]] = {}
    for change in publication.tables:
        files = active[change.table].of_days(day.day for day in change.days)
        images[change.table] = {
            day: _before(states.get(TableDay(change.table, day)), current) for day, current in files.items()
        }
    return images


def _before(state: DayState | None, files: tuple[AddedFile, ...]) -> Before:
    if state is None:
        return Before(files=files)
    known = state.physical == fingerprints.physical(file.path for file in files)
    return Before(files=files, content=state.content if known else None, publication=state.publication)
