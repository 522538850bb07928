"""Stale days by step, from the logs and the watchdogs. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache, cached_property

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import is_adopted, logical_of
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import missing_inputs, step_by_table
from backfill_assets.publish.closed_days import BookEntry, Books
from backfill_assets.quality.watchdogs import metrics_needed
from backfill_assets.rebuild import decide
from backfill_assets.state.closed import books_of
from backfill_assets.state.diagnosis import (
    FOREIGN,
    INPUT_CHANGED,
    Cause,
    Diagnosis,
    Signs,
    diagnose,
    first_case,
    gravest,
)
from backfill_assets.state.edited_logic import EditedLogic
from backfill_assets.state.input_changes import InputChanges
from backfill_assets.state.observed import LogView
from backfill_assets.state.rolled_back import Rollbacks, Undo, UndoIs, undo_of
from backfill_assets.state.status import Statuses, published_version
from backfill_assets.upkeep.bounds import DEFAULT_BOUNDS, NOTHING_SPENT, RepairBounds, Spending
from backfill_assets.upkeep.failed_checks import FailedWatch, HeldByGates, HeldByStream, NotRun
from backfill_assets.upkeep.incidents import Closing, Incident


@dataclass(frozen=True, order=True)
class StaleDay:
    """``evidence`` digests its state, in 12 hex digits."""

    table: str
    day: date
    evidence: str
    shows: Cause = field(compare=False)
    """The cause by the log or a watchdog alone; the diagnosis weighs the rest."""
    diagnosis: Diagnosis = field(compare=False)

    @property
    def key(self) -> TableDay:
        return TableDay(self.table, self.day)

    @property
    def cause(self) -> Cause:
        return self.diagnosis.cause

    def __str__(self) -> str:
        return f"{self.table} {self.day}: {self.cause} [{self.evidence}]"


@dataclass(frozen=True)
class WriteUnderWay:
    name: str
    days: Collection[date] | None = None

    def may_write(self, days: Iterable[date]) -> bool:
        return self.days is None or any(day in self.days for day in days)


_ADOPTED = "it was adopted with its table, and nothing here can make it again as it was"
_LONGEST_SETTLING = 10
_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


def _anywhere(table: str, day: date) -> bool:
    return True


def _unknown_moment(publication: str) -> datetime | None:
    return None


@dataclass(frozen=True)
class RunningStreams:
    tables: Collection[str] = ()
    published_at: Callable[[str], datetime | None] = _unknown_moment


@dataclass(frozen=True)
class RepairContext:
    """What repairs are decided on; ``steps`` are in build order and include all they read."""

    steps: Sequence[Step]
    observed: LogView
    failed_watches: Collection[FailedWatch] = ()
    incidents: Mapping[TableDay, Sequence[Incident]] = field(default_factory=dict)
    bounds: RepairBounds = DEFAULT_BOUNDS
    spending: Spending = NOTHING_SPENT
    now: datetime = _END_OF_TIME
    suspicions: Mapping[TableDay, Mapping[str, str]] = field(default_factory=dict)
    judged_before: Collection[TableDay] = ()
    """Days published since a check judged them: it will run again."""
    not_run: Mapping[TableDay, NotRun] = field(default_factory=dict)
    closings: Mapping[str, Closing] = field(default_factory=dict)
    busy: Mapping[str, Sequence[WriteUnderWay]] = field(default_factory=dict)
    failed_gates: Mapping[TableDay, HeldByGates] = field(default_factory=dict)
    held_by_streams: Mapping[TableDay, HeldByStream] = field(default_factory=dict)
    is_built: Callable[[str, date], bool] = _anywhere
    """Whether backfills build the day: it has a partition, or the first ones look back to it."""
    rollbacks: Rollbacks = field(default_factory=Rollbacks)
    streams: RunningStreams = RunningStreams()
    rebuilt_by: Mapping[TableDay, str] = field(default_factory=dict)
    edited: Sequence[EditedLogic] = ()
    """Versions edited in place: a repair with one would give two contents one name."""

    @property
    def today(self) -> date:
        return self.now.date()

    def edited_version(self, table: str, day: date) -> EditedLogic | None:
        found = (each for each in self.edited if table in each.tables)
        return next((each for each in found if each.version == self.version_name(table, day)), None)

    @cached_property
    def books(self) -> Books:
        return books_of(self.observed, self.steps, self.now)

    def closing(self, step: Step, day: date) -> BookEntry | None:
        return self.books.closings_of(step.table_names, [day]).get(day)

    def is_rolled_back(self, table: str, day: date) -> bool:
        """A rollback ends when an input changes; after withdrawn raw rows a person decides."""
        undo = self.undo(table, day)
        return undo is not None and undo.holds

    def undo(self, table: str, day: date) -> Undo | None:
        return self._undo(self.step_of[table].name, day)

    @cached_property
    def _undo(self) -> Callable[[str, date], Undo | None]:
        def look(step: str, day: date) -> Undo | None:
            tables = self.step_of[step].table_names
            if not any(TableDay(table, day) in self.observed.states for table in tables):
                return None
            return undo_of(self.rollbacks, self.steps, self.step_of[step], day, self.observed)

        return cache(look)

    @cached_property
    def step_of(self) -> Mapping[str, Step]:
        return step_by_table(self.steps)

    def version_name(self, table: str, day: date) -> str:
        step = self.step_of[table]
        return published_version(step, day, self.observed.states) or step.current

    def version(self, table: str, day: date) -> Version | None:
        """The version that a repair uses; None for raw and for one no longer declared."""
        wanted = self.version_name(table, day)
        return next((version for version in self.step_of[table].versions if version.name == wanted), None)

    def gate_of(self, key: TableDay) -> HeldByGates | HeldByStream | None:
        return self.held_by_stream(key) or self.fails_again(key)

    def fails_again(self, key: TableDay) -> HeldByGates | None:
        step = self.step_of[key.table]
        keys = (TableDay(name, key.day) for name in step.table_names)
        failed = [self.failed_gates[each] for each in keys if each in self.failed_gates]
        wanted = self._wanted(step, key.day) if failed else ""
        return next((gate for gate in failed if wanted and gate.made_of == wanted), None)

    def held_by_stream(self, key: TableDay) -> HeldByStream | None:
        keys = (TableDay(name, key.day) for name in self.step_of[key.table].table_names)
        return next((self.held_by_streams[each] for each in keys if each in self.held_by_streams), None)

    def was_held_back(self, key: TableDay) -> bool:
        tables = self.step_of[key.table].table_names
        known = (each for name in tables for each in self.incidents.get(TableDay(name, key.day), ()))
        return any(each.cause is Cause.HELD_BACK and each.table in tables for each in known)

    def _wanted(self, step: Step, day: date) -> str:
        version = self.version(step.name, day)
        if version is None:
            return ""
        read = decide.read_days(step, version, [day])
        logicals = {
            name: {each: self.observed.logical(TableDay(name, each)) for each in days} for name, days in read.items()
        }
        return decide.wanted(step, version, [day], logicals)[day].input_fingerprint

    def tries(self, stale: StaleDay) -> int:
        known = self.incidents.get(stale.key, ())
        return max((each.tries(stale.key, stale.evidence) for each in known), default=0)

    def is_tried_now(self, stale: StaleDay) -> bool:
        """A restore of raw is a run of no asset: it makes no table busy."""
        known = self.incidents.get(stale.key, ())
        return any(each.ended is None for found in known for each in found.attempts_of(stale.key))

    def pause(self, stale: StaleDay) -> datetime | None:
        known = self.incidents.get(stale.key, ())
        ends = [each.ended or each.at for found in known for each in found.attempts_of(stale.key)]
        tries = self.tries(stale)
        until = max(ends) + self.bounds.pause_after(tries) if tries and ends else None
        return until if until and self.now < until else None

    def comes_in(self, stale: StaleDay) -> bool:
        """Whether rows or inputs arrived just now; false once the incident is open for ten times ``bounds.settle``."""
        if stale.shows not in INPUT_CHANGED:
            return False
        settle = timedelta(seconds=self.bounds.settle)
        known = [each for each in self.incidents.get(stale.key, ()) if stale.table == each.table]
        if any(self.now - each.opened > _LONGEST_SETTLING * settle for each in known):
            return False
        published = (self.streams.published_at(self.observed.publication(key)) for key in self.moved(stale))
        return any(at is not None and timedelta(0) <= self.now - at < settle for at in published)

    def moved(self, stale: StaleDay) -> list[TableDay]:
        return self.inputs.moved(self.step_of[stale.table], self.version(stale.table, stale.day), stale.day)

    @cached_property
    def inputs(self) -> InputChanges:
        return InputChanges(self.steps, self.observed)

    @cached_property
    def watches(self) -> Mapping[TableDay, FailedWatch]:
        return {TableDay(each.table, each.day): each for each in self.failed_watches if self._still_speaks(each)}

    def _still_speaks(self, watch: FailedWatch) -> bool:
        key = TableDay(watch.table, watch.day)
        state, physical = self.observed.states.get(key), self.observed.now(key)
        if state is None or (state.publication, physical) != (watch.publication, watch.physical):
            return False
        if watch.differs or not watch.beside or watch.table not in self.step_of:
            return True
        step = self.step_of[watch.table]
        tables = next(metrics_needed(each) for each in step.tables if each.name == watch.table)
        return watch.beside == digest_beside(self.observed, tables, step.cadence.period(watch.day))

    def beside(self, step: Step, day: date) -> Signs:
        table, keys = step.name, [TableDay(name, day) for name in step.table_names]
        gate, undo, edited = self.gate_of(keys[0]), self.undo(table, day), self.edited_version(table, day)
        found: dict[Cause, str] = {}
        if undo is not None and undo.cause is not None:
            found[undo.cause] = ""
        if step.source is None and self.version(table, day) is None:
            found[Cause.GONE_VERSION] = _ADOPTED if is_adopted(self.observed.states, step.table_names, day) else ""
        if closing := self.closing(step, day):
            found[Cause.CLOSED] = closing.said
        if edited:
            found[Cause.EDITED_LOGIC] = edited.why
        if gate:
            found[Cause.HELD_BACK] = gate.words
        return found

    def has_failed(self, step: Step, day: date) -> bool:
        keys = (TableDay(name, day) for name in step.table_names)
        return any(self._run_failed(self.not_run[key]) for key in keys if key in self.not_run)

    def _run_failed(self, ended: NotRun) -> bool:
        return not ended.held_back or ended.run in self._runs_held_back

    @cached_property
    def _runs_held_back(self) -> set[str]:
        held = map(self.fails_again, self.failed_gates)
        return {gate.run for gate in held if gate}

    def may_build(self, table: str, day: date) -> bool:
        """Also a fresh day that a rollback holds: it is kept unless an input changes."""
        if not self.is_built(table, day):
            return False
        step, undo = self.step_of[table], self.undo(table, day)
        is_kept = undo is not None and undo.state is UndoIs.HELD and self._is_fresh(step, day)
        if self.is_rolled_back(table, day) and not is_kept:
            return False
        if self.closing(step, day):
            return False
        return step.source is not None or self.version(table, day) is not None

    def is_not_begun(self, step: Step, day: date) -> bool:
        """Whether the day is before all that was built of a step that reads only external tables: its first day is a
        person's choice.
        """
        reads = step.version().reads
        if not reads or not all(self.step_of[read.table].external for read in reads):
            return False
        return day < min(self.published.get(step.name, ()), default=date.max)

    def _is_fresh(self, step: Step, day: date) -> bool:
        contents = [self.observed.content(TableDay(table, day)) for table in step.table_names]
        return decide.made_from(self._wanted(step, day), contents)

    @cached_property
    def published(self) -> dict[str, set[date]]:
        return decide.published_days(self.observed.states)


def find_stale_days(seen: RepairContext, statuses: Statuses) -> tuple[list[StaleDay], list[StaleDay]]:
    """Stale days of raw tables, which no step rebuilds, and of steps, each day once.

    ``statuses`` compare with the publishing version: an older one is not stale.
    """
    raw: list[StaleDay] = []
    others: list[StaleDay] = []
    for step in seen.steps:
        for day in sorted({day for table in step.tables for day in statuses.get(table.name, {})}):
            if day < seen.today or seen.held_by_stream(TableDay(step.name, day)):
                found = _diagnosed(seen, step, day, statuses)
                (raw if step.source else others).extend([found] if found else [])
    return raw, others


def _diagnosed(seen: RepairContext, step: Step, day: date, statuses: Statuses) -> StaleDay | None:
    each_table = ((name, _signs(seen, step, name, day, statuses[name].get(day))) for name in step.table_names)
    if not (signs := {name: found for name, found in each_table if found}):
        return None
    shown = {name: case.cause for name, each in signs.items() if (case := first_case(each))}
    cause = gravest(shown.values())
    if cause is None:
        return None
    table = next(name for name, each in shown.items() if each is cause)
    everything: dict[Cause, str] = {**seen.beside(step, day)}
    for sign, words in (each for of_table in signs.values() for each in of_table.items()):
        everything[sign] = "; ".join(dict.fromkeys(filter(None, (everything.get(sign), words))))
    if cause is Cause.MISSING and seen.has_failed(step, day):
        everything[Cause.FAILED_RUN] = ""
    return StaleDay(table, day, _evidence(seen, step, day, cause), cause, diagnose(everything, seen.bounds.confidence))


def _signs(seen: RepairContext, step: Step, table: str, day: date, status: Cause | None) -> Signs:
    """A sum that disagrees on a day with newer inputs is no sign."""
    watch, is_raw, found = seen.watches.get(TableDay(table, day)), step.source is not None, dict[Cause, str]()
    if watch is None and status is None:
        return found
    if watch and watch.lost:
        found[Cause.LOST_RAW if is_raw else Cause.LOST_FILES] = ""
    if watch and watch.holds_others:
        found[Cause.FOREIGN_RAW if is_raw else Cause.CONTENT] = ""
    if watch and not watch.differs and status not in INPUT_CHANGED:
        found[Cause.DISAGREES] = "; ".join(map(str, watch.disagreements))
    if status in FOREIGN:
        found[status] = ""
    if status in INPUT_CHANGED and (version := seen.version(table, day)):
        found |= seen.inputs.signs(step, version, day)
    if status is Cause.MISSING and not step.is_origin and not seen.is_not_begun(step, day):
        there = {**seen.published, **seen.inputs.filled}
        found |= {} if missing_inputs(step, step.version(), [day], there) else {status: ""}
    return found


def digest_beside(observed: LogView, tables: Iterable[str], days: Iterable[date]) -> str:
    """Changed by a foreign write, kept by compaction."""
    keys = [TableDay(table, day) for table in sorted(tables) for day in days]
    return digest([logical_of(observed.states.get(key), observed.now(key)) for key in keys], 12)


def _evidence(seen: RepairContext, step: Step, day: date, shows: Cause) -> str:
    """A digest of what a day and its inputs hold: compaction and a useless repair keep it."""
    kind = "" if shows in INPUT_CHANGED else shows.name
    own = [_of_day(seen.observed, table.name, day) for table in step.tables]
    read = seen.inputs.days_read(step, seen.version(step.name, day), day)
    inputs = [(key.table, str(key.day), seen.observed.logical(key)) for key in read]
    return digest([step.name, str(day), kind, own, inputs], 12)


def _of_day(observed: LogView, table: str, day: date) -> tuple[str, str]:
    key = TableDay(table, day)
    return observed.publication(key), observed.now(key)


def digest(value: object, length: int) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:length]
