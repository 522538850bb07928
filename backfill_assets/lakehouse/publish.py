"""The publication protocol: prepare, finish, close. Whoever meets an open entry finishes it: nothing waits.

The steps survived an exhaustive exploration of two to three actors with crashes; ``docs/architecture.md`` tells what
breaks when a rule is dropped, and a committed mutant per rule shows that a test notices.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile, LogState, read_log
from backfill_assets.lakehouse.main_table import MainTable, check_partitions
from backfill_assets.lakehouse.publication import (
    Before,
    DayContent,
    DayState,
    Expected,
    InputRead,
    Outcome,
    Prepared,
    Publication,
    TableChange,
    logical_of,
)
from backfill_assets.lakehouse.publication_log import (
    Head,
    HeadState,
    OpenEntry,
    PublicationLog,
    Row,
    content_columns,
    remembered,
    utc_now,
)
from backfill_assets.lakehouse.storage import Storage

FENCED, COMMITTED, RESTORED = 0, 1, 2
"""The transaction versions that a publication leaves in a table."""


class Step(enum.StrEnum):
    """Every place at which a process may die or be overtaken; tests stop, interleave and kill at each."""

    LOG_READ = "log read"
    TABLES_READ = "tables read"
    PREPARED = "prepared"
    TABLE_LOADED = "table loaded"
    TABLE_COMMITTED = "table committed"
    ABORT_DECIDED = "abort decided"
    FENCED = "fenced"
    RESTORED = "restored"
    CLOSING = "closing"
    CLOSED = "closed"
    RECLAIM_INTENDED = "reclaim intended"
    RECLAIM_DELETED = "reclaim deleted"


@dataclass(frozen=True)
class Pin:
    """What was published when staging began: captured *before* any input is read."""

    expected: Mapping[tuple[str, str], Expected]
    inputs: Mapping[str, InputRead]
    states: Mapping[tuple[str, str], DayState]
    sequence: int


@dataclass(frozen=True)
class Published:
    """A publication that is in the tables; ``versions`` are the commits it made."""

    publication: str
    versions: Mapping[str, int]


@dataclass(frozen=True)
class Moved:
    """Main or an input moved on since staging: these days, and only these, are to be staged again."""

    days: Mapping[str, frozenset[str]] = field(default_factory=dict)
    inputs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


class Publisher:
    """Brings staged days into main, and undoes it. Safe with any number of other publishers, alive or dead."""

    def __init__(
        self,
        storage: Storage,
        *,
        retention_days: int = 30,
        now: Callable[[], datetime] = utc_now,
        reached: Callable[[Step, str], None] = lambda step, about: None,
    ) -> None:
        self.storage = storage
        self.retention_days = retention_days
        self.now = now
        self.log = PublicationLog(storage, now)
        self.reached = reached

    # ------------------------------------------------------------------ stage

    def pin(
        self,
        writes: Mapping[str, Iterable[str]],
        reads: Mapping[str, Iterable[str]],
        exact: Iterable[str] = (),
        also: Iterable[str] = (),
    ) -> Pin:
        """Capture the expected state of the days to write and the versions of the days to read.

        Inputs are read at the version of the last closed entry, so that a half-published table is never read.
        ``exact`` inputs may not even gain rows until publishing; of tables in ``also`` only the states are wanted.
        """
        head = self.log.head()
        states = self.log.day_states(head, {*writes, *reads, *also})
        expected: dict[tuple[str, str], Expected] = {}
        for table, days in writes.items():
            active = self._newest(table).by_day()
            for day in days:
                state = states.get((table, day))
                expected[table, day] = Expected(
                    files=tuple(sorted(active.get(day, ()))),
                    publication=state.publication if state else "",
                )
        strict = frozenset(exact)
        inputs = {
            table: InputRead(
                table=table,
                version=head.state.versions.get(table),
                days=self._logicals(head, states, table, days),
                exact=table in strict,
            )
            for table, days in reads.items()
        }
        return Pin(expected, inputs, states, head.version)

    def _newest(self, table: str) -> LogState:
        main = MainTable.open(self.storage, table)
        return main.state() if main else LogState(-1, {}, {})

    def _at(self, table: str, version: int | None) -> LogState:
        return LogState(-1, {}, {}) if version is None else read_log(self.storage, table, version)

    def _logicals(
        self,
        head: Head,
        states: Mapping[tuple[str, str], DayState],
        table: str,
        days: Iterable[str],
    ) -> dict[str, str]:
        active = self._at(table, head.state.versions.get(table)).by_day()
        return {
            day: logical_of(states.get((table, day)), fingerprints.physical(active.get(day, ())))
            for day in sorted(set(days))
        }

    # ---------------------------------------------------------------- publish

    def publish(self, publication: Publication) -> Published | Moved:
        """Prepare, commit to each table, close. Refused days come back as :class:`Moved`; nothing is half done.

        Raises :class:`PublicationRefused` when the staged rows can never be published (schema, partition).
        """
        earlier = self._known(publication)
        if earlier is not None:
            return earlier
        for change in publication.tables:
            check_partitions(
                change.table,
                ((day.day, add) for day in change.days for add in day.adds),
            )
        prepared = self._prepare(publication)
        if isinstance(prepared, Moved):
            return prepared
        return self._outcome_of(publication, self.finish(publication.id))

    def _known(self, publication: Publication) -> Published | None:
        """A publication that an earlier attempt already prepared is finished, never prepared twice."""
        head = self.log.head()
        if publication.id in head.state.open:
            outcome: Outcome | None = self.finish(publication.id)
        else:
            outcome = head.state.outcomes.get(publication.id)
        return self._published(publication) if outcome == "done" else None

    def _outcome_of(self, publication: Publication, outcome: Outcome) -> Published | Moved:
        if outcome == "done":
            return self._published(publication)
        days = {change.table: frozenset(day.day for day in change.days) for change in publication.tables}
        return Moved(
            days=days,
            reasons=("somebody wrote to the table while the publication was under way",),
        )

    def _published(self, publication: Publication) -> Published:
        versions = {table: self._main(table).commit_version(publication.id) for table in publication.writes}
        return Published(publication.id, versions)

    def _prepare(self, publication: Publication) -> Prepared | Moved:
        """Log first, then the tables, then the append on that same version of the log."""
        while True:
            head = self.log.head()
            self.reached(Step.LOG_READ, publication.id)
            blocking = _blocking(head.state, publication)
            if blocking:
                for entry in blocking:
                    self.finish(entry.publication)
                continue
            mains = self._open_all(publication)
            self.reached(Step.TABLES_READ, publication.id)
            states = self.log.day_states(head, publication.writes | publication.reads)
            active = {name: main.state() for name, main in mains.items()}
            moved = self._moved(publication, head, states, mains, active)
            if moved is not None:
                return moved
            prepared = Prepared(
                publication=publication,
                before=_before_images(publication, states, active),
            )
            if self.log.append(head, _prepared_rows(prepared), _opened(head, publication)):
                self.reached(Step.PREPARED, publication.id)
                return prepared

    def _open_all(self, publication: Publication) -> dict[str, MainTable]:
        mains = {}
        for change in publication.tables:
            main = MainTable.open(self.storage, change.table)
            mains[change.table] = main or MainTable.create(
                self.storage, change.table, change.table_schema, self.retention_days
            )
            mains[change.table].check_schema(change.table_schema)
        return mains

    def _moved(
        self,
        publication: Publication,
        head: Head,
        states: Mapping[tuple[str, str], DayState],
        mains: Mapping[str, MainTable],
        active: Mapping[str, LogState],
    ) -> Moved | None:
        days: dict[str, frozenset[str]] = {}
        reasons: list[str] = []
        for change in publication.tables:
            found = self._reclaimed(head, change, reasons)
            found |= _changed_days(change, states, active[change.table], reasons)
            found |= _passed_positions(change, mains[change.table], reasons)
            if found:
                days[change.table] = frozenset(found)
        inputs: dict[str, frozenset[str]] = {}
        for read in publication.inputs:  # a table is listed once for every version of it that was read
            if withdrawn := self._withdrawn(read, head, states, reasons):
                inputs[read.table] = inputs.get(read.table, frozenset()) | withdrawn
        return Moved(days, inputs, tuple(reasons)) if days or inputs else None

    def _reclaimed(self, head: Head, change: TableChange, reasons: list[str]) -> set[str]:
        """Days with a staged file that is being, or was, reclaimed: main must never name a file that is not there."""
        day_of = {f"{change.table}/{add.path}": day.day for day in change.days for add in day.adds}
        doomed = {path for file in head.state.reclaiming.values() for path in self.log.intended(file)}
        gone = (doomed & day_of.keys()) | set(self.storage.missing(day_of))
        reasons += [f"the staged file {path} was reclaimed" for path in sorted(gone)[:3]]
        return {day_of[path] for path in gone}

    def _withdrawn(
        self,
        read: InputRead,
        head: Head,
        states: Mapping[tuple[str, str], DayState],
        reasons: list[str],
    ) -> set[str]:
        """Input days whose rows were withdrawn or replaced since they were read. Gained rows make us stale, no more."""
        now = self._logicals(head, states, read.table, read.days)
        changed = {day for day, logical in read.days.items() if now[day] != logical}
        if not changed:
            return set()
        was = self._at(read.table, read.version).by_day()
        has = self._at(read.table, head.state.versions.get(read.table)).by_day()
        kept = {day for day in changed if not read.exact and was.get(day, frozenset()) <= has.get(day, frozenset())}
        withdrawn = changed - kept
        reasons += [f"{read.table} {day} was replaced after it was read" for day in sorted(withdrawn)[:3]]
        return withdrawn

    # ----------------------------------------------------------------- finish

    def finish(self, publication: str) -> Outcome:
        """Bring an open entry to its end, forward or back, from wherever anybody left it."""
        while True:
            head = self.log.head()
            self.reached(Step.LOG_READ, publication)
            entry = head.state.open.get(publication)
            if entry is None:
                outcome = self.log.outcome(head, publication)
                if outcome is None:
                    raise PublicationRefused(f"The publication {publication} was never prepared.")
                return outcome
            prepared = self.log.prepared(entry)
            done = self._back(prepared) if entry.aborting else self._forward(head, prepared)
            if done and self._close(head, prepared, "aborted" if entry.aborting else "done"):
                return "aborted" if entry.aborting else "done"

    def recover(self) -> dict[str, Outcome]:
        """Finish every open entry: what a new process does first, and all that recovery is."""
        return {publication: self.finish(publication) for publication in self.log.head().state.open}

    def _forward(self, head: Head, prepared: Prepared) -> bool:
        """Commit to each table in order; False asks for a restart with a fresh look at the log."""
        publication = prepared.publication.id
        for table in sorted(prepared.publication.writes):
            main = self._main(table)
            transaction = main.transaction(publication)
            self.reached(Step.TABLE_LOADED, publication)
            if transaction == COMMITTED:
                continue
            if transaction is not None:
                return False
            state = main.state()
            if not _as_before(prepared, table, main, state):
                self._decide_abort(head, prepared, f"{table} was written by somebody else")
                return False
            target = prepared.target(table)
            change = prepared.change(table)
            transactions = {
                publication: COMMITTED,
                **{p.id: p.after for p in change.positions},
            }
            if not main.commit(
                publication,
                transactions,
                target=target,
                active=_files(state, target),
                schema=change.table_schema,
                at=self.now(),
            ):
                return False
            self.reached(Step.TABLE_COMMITTED, publication)
        return True

    def _decide_abort(self, head: Head, prepared: Prepared, reason: str) -> None:
        publication = prepared.publication
        entry = head.state.open[publication.id].model_copy(update={"aborting": True})
        state = head.state.model_copy(update={"open": {**head.state.open, publication.id: entry}})
        rows = [{**_common(publication), "event": "aborting", "reason": reason}]
        if self.log.append(head, rows, lambda file: state):
            self.reached(Step.ABORT_DECIDED, publication.id)

    def _back(self, prepared: Prepared) -> bool:
        """Restore each table that was committed to, fence each that was not: a late commit then cannot succeed."""
        publication = prepared.publication.id
        for table in sorted(prepared.publication.writes):
            while True:
                main = self._main(table)
                transaction = main.transaction(publication)
                self.reached(Step.TABLE_LOADED, publication)
                if transaction in (FENCED, RESTORED):
                    break
                if transaction is None:
                    if main.commit(
                        publication,
                        {publication: FENCED},
                        target={},
                        active={},
                        schema=None,
                        at=self.now(),
                    ):
                        self.reached(Step.FENCED, publication)
                        break
                elif self._restore(prepared, table, main):
                    self.reached(Step.RESTORED, publication)
                    break
        return True

    def _restore(self, prepared: Prepared, table: str, main: MainTable) -> bool:
        """Put back the before-image of the days that still are as we made them; others' days are left alone."""
        publication = prepared.publication.id
        ours = prepared.target(table)
        active = _files(main.state(), ours)
        untouched = [day for day in ours if active[day].keys() == ours[day].keys()]
        before = prepared.before_files(table)
        positions = {p.id: p.before or 0 for p in prepared.change(table).positions}
        return main.commit(
            publication,
            {publication: RESTORED, **positions},
            target={day: before[day] for day in untouched},
            active=active,
            schema=None,
            at=self.now(),
        )

    def _close(self, head: Head, prepared: Prepared, outcome: Outcome) -> bool:
        publication = prepared.publication
        versions = {table: self._main(table).commit_version(publication.id) for table in publication.writes}
        self.reached(Step.CLOSING, publication.id)
        state = head.state
        rows = _closed_rows(prepared, outcome, {**state.versions, **versions}, versions)

        def closed(file: str) -> HeadState:
            index, since = self.log.index(head, state.since)
            return state.model_copy(
                update={
                    "open": {id: entry for id, entry in state.open.items() if id != publication.id},
                    "versions": {**state.versions, **versions},
                    "index": index,
                    "since": (*since, file) if outcome == "done" else since,
                    "outcomes": remembered(state.outcomes, publication.id, outcome),
                }
            )

        if not self.log.append(head, rows, closed):
            return False
        self.reached(Step.CLOSED, publication.id)
        return True

    def _main(self, table: str) -> MainTable:
        main = MainTable.open(self.storage, table)
        if main is None:
            raise PublicationRefused(
                f"The table {table} has disappeared while a publication to it was open.",
                hint=f"Put the folder {self.storage.uri(table)} back from a backup.",
            )
        return main


def _blocking(state: HeadState, publication: Publication) -> list[OpenEntry]:
    """Open entries on a table that ``publication`` writes or reads: an open entry locks whole tables."""
    touched = publication.writes | publication.reads
    return [entry for entry in state.open.values() if entry.writes & touched]


def _opened(head: Head, publication: Publication) -> Callable[[str], HeadState]:
    def state(file: str) -> HeadState:
        entry = OpenEntry(
            publication=publication.id,
            file=file,
            writes=publication.writes,
            reads=publication.reads,
        )
        return head.state.model_copy(update={"open": {**head.state.open, publication.id: entry}})

    return state


def _changed_days(
    change: TableChange,
    states: Mapping[tuple[str, str], DayState],
    active: LogState,
    reasons: list[str],
) -> set[str]:
    """Days of main that are not as they were when they were staged. An append commutes with other appends."""
    if change.mode == "append":
        return set()
    files = active.by_day()
    moved = set()
    for day in change.days:
        state = states.get((change.table, day.day))
        same_files = files.get(day.day, frozenset()) == frozenset(day.expected.files)
        same_publication = (state.publication if state else "") == day.expected.publication
        if not (same_files and same_publication):
            moved.add(day.day)
            reasons.append(f"{change.table} {day.day} was published or written by somebody else since it was staged")
    return moved


def _passed_positions(change: TableChange, main: MainTable, reasons: list[str]) -> set[str]:
    """All days of an append whose source position is not where it was read from: its rows may be in main already."""
    passed = [p for p in change.positions if (main.transaction(p.id) or 0) != (p.before or 0)]
    reasons += [f"{change.table} has already taken in {position.id}" for position in passed[:3]]
    return {day.day for day in change.days} if passed else set()


def _before_images(
    publication: Publication,
    states: Mapping[tuple[str, str], DayState],
    active: Mapping[str, LogState],
) -> dict[str, dict[str, Before]]:
    images: dict[str, dict[str, Before]] = {}
    for change in publication.tables:
        files = active[change.table].of_days(day.day for day in change.days)
        images[change.table] = {day: _before(states.get((change.table, day)), found) for day, found in files.items()}
    return images


def _before(state: DayState | None, files: tuple[AddedFile, ...]) -> Before:
    if state is None:
        return Before(files=files)
    known = state.physical == fingerprints.physical(file.path for file in files)
    return Before(
        files=files,
        content=state.content if known else None,
        publication=state.publication,
    )


def _as_before(prepared: Prepared, table: str, main: MainTable, state: LogState) -> bool:
    """Is main still as prepare found it? Only a writer that bypasses the protocol can have changed it."""
    before = prepared.before_files(table)
    active = _files(state, before)
    same_files = all(active[day].keys() == files.keys() for day, files in before.items())
    positions = prepared.change(table).positions
    return same_files and all((main.transaction(p.id) or 0) == (p.before or 0) for p in positions)


def _files(state: LogState, days: Iterable[str]) -> dict[str, dict[str, AddedFile]]:
    return {day: {file.path: file for file in files} for day, files in state.of_days(days).items()}


def _common(publication: Publication) -> Row:
    provenance = publication.provenance
    return {
        "publication": publication.id,
        "kind": publication.kind,
        "run": provenance.run,
        "launched_by": provenance.launched_by,
        "git_commit": provenance.git_commit,
        "campaign": provenance.campaign,
        "reason": provenance.reason,
    }


def _day_rows(prepared: Prepared, content: bool) -> list[Row]:
    rows: list[Row] = []
    for change in prepared.publication.tables:
        target = prepared.target(change.table)
        for day in change.days:
            result: DayContent | None = prepared.result(change.table, day) if content else None
            rows.append(
                {
                    **_common(prepared.publication),
                    **content_columns(result),
                    "table": change.table,
                    "day": day.day,
                    "physical": fingerprints.physical(target[day.day]),
                    "replaces": prepared.before[change.table][day.day].publication,
                }
            )
    return rows


def _prepared_rows(prepared: Prepared) -> list[Row]:
    header = {
        **_common(prepared.publication),
        "event": "prepared",
        "detail": prepared.model_dump_json(),
    }
    return [
        header,
        *({**row, "event": "preparing day"} for row in _day_rows(prepared, content=False)),
    ]


def _closed_rows(
    prepared: Prepared,
    outcome: Outcome,
    versions: Mapping[str, int],
    own: Mapping[str, int],
) -> list[Row]:
    header = {
        **_common(prepared.publication),
        "event": "closed",
        "outcome": outcome,
        "detail": json.dumps(dict(sorted(versions.items()))),
    }
    if outcome == "aborted":
        return [header]
    days = [
        {
            **row,
            "event": "published",
            "outcome": outcome,
            "table_version": own[str(row["table"])],
        }
        for row in _day_rows(prepared, content=True)
    ]
    return [header, *days]
