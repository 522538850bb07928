"""Rewrites lost files of a table's Delta log from the publication log: every version becomes as it was.

delta-rs makes a lost commit again in a scratch folder, as FINISH made it, and its bytes are put in place. A foreign
one is inferred: what the next publication found and no commit had brought. A lost beginning becomes a checkpoint of
the oldest version.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest, LakehouseBusy, LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import Actions, AddedFile, LogState, apply_actions, commit_file, read_log
from backfill_assets.lakehouse.log_folder import LogFolder, json_lines, without_nulls
from backfill_assets.lakehouse.main_table import Files, MainTable, of_days, with_new_columns
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import Entry, Head
from backfill_assets.publish.pinned import pinned_files
from backfill_assets.publish.publisher import Publisher
from backfill_assets.publish.table_past import Deed, KnownCommit, known_commits
from backfill_assets.text import format_count

EVENT = "mended"
ASIDE = "_mended"
_MOST_VERSIONS = 200
_MOST_NAMED = 5
_STATE = ["add", "txn", "metaData", "protocol"]


@dataclass(frozen=True)
class MendPlan:
    """``files`` are written in order; the last one closes the gap."""

    table: str
    commits: Mapping[int, str] = field(default_factory=dict)
    checkpoint: int | None = None
    aside: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    foreign: tuple[date, ...] = ()
    """Days with foreign writes, which will differ from the publication log."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def is_needed(self) -> bool:
        return bool(self.files or self.aside)

    def require_files(self) -> None:
        """Raises :class:`PublicationRefused` if data files are gone."""
        if self.gone:
            named = ", ".join(self.gone[:_MOST_NAMED])
            more = f", and {len(self.gone) - _MOST_NAMED} more" if len(self.gone) > _MOST_NAMED else ""
            raise PublicationRefused(
                f"{self.table} cannot be mended: {format_count(len(self.gone), 'file')} of it "
                f"{'is' if len(self.gone) == 1 else 'are'} not there: {named}{more}.",
                hint="Put these files back from a backup, or from where they were moved to, and run this again.",
            )


def plan_mend(publisher: Publisher, table: str) -> MendPlan:
    """Empty for a readable table. Raises :class:`InvalidRequest` if nothing was published to it, and the reading error
    if no file of its log is lost.
    """
    head = publisher.log.head()
    if table not in head.state.versions:
        raise InvalidRequest(f"Nothing was published to {table}.", hint="backfill status shows the tables.")
    with tempfile.TemporaryDirectory() as scratch:
        found = _Mend(publisher, table, head, Path(scratch)).plan()
    if not (found.is_needed or found.gone):
        _require_readable(publisher, table)
    return found


def carry_out(publisher: Publisher, plan: MendPlan, by: str = "", reason: str = "") -> None:
    """Can be repeated from any point."""
    plan.require_files()
    storage, moment = publisher.storage, clock.now()
    for path in plan.aside:
        storage.write_bytes(f"{plan.table}/{ASIDE}/{moment:%Y%m%dT%H%M%S}/{Path(path).name}", storage.read_bytes(path))
        if path not in plan.files:
            storage.delete(path)
    for path, data in plan.files.items():
        if path in plan.aside:
            storage.replace_bytes(path, data)
        elif not storage.put_if_absent(path, data) and storage.read_bytes(path) != data:
            raise LakehouseBusy(f"{path} was written by another process meanwhile.", hint="Run this again.")
    _require_readable(publisher, plan.table)
    detail = json.dumps({"commits": plan.commits, "checkpoint": plan.checkpoint, "aside": plan.aside})
    row = {"event": EVENT, "table": plan.table, "launched_by": by, "reason": reason, "detail": detail}

    def entry(head: Head) -> Entry:
        return [row], lambda file: head.state

    publisher.log.settle(f"Recording that {plan.table} was mended", entry)


def _require_readable(publisher: Publisher, table: str) -> None:
    main = MainTable.open(publisher.storage, table)
    if main is None:
        raise LakehouseUnusable(f"{table} has no log.", hint="Run this again.")
    main.handle.metadata()
    read_log(publisher.storage, table, main.version)
    pinned_files(publisher.log, publisher.log.head(), table)


# ------------------------------------------------------------------ the table, version by version


@dataclass
class _Table:
    name: str
    version: int = -1
    active: dict[str, AddedFile] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)

    def take(self, version: int, actions: Actions) -> None:
        apply_actions(self.active, {}, actions)
        for action in actions:
            for kind, value in action.items():
                if kind == "txn":
                    self.transactions[value["appId"]] = value["version"]
                elif kind in ("protocol", "metaData"):
                    self.settings[kind] = without_nulls(value)
        self.since = {path: self.since.get(path, version) for path in self.active}
        self.version = version

    def change(self, came: Mapping[str, AddedFile], went: Iterable[str], version: int) -> None:
        self.active |= came
        self.since |= dict.fromkeys(came, version)
        for path in went:
            self.active.pop(path, None)

    def carry_out(self, version: int, deed: Deed) -> None:
        for day in {*deed.target, *deed.active}:
            target = deed.target.get(day, {})
            for path in deed.active.get(day, {}):
                if path not in target:
                    self.active.pop(path, None)
            self.active |= target
        self.transactions |= deed.transactions
        if deed.schema is not None:
            ours = self.settings["metaData"]
            self.settings = {
                **self.settings,
                "metaData": {**ours, "schemaString": with_new_columns(ours["schemaString"], deed.schema)},
            }
        self.take(version, [])

    @property
    def state(self) -> LogState:
        return LogState(self.version, self.active)

    def days(self, days: Iterable[date]) -> dict[date, dict[str, AddedFile]]:
        return of_days(self.state, days)


@dataclass
class _Written:
    deed: Deed
    settings: Mapping[str, Any]
    at: datetime
    known: bool


class _Mend:
    def __init__(self, publisher: Publisher, table: str, head: Head, scratch: Path) -> None:
        self.publisher, self.table, self.head, self.scratch = publisher, table, head, scratch
        self.storage = publisher.storage
        self.folder = LogFolder.of(self.storage, table)
        self.made = 0
        self.written: dict[int, _Written] = {}

    @cached_property
    def pinned(self) -> int:
        return self.head.state.versions[self.table]

    @cached_property
    def newest(self) -> int:
        return max(self.folder.newest, self.pinned)

    def plan(self) -> MendPlan:
        table, shown = self._replayed()
        commits = {
            version: made.deed.name if made.known else ""
            for version, made in sorted(self.written.items())
            if version >= self.oldest
        }
        return MendPlan(
            self.table,
            commits,
            self.oldest or None,
            tuple(self._damaged()),
            tuple(self.storage.missing(sorted(f"{self.table}/{path}" for path in {*shown, *table.active}))),
            tuple(self._foreign(table)),
            dict(self._files()),
        )

    def _replayed(self) -> tuple[_Table, set[str]]:
        table, known = self._begin()
        shown: set[str] = set()
        for version in range(table.version + 1, self.newest + 1):
            self._step(table, version, known.get(version))
            if version == self.pinned:
                shown = set(table.active)
            if self.oldest and version == self.oldest:
                self.beginning = replace(table, active=dict(table.active), transactions=dict(table.transactions))
        return table, shown

    def _damaged(self) -> Iterator[str]:
        damaged = self.folder.damaged_checkpoints()
        for version in damaged:
            yield from self.folder.checkpoints[version]
        yield from (commit_file(self.table, each) for each in self.written if each in self.folder.commits)
        hint = self.folder.hint
        if hint is not None and (hint in damaged or hint not in self.folder.checkpoints):
            yield f"{self.table}/_delta_log/_last_checkpoint"

    # -------------------------------------------------------------- where it begins

    @cached_property
    def base(self) -> int | None:
        """The sound checkpoint before the first lost commit; None also with all commits."""
        below = self.newest
        while (base := self.folder.sound_checkpoint(below)) is not None:
            if all(number in self.folder.commits for number in range(self._first_named, base)):
                return base
            below = base - 1
        return None

    @cached_property
    def _first_named(self) -> int:
        if self.folder.is_from_the_beginning:
            return 0
        return min((*self.folder.commits, *self.folder.checkpoints), default=0)

    @cached_property
    def oldest(self) -> int:
        if self.base is not None:
            return 0
        if not self.folder.commits:
            return max(0, self.newest - _MOST_VERSIONS)
        return 0 if self.folder.is_from_the_beginning else self._first_named

    def _begin(self) -> tuple[_Table, dict[int, KnownCommit]]:
        table = _Table(self.table)
        if self.base is not None:
            table.take(self.base, self.folder.checkpoint(self.base, _STATE) or [])
            return table, known_commits(self.publisher.log, self.table, range(self.base + 1, self.newest + 1))
        return table, known_commits(self.publisher.log, self.table)

    # -------------------------------------------------------------- from version to version

    def _step(self, table: _Table, version: int, known: KnownCommit | None) -> None:
        if known is not None and known.outcome == "done":
            self._follow_traces(table, version, known.prepared.before_files(self.table))
        actions = self.folder.actions(version) if version in self.folder.commits else None
        if actions is None:
            self._anew(table, version, known)
        else:
            table.take(version, actions)
        self._compare_with_checkpoint(table, version)

    def _anew(self, table: _Table, version: int, known: KnownCommit | None) -> None:
        deed = known.deed(table.state, table.transactions) if known else Deed(f"{EVENT}-{version}", {}, {}, {})
        at = known.at if known else clock.now()
        self.written[version] = _Written(deed, dict(table.settings), at, known=known is not None)
        if version == 0:
            table.take(version, self._first_commit())
        else:
            table.carry_out(version, deed)

    def _follow_traces(self, table: _Table, version: int, expected: Files) -> None:
        """Files found just before ``version``, less later changes, are of the newest lost foreign commit."""
        lost = max((each for each, made in self.written.items() if not made.known and each), default=None)
        if lost is None:
            return
        for day, files in table.days(expected).items():
            came = {path: file for path, file in expected[day].items() if path not in files}
            went = {
                path: each for path, each in files.items() if path not in expected[day] and table.since[path] < lost
            }
            if came or went:
                made = self.written[lost]
                target = {**made.deed.target, day: {**made.deed.target.get(day, {}), **came}}
                active = {**made.deed.active, day: {**made.deed.active.get(day, {}), **went}}
                made.deed = replace(made.deed, target=target, active=active)
                table.change(came, went, lost)
                if self.oldest and lost <= self.oldest < version:
                    self.beginning.change(came, went, lost)

    def _compare_with_checkpoint(self, table: _Table, version: int) -> None:
        if version not in self.folder.checkpoints or not self.written:
            return
        actions = self.folder.checkpoint(version, _STATE)
        if actions is not None:
            then = _Table(self.table)
            then.take(version, actions)
            days = {*then.state.files_by_day(), *table.state.files_by_day()}
            self._follow_traces(table, version, then.days(days))
            table.settings, table.transactions = then.settings, then.transactions

    def _foreign(self, table: _Table) -> Iterator[date]:
        states = self.publisher.log.day_states(self.head, {self.table})
        known = {key.day: state.physical for key, state in states.items()}
        physical = {day: fingerprints.physical(paths) for day, paths in table.state.by_day().items()}
        for day in sorted({*known, *physical}):
            if known.get(day, fingerprints.EMPTY_DAY) != physical.get(day, fingerprints.EMPTY_DAY):
                yield day

    # -------------------------------------------------------------- the files, made by delta-rs

    def _files(self) -> Iterator[tuple[str, bytes]]:
        """Newest first, so that no reader takes half a history for the table."""
        for version in sorted(self.written, reverse=True):
            if version >= self.oldest:
                made = self.written[version]
                data = self._commit(made) if version else json_lines(self._first_commit())
                yield commit_file(self.table, version), data
        if self.oldest:
            yield from self._checkpoint(self.oldest)

    def _commit(self, made: _Written) -> bytes:
        table, deed = self._scratch_table(made.settings), made.deed
        main = _opened(table, self.table)
        if any(deed.active.values()):
            none: Files = {day: {} for day in deed.active}
            main.commit("before", {}, target=deed.active, active=none, schema=None, at=made.at)
            main = _opened(table, self.table)
        active = {day: deed.active.get(day, {}) for day in {*deed.target, *deed.active}}
        target = {day: deed.target.get(day, {}) for day in active}
        main.commit(deed.name, deed.transactions, target=target, active=active, schema=deed.schema, at=made.at)
        return table.read_bytes(commit_file(self.table, main.version + 1))

    def _first_commit(self) -> Actions:
        table = self._scratch_table({})
        window = self.head.state.window_days(self.publisher.retention_days, clock.now())
        MainTable.create(table, self.table, self._first_schema, window)
        actions = table.read_json_lines(commit_file(self.table, 0))
        for action in actions:
            if "metaData" in action and self._id:
                action["metaData"]["id"] = self._id
        return actions

    @cached_property
    def _first_schema(self) -> str:
        known = known_commits(self.publisher.log, self.table)
        if not known:
            raise LakehouseUnusable(f"The publication log knows nothing of {self.table}.")
        return next(iter(known.values())).change.table_schema

    @cached_property
    def _id(self) -> str:
        found = [self.folder.checkpoint(each, ["metaData"]) or [] for each in self.folder.checkpoints]
        found += [self.folder.actions(each) or [] for each in sorted(self.folder.commits)[:_MOST_VERSIONS]]
        return next((str(each["metaData"]["id"]) for actions in found for each in actions if "metaData" in each), "")

    def _checkpoint(self, version: int) -> Iterator[tuple[str, bytes]]:
        then = self.beginning
        table = self._scratch_table(then.settings)
        days = then.state.files_by_day()
        target = then.days(days)
        none: Files = {day: {} for day in days}
        main = _opened(table, self.table)
        main.commit(EVENT, then.transactions, target=target, active=none, schema=None, at=clock.now())
        handle = _opened(table, self.table).handle
        handle.create_checkpoint()
        at, log = handle.version(), f"{self.table}/_delta_log"
        hint = json.loads(table.read_bytes(f"{log}/_last_checkpoint"))
        yield f"{log}/_last_checkpoint", json.dumps({**hint, "version": version}).encode()
        yield f"{log}/{version:020d}.checkpoint.parquet", table.read_bytes(f"{log}/{at:020d}.checkpoint.parquet")

    def _scratch_table(self, settings: Mapping[str, Any]) -> Storage:
        self.made += 1
        storage = Storage(str(self.scratch / str(self.made)))
        if settings:
            first = json_lines([{kind: value} for kind, value in settings.items()])
            storage.write_bytes(commit_file(self.table, 0), first)
        return storage


def _opened(storage: Storage, table: str) -> MainTable:
    main = MainTable.open(storage, table)
    if main is None:
        raise LakehouseUnusable(f"{table} cannot be made in {storage.root}.")
    return main
