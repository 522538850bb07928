"""FINISH and CLOSE: whoever meets an open entry brings it to its end, forward or back."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial

from deltalake.exceptions import DeltaError

from backfill_assets import clock
from backfill_assets.errors import BackfillError, InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.delta_log import AddedFile, LogState, VersionGone
from backfill_assets.lakehouse.main_table import Files, MainTable, VersionPassed, of_days, read_afresh
from backfill_assets.lakehouse.open_handles import Known
from backfill_assets.lakehouse.records import Outcome, Prepared, Publication
from backfill_assets.lakehouse.retry import Retry
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish import readers_file
from backfill_assets.publish.closed_days import NOTHING_DECLARED, Declared
from backfill_assets.publish.crash_points import COMMITTED, FENCED, RESTORED, CrashPoint, Reached, nowhere
from backfill_assets.publish.log import Head, OpenEntry, PublicationLog, entry_sequence
from backfill_assets.publish.rows import Row, aborted_by_hand_row, aborting_rows, closed_rows
from backfill_assets.publish.unreadable import require_newest
from backfill_assets.text import format_ranges

_log = logging.getLogger("backfill_assets.publish")


class Finish:
    """Any step may be repeated at any time; a slow process finds its transaction or the fence."""

    def __init__(
        self,
        storage: Storage,
        *,
        retention_days: int = 30,
        reached: Reached = nowhere,
    ) -> None:
        self.storage = storage
        self.retention_days = retention_days
        self.log = PublicationLog(storage)
        self.reached = reached
        self.declared: Declared = NOTHING_DECLARED
        """What the declarations of its tables say of closed days."""
        self._known = Known()

    def finish(self, publication: str) -> Outcome:
        """How the publication ended. Raises :class:`CommitRefused` if a table takes no commit; the entry stays open."""
        retry = Retry(f"Finishing {publication}")
        while True:
            head = self.log.head()
            self.reached(CrashPoint.LOG_READ, publication)
            entry = head.state.open.get(publication)
            if entry is None:
                self.log.keep(head)  # whoever closed it may have died before the disk had it
                return self._outcome(head, publication)
            prepared = self.log.prepared_in(entry.file)
            outcome: Outcome = "aborted" if entry.aborting else "done"
            mark = Mark.of(prepared, entry)
            with suppress(VersionPassed):
                done = self._back(prepared, mark) if entry.aborting else self._forward(head, prepared, mark)
                if done and self._close(head, prepared, mark, outcome):
                    return outcome
            retry.lost("other writers commit to its tables or to the log")

    def require_open(self, publication: str) -> None:
        self._open_entry(self.log.head(), publication)

    def _open_entry(self, head: Head, publication: str) -> OpenEntry:
        if (entry := head.state.open.get(publication)) is None:
            outcome = self._outcome(head, publication)
            back = f"What is done is put back by: backfill rollback {publication}"
            hint = back if outcome == "done" else "Its days hold what they held before it: nothing is left to do."
            raise InvalidRequest(f"{publication} is not open: it is {outcome}.", hint=hint)
        return entry

    def abort(self, publication: str, *, by: str = "", reason: str = "") -> dict[str, str]:
        """Give an entry up for a person; returns tables that could not be put back, and why: readers who pin the log
        keep their version. Raises :class:`InvalidRequest` unless it is open.
        """
        said = f"aborted by {by or 'hand'}" + (f": {reason}" if reason else "")
        retry = Retry(f"Aborting {publication}")
        while True:
            head = self.log.head()
            entry = self._open_entry(head, publication)
            prepared = self.log.prepared_in(entry.file)
            if not entry.aborting:
                self._decide_abort(head, prepared, said)
            else:
                mark = Mark.of(prepared, entry)
                left = self._back_where_possible(prepared, mark)
                note = said + "".join(f"; {table} is left as it is ({why})" for table, why in left.items())
                row = aborted_by_hand_row(prepared.publication, by, note)
                with suppress(VersionPassed):
                    if self._close(head, prepared, mark, "aborted", left, (row,)):
                        return left
            retry.lost("other writers commit to its tables or to the log")

    def _back_where_possible(self, prepared: Prepared, mark: Mark) -> dict[str, str]:
        left: dict[str, str] = {}
        for table in sorted(prepared.publication.writes):
            try:
                self._back_one(prepared, mark, table)
            except (BackfillError, DeltaError, OSError) as error:
                left[table] = error.message if isinstance(error, BackfillError) else str(error)
        return left

    def _outcome(self, head: Head, publication: str) -> Outcome:
        outcome = self.log.outcome(head, publication)
        if outcome is None:
            raise PublicationRefused(f"The publication {publication} was never prepared.")
        return outcome

    def _forward(self, head: Head, prepared: Prepared, mark: Mark) -> bool:
        publication = prepared.publication.id
        for table in sorted(prepared.publication.writes):
            main = self._main(table)
            transaction = mark.read(main)
            self.reached(CrashPoint.TABLE_LOADED, publication)
            if transaction == COMMITTED:
                continue
            if transaction is not None:
                return False
            require_newest(table, main.version, head.state.versions.get(table))
            state = main.state()
            if not _as_before(prepared, table, main, state):
                self._decide_abort(head, prepared, f"another writer changed {table}")
                return False
            if not self._is_forward(publication) or not self._commit(prepared, mark, table, main, state):
                return False
            self.reached(CrashPoint.TABLE_COMMITTED, publication)
        return True

    def _is_forward(self, publication: str) -> bool:
        """Asks the log after the table was read: an abort by hand may have left the table without a fence.

        The write that kept the abort from its fence is in the version read, or comes after it and refuses this commit
        too.
        """
        entry = self.log.head().state.open.get(publication)
        return entry is not None and not entry.aborting

    def _commit(self, prepared: Prepared, mark: Mark, table: str, main: MainTable, state: LogState) -> bool:
        target, change = prepared.target(table), prepared.change(table)
        positions = {position.id: position.after for position in change.positions}
        return main.commit(
            prepared.publication.id,
            {**mark.saying(COMMITTED), **positions},
            target=target,
            active=of_days(state, target),
            schema=change.table_schema,
            at=clock.now(),
        )

    def _decide_abort(self, head: Head, prepared: Prepared, reason: str) -> None:
        publication = prepared.publication
        state = head.state.aborting(publication.id)
        if self.log.append(head, aborting_rows(publication, reason), lambda file: state):
            self.reached(CrashPoint.ABORT_DECIDED, publication.id)

    def _back(self, prepared: Prepared, mark: Mark) -> bool:
        for table in sorted(prepared.publication.writes):
            self._back_one(prepared, mark, table)
        return True

    def _back_one(self, prepared: Prepared, mark: Mark, table: str) -> None:
        retry = Retry(f"Taking {prepared.publication.id} back from {table}")
        while not read_afresh(retry.what, lambda: self._withdraw(prepared, mark, table)):
            retry.lost(f"other writers commit to {table}")

    def _withdraw(self, prepared: Prepared, mark: Mark, table: str) -> bool:
        publication = prepared.publication.id
        main = self._main(table)
        transaction = mark.read(main)
        self.reached(CrashPoint.TABLE_LOADED, publication)
        if transaction in (FENCED, RESTORED, PASSED):
            return True
        take_back = self._fence if transaction is None else self._restore
        withdrawn = take_back(prepared, mark, main)
        if withdrawn:
            self.reached(CrashPoint.FENCED if transaction is None else CrashPoint.RESTORED, publication)
        return withdrawn

    def _fence(self, prepared: Prepared, mark: Mark, main: MainTable) -> bool:
        publication = prepared.publication.id
        return main.commit(publication, mark.saying(FENCED), target={}, active={}, schema=None, at=clock.now())

    def _restore(self, prepared: Prepared, mark: Mark, main: MainTable) -> bool:
        """Days that others changed since are left alone."""
        publication, positions = prepared.publication.id, prepared.change(main.name).positions
        active = of_days(main.state(), prepared.target(main.name))
        target = files_to_restore(prepared, main.name, active)
        complete = len(target) == len(active)
        if positions and not complete:
            target = {}  # positions and rows only ever move together: what stays of them stays whole
        back = {position.id: position.before or 0 for position in positions if complete}
        return main.commit(
            publication,
            {**mark.saying(RESTORED), **back},
            target=target,
            active=active,
            schema=None,
            at=clock.now(),
        )

    def _close(
        self,
        head: Head,
        prepared: Prepared,
        mark: Mark,
        outcome: Outcome,
        left: Collection[str] = (),
        also: Sequence[Row] = (),
    ) -> bool:
        publication, state = prepared.publication, head.state
        mains = {table: self._main(table) for table in sorted(publication.writes - set(left))}
        if not all(_has_commit(main, mark, outcome) for main in mains.values()):
            return False
        own = {table: self._own_version(prepared, main, outcome) for table, main in mains.items()}
        self.reached(CrashPoint.CLOSING, publication.id)
        versions = {**state.versions, **own}
        closing = partial(state.closing, publication.id, outcome, versions, *self.log.index(head, state.since))
        if closed := self.log.append(head, [*closed_rows(prepared, outcome, versions, own), *also], closing):
            self.log.remember_closed(publication.id, versions)
            self.reached(CrashPoint.CLOSED, publication.id)
            if readers_file.is_kept(head):
                done = mains if outcome == "done" else {}
                schemas = {table: prepared.change(table).table_schema for table in done}
                readers_file.renew(self.log, versions, mains, schemas)
            self._known.give_back(self.storage, mains)
            _tell(publication, outcome, own)
        return closed

    def _own_version(self, prepared: Prepared, main: MainTable, outcome: Outcome) -> int:
        """The newest version if the own one was cleaned up and the days are as it left them."""
        try:
            return main.commit_version(prepared.publication.id)
        except VersionGone:
            done = outcome == "done"
            left = prepared.target(main.name) if done else prepared.before_files(main.name)
            now = of_days(main.state(), left)
            if any(now[day].keys() != files.keys() for day, files in left.items()):
                raise
            return main.version

    def _main(self, table: str) -> MainTable:
        main = MainTable.open(self.storage, table, self._known)
        if main is None:
            raise PublicationRefused(
                f"The table {table} has disappeared while a publication to it was open.",
                hint=f"Put the folder {self.storage.uri(table)} back from a backup, or give the publication up: "
                "backfill maintain --abort PUBLICATION",
            )
        return main


def _tell(publication: Publication, outcome: Outcome, versions: Mapping[str, int]) -> None:
    if not _log.isEnabledFor(logging.INFO):
        return
    made = publication.provenance
    days = {change.table: format_ranges(day.day for day in change.days) for change in publication.tables}
    where = {"publication": publication.id, "kind": publication.kind, "run": made.run, "campaign": made.campaign}
    if len(days) == 1:
        [(where["table"], where["day"])] = days.items()
    fields = {**where, "outcome": outcome, "days": days, "versions": versions}
    _log.info("%s is closed: %s", publication.id, outcome, extra={"fields": fields})


def _has_commit(main: MainTable, mark: Mark, outcome: Outcome) -> bool:
    """A writer without put-if-absent may have overwritten the commit."""
    version = mark.read(main)
    return version == COMMITTED if outcome == "done" else version in (FENCED, RESTORED)


def _as_before(prepared: Prepared, table: str, main: MainTable, state: LogState) -> bool:
    """Only a bypassing writer can have changed main since."""
    before, target = prepared.before_files(table), prepared.target(table)
    active = of_days(state, before)
    same_files = all(active[day].keys() == files.keys() for day, files in before.items())
    positions = prepared.change(table).positions
    same_positions = all((main.transaction(p.id) or 0) == (p.before or 0) for p in positions)
    return same_files and same_positions and not main.obstacles(prepared.change(table).table_schema, target, active)


def files_to_restore(prepared: Prepared, table: str, active: Files) -> dict[date, dict[str, AddedFile]]:
    """What each day gets back, if it is exactly as we made it; of appends our files go, later ones stay."""
    ours, before = prepared.target(table), prepared.before_files(table)
    if prepared.change(table).mode == "replace":
        return {day: before[day] for day in ours if active[day].keys() == ours[day].keys()}
    added = {day.day: {add.path for add in day.adds} for day in prepared.change(table).days}
    return {
        day: {path: file for path, file in active[day].items() if path not in paths}
        for day, paths in added.items()
        if paths <= active[day].keys()
    }


# ------------------------------------------------------------------ the mark left in each table

PASSED = COMMITTED + 100
"""A later publication committed: ours is closed, its end on the log."""
_STATES = 4


@dataclass(frozen=True)
class Mark:
    """The Delta transaction of a publication; ``base`` is 0 if it has an id of its own.

    A stream's own ids would leave 8,640 transactions a day in each table, and Delta's rule to forget them would forget
    source positions. So its publications share one, with numbers that grow by entry. An open entry locks its tables: a
    greater number is of a publication after ours was closed.
    """

    id: str
    base: int

    @classmethod
    def of(cls, prepared: Prepared, entry: OpenEntry) -> Mark:
        return cls.at(prepared, entry_sequence(entry.file))

    @classmethod
    def at(cls, prepared: Prepared, sequence: int) -> Mark:
        publication = prepared.publication
        return cls(publication.transaction, _STATES * sequence) if publication.transaction else cls(publication.id, 0)

    def read(self, main: MainTable) -> int | None:
        return self.of_number(main.transaction(self.id))

    def of_number(self, number: int | None) -> int | None:
        if number is None or number < self.base:
            return None
        return PASSED if self.base and number >= self.base + _STATES else number - self.base

    def saying(self, state: int) -> dict[str, int]:
        return {self.id: self.base + state}
