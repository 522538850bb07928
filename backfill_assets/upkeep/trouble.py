"""Finds stale days, by step, from the logs and the watchdogs; and which a running stream will follow. Pure."""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache, cached_property

from backfill_assets.days import TableDay, by_table
from backfill_assets.lakehouse.records import is_adopted, is_of_stream, logical_of
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.deletion import DELETED
from backfill_assets.model.graph import Filled, made_of, missing_inputs, step_by_table
from backfill_assets.quality.watchdogs import CONTENT, FILES, metrics_needed
from backfill_assets.rebuild import decide
from backfill_assets.state.diagnosis import Cause, Diagnosis, Disagreement, Symptoms, diagnose
from backfill_assets.state.edited_logic import EditedLogic
from backfill_assets.state.observed import LogView
from backfill_assets.state.rolled_back import Rollbacks, Undo, UndoIs, undo_of
from backfill_assets.state.status import Statuses, published_version
from backfill_assets.text import format_ranges
from backfill_assets.upkeep.bounds import DEFAULT_BOUNDS, RepairBounds
from backfill_assets.upkeep.incidents import Closing, Incident


class StaleReason(enum.StrEnum):
    """Why a day is stale, gravest first."""

    FOREIGN_WRITE = "foreign write"
    WATCHDOG = "watchdog failed"
    LATE_ROWS = "late rows arrived"
    INPUT_CHANGED = "input changed"
    MISSING = "never built"


@dataclass(frozen=True)
class FailedWatch:
    """A watchdog that failed, and what it looked at: it says nothing about what was published since."""

    table: str
    day: date
    publication: str
    physical: str
    broken: tuple[str, ...] = (CONTENT,)
    """The rules that failed."""
    lost: bool = False
    """Files of it are gone or damaged."""
    disagreements: tuple[Disagreement, ...] = ()
    """What these rules expected and observed."""
    beside: str = ""
    """A digest of what its sums were compared with; empty where that is not known."""

    @property
    def differs(self) -> bool:
        """Its files or rows are not those of its publication: more than a sum that disagrees."""
        return self.lost or not {FILES, CONTENT}.isdisjoint(self.broken)


@dataclass(frozen=True)
class HeldByGates:
    """What the gates said of a day when it was built last and was not published."""

    words: str
    made_of: str = ""
    """The input fingerprint of what was built; empty where that is not known."""
    run: str = ""
    """The run that built it."""


@dataclass(frozen=True)
class HeldByStream:
    """What a gate keeps of a day that a stream has read into raw."""

    words: str
    events: int
    """In raw, and in no table that follows."""
    since: datetime
    release: str = ""
    """The command that publishes the day all the same; empty if its gate has none."""
    shown_by: str = ""
    """The command that shows what was rejected; empty if no row was."""
    run: str = ""
    """The run of the stream."""
    evidence: str = ""
    """The same however many events come."""


@dataclass(frozen=True, order=True)
class StaleDay:
    """One stale day of one step. ``evidence`` is the state that it is in, as 12 hex digits."""

    table: str
    day: date
    reason: StaleReason
    evidence: str

    @property
    def key(self) -> TableDay:
        return TableDay(self.table, self.day)

    def __str__(self) -> str:
        return f"{self.table} {self.day}: {self.reason.value} [{self.evidence}]"


@dataclass(frozen=True)
class WriteUnderWay:
    """A run, backfill or repair that may write ``days`` of a table; None for all of them."""

    name: str
    days: Collection[date] | None = None

    def may_write(self, days: Iterable[date]) -> bool:
        return self.days is None or any(day in self.days for day in days)


_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


def _anywhere(table: str, day: date) -> bool:
    return True


def _unknown_moment(publication: str) -> datetime | None:
    return None


@dataclass(frozen=True)
class RunningStreams:
    """The raw tables that streams append to right now, and when something was published, as seen at ``now``."""

    tables: Collection[str] = ()
    now: datetime = _END_OF_TIME
    published_at: Callable[[str], datetime | None] = _unknown_moment
    """The moment of a publication; None for one that the log does not know."""


@dataclass(frozen=True)
class RepairContext:
    """All that the decision about repairs is made from. ``steps`` are in build order and include all they read."""

    steps: Sequence[Step]
    observed: LogView
    failed_watches: Collection[FailedWatch] = ()
    incidents: Mapping[TableDay, Sequence[Incident]] = field(default_factory=dict)
    """What is open about a day, with the repairs that were launched before."""
    bounds: RepairBounds = DEFAULT_BOUNDS
    spent_lately: Decimal = Decimal(0)
    """Core seconds that repairs of the last 24 hours took, as estimated."""
    cores: int = 1
    core_hour_price: Decimal | None = None
    now: datetime = _END_OF_TIME
    suspicions: Mapping[TableDay, Mapping[str, str]] = field(default_factory=dict)
    """What the checks said that need no rows, by the name of the check, where they fail."""
    judged_before: Collection[TableDay] = ()
    """Days that were published again since such a check judged them: it is about to do so anew."""
    not_run: Mapping[TableDay, str] = field(default_factory=dict)
    """Days whose last run ended before their gates were judged, with that run."""
    held_back_in: Collection[str] = ()
    """Those of these runs that published nothing since a gate of another day or table held it back."""
    closings: Mapping[str, Closing] = field(default_factory=dict)
    """What people have closed, by the id of the incident."""
    busy: Mapping[str, Sequence[WriteUnderWay]] = field(default_factory=dict)
    """What is under way, by the tables that it may write."""
    failed_gates: Mapping[TableDay, HeldByGates] = field(default_factory=dict)
    """Days whose newest attempt did not pass its gates: on a second attempt they must not hold the others back."""
    held_by_streams: Mapping[TableDay, HeldByStream] = field(default_factory=dict)
    """Days that a stream has read and a gate holds back. Also of today: a stream builds it."""
    is_built: Callable[[str, date], bool] = _anywhere
    """Do backfills build such a day of a table? It has a partition, or the first ones look back to it."""
    today: date = date.max
    """Only days before it are repaired: a source that is ahead of time gives rows of days that have not ended."""
    rollbacks: Rollbacks = field(default_factory=Rollbacks)
    """What the log has of the rollbacks that stand on days."""
    streams: RunningStreams = RunningStreams()
    rebuilt_by: Mapping[TableDay, str] = field(default_factory=dict)
    """The plan that is being carried out for a day."""
    edited: Sequence[EditedLogic] = ()
    """Versions that were edited in place: no repair builds with one, or days of both would have one name."""

    def edited_version(self, table: str, day: date) -> EditedLogic | None:
        """The version that a repair would build the day with, if it was edited in place."""
        found = (each for each in self.edited if table in each.tables)
        return next((each for each in found if each.version == self.version_name(table, day)), None)

    def is_rolled_back(self, table: str, day: date) -> bool:
        """Does a rollback of a table of this step hold that day? Until an input of it changes; longer where it
        withdrew rows of raw that the day is made of: a person decides then.
        """
        undo = self.undo(table, day)
        return undo is not None and undo.state is not UndoIs.OVER

    def undo(self, table: str, day: date) -> Undo | None:
        """The rollback that stands on a table of this step on that day."""
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
        """The step of each table."""
        return step_by_table(self.steps)

    def version_name(self, table: str, day: date) -> str:
        """The version that the day was published with; the current one of a day that is not published."""
        step = self.step_of[table]
        return published_version(step, day, self.observed.states) or step.current

    def version(self, table: str, day: date) -> Version | None:
        """The version that a repair builds the day with; None for raw, and for one that is not declared any more."""
        wanted = self.version_name(table, day)
        return next((version for version in self.step_of[table].versions if version.name == wanted), None)

    def gate_of(self, stale: StaleDay) -> HeldByGates | HeldByStream | None:
        """What holds the day back: a gate that a repair would fail, or that a stream has failed."""
        return self.held_by_stream(stale.key) or self.fails_again(stale)

    def fails_again(self, stale: StaleDay) -> HeldByGates | None:
        """The gate that a repair would fail: the day was built from just what there is now, by the same logic."""
        step = self.step_of[stale.table]
        keys = (TableDay(table.name, stale.day) for table in step.tables)
        failed = [self.failed_gates[key] for key in keys if key in self.failed_gates]
        wanted = self._wanted(step, stale.day) if failed else ""
        return next((gate for gate in failed if wanted and gate.made_of == wanted), None)

    def held_by_stream(self, key: TableDay) -> HeldByStream | None:
        """What a stream holds back of any table that is built with this one."""
        keys = (TableDay(name, key.day) for name in self.step_of[key.table].table_names)
        return next((self.held_by_streams[each] for each in keys if each in self.held_by_streams), None)

    def was_held_back(self, key: TableDay) -> bool:
        """Is it told that a gate holds the day back? A day that a stream goes on with is not any more."""
        tables = self.step_of[key.table].table_names
        known = (each for name in tables for each in self.incidents.get(TableDay(name, key.day), ()))
        return any(each.cause is Cause.HELD_BACK and each.table in tables for each in known)

    def _wanted(self, step: Step, day: date) -> str:
        """The input fingerprint that a repair would build the day with; empty if its version is not declared."""
        version = self.version(step.name, day)
        if version is None:
            return ""
        read = decide.read_days(step, version, [day])
        logicals = {
            name: {each: self.observed.logical(TableDay(name, each)) for each in days} for name, days in read.items()
        }
        return decide.wanted(step, version, [day], logicals)[day].input_fingerprint

    def tries(self, stale: StaleDay) -> int:
        """The repairs that left the day as it is, or after which its check failed again."""
        known = self.incidents.get(stale.key, ())
        return max((each.tries(stale.key, stale.evidence) for each in known), default=0)

    def is_tried_now(self, stale: StaleDay) -> bool:
        """Does a repair of the day go on? What restores raw is a run of no asset: it makes no table busy."""
        known = self.incidents.get(stale.key, ())
        return any(each.ended is None for found in known for each in found.attempts_of(stale.key))

    def pause(self, stale: StaleDay) -> datetime | None:
        """Until when a day waits after its last attempt; None if it need not."""
        known = self.incidents.get(stale.key, ())
        ends = [each.ended or each.at for found in known for each in found.attempts_of(stale.key)]
        tries = self.tries(stale)
        until = max(ends) + self.bounds.pause_after(tries) if tries and ends else None
        return until if until and self.now < until else None

    def comes_in(self, stale: StaleDay) -> bool:
        """Did rows or inputs of it come just now? Of one that is open for long, that counts no more."""
        if stale.reason not in (StaleReason.LATE_ROWS, StaleReason.INPUT_CHANGED):
            return False
        settle = timedelta(seconds=self.bounds.settle)
        known = [each for each in self.incidents.get(stale.key, ()) if stale.table == each.table]
        if any(self.now - each.opened > _LONGEST_SETTLING * settle for each in known):
            return False
        published = (self.streams.published_at(self.publication(key)) for key in self.moved(stale))
        return any(at is not None and timedelta(0) <= self.now - at < settle for at in published)

    def publication(self, key: TableDay) -> str:
        state = self.observed.states.get(key)
        return state.publication if state else ""

    def moved(self, stale: StaleDay) -> list[TableDay]:
        """The days that the stale day is made of and that were published after it."""
        step, version = self.step_of[stale.table], self.version(stale.table, stale.day)
        own = max((self._sequence(TableDay(table, stale.day)) for table in step.table_names), default=-1)
        return [key for key in self.days_read(step, version, stale.day) if self._sequence(key) > own]

    def days_read(self, step: Step, version: Version | None, day: date) -> list[TableDay]:
        """What a day of ``step`` is made of by ``version``; nothing by one that is not declared."""
        made = made_of(step, version, day, self.filled) if version else {}
        return [TableDay(table, each) for table, days in made.items() for each in days]

    @cached_property
    def filled(self) -> Filled:
        return self.observed.filled(self.steps)

    def _sequence(self, key: TableDay) -> int:
        state = self.observed.states.get(key)
        return state.sequence if state else -1

    @cached_property
    def watches(self) -> Mapping[TableDay, FailedWatch]:
        """The watchdogs that failed on what is published now."""
        return {TableDay(each.table, each.day): each for each in self.failed_watches if self._still_speaks(each)}

    def _still_speaks(self, watch: FailedWatch) -> bool:
        """Is all that it looked at as it was? A sum that was read beside another table's fault says nothing after."""
        key = TableDay(watch.table, watch.day)
        state, physical = self.observed.states.get(key), self.observed.now(key)
        if state is None or (state.publication, physical) != (watch.publication, watch.physical):
            return False
        if watch.differs or not watch.beside or watch.table not in self.step_of:
            return True
        step = self.step_of[watch.table]
        tables = next(metrics_needed(each) for each in step.tables if each.name == watch.table)
        return watch.beside == digest_beside(self.observed, tables, step.cadence.period(watch.day))

    def diagnose(self, stale: StaleDay) -> Diagnosis:
        return diagnose(self._symptoms(stale), self.bounds.confidence)

    def _symptoms(self, stale: StaleDay) -> Symptoms:
        step, gone = self.step_of[stale.table], self.version(stale.table, stale.day) is None
        keys = [TableDay(table, stale.day) for table in step.table_names]
        watches = [self.watches[key] for key in keys if key in self.watches]
        moved = self.moved(stale) if stale.reason in (StaleReason.LATE_ROWS, StaleReason.INPUT_CHANGED) else []
        from_raw = [key for key in moved if self.step_of[key.table].source]
        looks_back = {read.table for read in step.version().reads if read.first < 0} if moved else set()
        gate, undo = self.gate_of(stale), self.undo(stale.table, stale.day)
        edited = self.edited_version(stale.table, stale.day)
        late = stale.reason is StaleReason.LATE_ROWS
        return Symptoms(
            is_raw=step.source is not None,
            foreign=stale.reason is StaleReason.FOREIGN_WRITE,
            broken={rule for watch in watches for rule in watch.broken},
            disagreements="; ".join(str(each) for watch in watches for each in watch.disagreements),
            lost=any(watch.lost for watch in watches),
            late=late,
            corrected=any(self._took_back(key) for key in from_raw),
            reference=bool(moved) and looks_back.issuperset(key.table for key in moved),
            changed=stale.reason is StaleReason.INPUT_CHANGED,
            missing=stale.reason is StaleReason.MISSING,
            run_failed=any(self._run_failed(self.not_run[key]) for key in keys if key in self.not_run),
            gates=gate.words if gate else "",
            asks=next(filter(None, map(self._asks, from_raw)), ""),
            rolled_back=undo is not None and undo.state is UndoIs.HELD,
            undone_with_raw=undo is not None and undo.state is UndoIs.ASKED,
            version_gone=gone and step.source is None,
            adopted=is_adopted(self.observed.states, step.table_names, stale.day),
            edited=edited.why if edited else "",
        )

    def _run_failed(self, run: str) -> bool:
        """A run that a gate ended did what it ought to; while the gate holds its day back, the others follow that."""
        return run not in self.held_back_in or run in self._runs_held_back

    @cached_property
    def _runs_held_back(self) -> set[str]:
        """The runs of gates that a repair would fail again."""
        held = (self.fails_again(StaleDay(*key, StaleReason.MISSING, "")) for key in self.failed_gates)
        return {gate.run for gate in held if gate}

    def _asks(self, key: TableDay) -> str:
        """Why the source leaves the late rows of a day of raw to a person; empty if it does not."""
        lateness, content = self.step_of[key.table].lateness, self.observed.content(key)
        return lateness.asks(content.metrics) if lateness and content else ""

    def _took_back(self, key: TableDay) -> bool:
        content = self.observed.content(key)
        return bool(content and content.figure(DELETED))

    def may_build(self, table: str, day: date) -> bool:
        """Also a day that an undo holds, if it is made of what there is: unless an input changes, it is kept."""
        if not self.is_built(table, day):
            return False
        step, undo = self.step_of[table], self.undo(table, day)
        is_kept = undo is not None and undo.state is UndoIs.HELD and self._is_fresh(step, day)
        if self.is_rolled_back(table, day) and not is_kept:
            return False
        return step.source is not None or self.version(table, day) is not None

    def is_not_begun(self, step: Step, day: date) -> bool:
        """Is the day before all that was built of what reads tables of others alone?

        They have years of history: how much of it is computed here, a person says, by building its first day.
        """
        reads = step.version().reads
        if not reads or not all(self.step_of[read.table].external for read in reads):
            return False
        return day < min(self.published.get(step.name, ()), default=date.max)

    def _is_fresh(self, step: Step, day: date) -> bool:
        """Is a built day made of what is published of its inputs?"""
        contents = [self.observed.content(TableDay(table, day)) for table in step.table_names]
        return decide.made_from(self._wanted(step, day), contents)

    @cached_property
    def published(self) -> dict[str, set[date]]:
        """The days that are published, by table."""
        return decide.published_days(self.observed.states)


def find_stale_days(seen: RepairContext, statuses: Statuses) -> tuple[list[StaleDay], list[StaleDay]]:
    """The stale days of raw tables, which no step can build again, and all others; each day of a step once.

    ``statuses`` compare each day with the version that it was published with: an older version is not stale.
    """
    raw: list[StaleDay] = []
    others: list[StaleDay] = []
    for step in seen.steps:
        for day in sorted({day for table in step.tables for day in statuses.get(table.name, {})}):
            reasons = [
                (reason, table.name)
                for table in step.tables
                if (reason := _reason(seen, step, table.name, day, statuses))
            ]
            if reasons and (day < seen.today or seen.held_by_stream(TableDay(step.name, day))):
                reason, table = min(reasons, key=lambda each: list(StaleReason).index(each[0]))
                trouble = StaleDay(table, day, reason, _evidence(seen, step, day, reason))
                (raw if step.source else others).append(trouble)
    return raw, others


def _reason(seen: RepairContext, step: Step, table: str, day: date, statuses: Statuses) -> StaleReason | None:
    """A sum that disagrees on a day whose inputs are newer says no more than that."""
    status, watch = statuses[table].get(day, None), seen.watches.get(TableDay(table, day))
    if status is Cause.FOREIGN_WRITE:
        return StaleReason.FOREIGN_WRITE
    if watch and (watch.differs or status is not Cause.INPUT):
        return StaleReason.WATCHDOG
    if status is Cause.INPUT:
        sources = {each.name for other in seen.steps if other.source for each in other.tables}
        version = seen.version(table, day) or step.version()
        from_raw = {read.table for read in version.reads} & sources
        return StaleReason.LATE_ROWS if from_raw else StaleReason.INPUT_CHANGED
    if status is Cause.MISSING and not step.is_origin and not seen.is_not_begun(step, day):
        there = {**seen.published, **seen.filled}
        return None if missing_inputs(step, step.version(), [day], there) else StaleReason.MISSING
    return None


def digest_beside(observed: LogView, tables: Iterable[str], days: Iterable[date]) -> str:
    """What ``tables`` hold on ``days``: a compaction of them changes nothing of it, a foreign write does."""
    keys = [TableDay(table, day) for table in sorted(tables) for day in days]
    return digest([logical_of(observed.states.get(key), observed.now(key)) for key in keys], 12)


def _evidence(seen: RepairContext, step: Step, day: date, reason: StaleReason) -> str:
    """The state that a day and its inputs are in; a repair that changes nothing leaves it as it was."""
    own = [_of_day(seen.observed, table.name, day) for table in step.tables]
    version = seen.version(step.name, day)
    inputs = [(key.table, str(key.day), seen.observed.logical(key)) for key in seen.days_read(step, version, day)]
    return digest([step.name, str(day), reason.name, own, inputs], 12)


def _of_day(observed: LogView, table: str, day: date) -> tuple[str, str]:
    state = observed.states.get(TableDay(table, day))
    return (state.publication if state else "", observed.now(TableDay(table, day)))


def digest(value: object, length: int) -> str:
    """The first hex digits of a hash of ``value``."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:length]


LEFT_FOR = timedelta(minutes=10)
"""A stream follows its own rows within seconds; what is stale for longer is repaired although it runs."""
_MOST_RANGES, _LONGEST_SETTLING = 4, 10


def left_to_streams(seen: RepairContext, stale: Sequence[StaleDay]) -> list[StaleDay]:
    """Days that are stale only because a running stream has just brought rows.

    Of a table that a stream does not follow, such as a weekly report, each day is repaired again only after
    :data:`LEFT_FOR`: it changes with every batch. A day that a gate holds back from the stream waits for a person.
    """
    behind = tables_behind_streams(seen) if seen.streams.tables else frozenset()
    free = (each for each in stale if each.table in behind and not seen.held_by_stream(each.key))
    return [each for each in free if _is_left(seen, each)]


def tables_behind_streams(seen: RepairContext) -> frozenset[str]:
    """Every table that is made, directly or not, of a raw table with a running stream."""
    behind = set(seen.streams.tables)
    for step in seen.steps:
        if any(read.table in behind for version in step.versions for read in version.reads):
            behind.update(step.table_names)
    return frozenset(behind)


def in_words(left: Iterable[StaleDay]) -> list[str]:
    """One line for each table, for the sensor's tick."""
    minutes = int(LEFT_FOR.total_seconds() // 60)
    return [
        f"{table} {format_ranges(days, _MOST_RANGES)}: left to the running stream for {minutes} minutes"
        for table, days in by_table(each.key for each in sorted(left)).items()
    ]


def _is_left(seen: RepairContext, stale: StaleDay) -> bool:
    """Late rows that a stream has brought just now, or a changed input of a day that was repaired just now."""
    if stale.reason is StaleReason.LATE_ROWS:
        return any(_is_new(seen, name) for name in _raw_publications(seen, stale) if is_of_stream(name))
    if stale.reason is StaleReason.INPUT_CHANGED:
        own = seen.publication(stale.key)
        return not is_of_stream(own) and _is_new(seen, own)
    return False


def _raw_publications(seen: RepairContext, stale: StaleDay) -> list[str]:
    """The newest publications of the raw days with a stream that the day is made of."""
    read = seen.days_read(seen.step_of[stale.table], seen.version(stale.table, stale.day), stale.day)
    return [seen.publication(key) for key in read if key.table in seen.streams.tables]


def _is_new(seen: RepairContext, publication: str) -> bool:
    published: datetime | None = seen.streams.published_at(publication) if publication else None
    return published is not None and seen.streams.now - published < LEFT_FOR
