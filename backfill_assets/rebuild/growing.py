"""Finds from logs alone what published days gained since they were built, and which have to be built whole.

Earlier states of inputs come from memory or the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

import pyarrow as pa

from backfill_assets import clock
from backfill_assets.days import Cadence, TableDay
from backfill_assets.lakehouse.delta_log import AddedFile, VersionGone, read_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.landing.deletions import days_with_deletions
from backfill_assets.model.declaration import EXAMPLE, OCCURRENCE, Step, Table, Version
from backfill_assets.model.graph import read_by_any
from backfill_assets.model.refinement import Refinement
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.past import Brought, brought_days
from backfill_assets.publish.pinned import Pin
from backfill_assets.quality import gates, measures
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import EarlierState
from backfill_assets.rebuild.grown_content import MetricNames
from backfill_assets.rebuild.lake import Lake
from backfill_assets.state.edited_logic import EditedLogic

_SHORTEST_PAUSE, _PAUSE_TIMES = timedelta(seconds=60), 20
"""The pause of a day that was built whole and held back: at least the first, or this many build times."""
_KEPT_STATES = 4
_MOST_PARTS = 16
"""Parts of the log, about 32 files each; a day with an older state is built whole."""
Files = Mapping[date, tuple[AddedFile, ...]]


def follows(step: Step) -> bool:
    """Whether a stream extends its days: it refines raw rows, or declares how it follows."""
    if step.source is not None or step.cadence is not Cadence.DAILY:
        return False
    return isinstance(step.version().transform, Refinement) or step.version().follows != ""


def following(steps: Iterable[Step], raw: str) -> list[Step]:
    """Steps (in build order) that follow ``raw``, directly or through others."""
    grown, found = {raw}, list[Step]()
    for step in steps:
        if follows(step) and step.version().reads[0].table in grown:
            grown.update(step.table_names)
            found.append(step)
    return found


@dataclass(frozen=True)
class ChangedKeys:
    """Keys of new raw rows; ``counts`` are rows by table and file."""

    values: pa.Table
    counts: Mapping[str, Mapping[str, int]]
    key: tuple[str, ...]
    """Shared by the refined table and those that follow it by rows."""


@dataclass(frozen=True)
class Gain:
    """``old`` files are raw's. With ``keys``, ``new`` files hold exactly their rows."""

    new: tuple[AddedFile, ...]
    old: tuple[AddedFile, ...] = ()
    keys: ChangedKeys | None = None


@dataclass
class Growing:
    """Steps whose days are extended together, on one pin of main."""

    lake: Lake
    steps: Sequence[Step]
    pin: Pin
    files: Mapping[str, Files]
    """Only days that have not moved since the pin."""
    memory: InputMemory
    grown: dict[TableDay, Gain] = field(default_factory=dict)
    """The input of later steps."""

    @classmethod
    def begin(cls, lake: Lake, steps: Sequence[Step], days: Collection[date], memory: InputMemory) -> Growing:
        tables = [name for step in steps for name in step.table_names]
        reads = read_by_any((step, days) for step in steps)
        needed = {name for step in steps for name in gates.looked_at_beside(step)}
        pin = lake.publisher.pin(dict.fromkeys(tables, days), reads, also=needed)
        return cls(lake, steps, pin, {table: _files_as_pinned(lake, table, days, pin) for table in tables}, memory)

    def files_of(self, table: str, days: Iterable[date]) -> tuple[AddedFile, ...]:
        return tuple(file for day in days for file in self.files[table].get(day, ()))

    def content(self, table: str, day: date) -> DayContent:
        content = self.pin.states[TableDay(table, day)].content
        if content is None:
            raise LookupError(f"What {table} {day} holds is not known.")
        return content

    # ---------------------------------------------------------------- days that are left alone

    def pause(self, step: Step, days: Mapping[date, float]) -> None:
        """Skip days that were built whole, in so many seconds each, and held back."""
        now = clock.now()
        for day, seconds in days.items():
            pause = max(_SHORTEST_PAUSE, _PAUSE_TIMES * timedelta(seconds=seconds))
            self.memory.paused[TableDay(step.name, day)] = now + pause

    def paused(self, step: Step, days: Iterable[date]) -> dict[date, str]:
        """Without this, a stream would build them whole with every batch."""
        now = clock.now()
        until = {day: self.memory.paused.get(TableDay(step.name, day), now) for day in days}
        return {
            day: f"it was built whole and held back; tried again after {moment:%H:%M:%S} UTC"
            for day, moment in until.items()
            if moment > now
        }

    # ---------------------------------------------------------------- what days gained

    def look(self, step: Step, versions: Mapping[date, Version], seen: Pin) -> tuple[dict[date, Gain], dict[date, str]]:
        """The gain of each day, and why others have to be built whole.

        ``seen`` is main overlaid with what earlier steps staged.
        """
        gains: dict[date, Gain] = {}
        whole: dict[date, str] = {}
        for version, days in decide.by_version(versions):
            if version.follows != "rows" and not isinstance(version.transform, Refinement):
                whole |= dict.fromkeys(days, "")
                continue
            reasons = {day: why for day in days if (why := self._why_whole(step, version, day))}
            rest = [day for day in days if day not in reasons]
            if isinstance(version.transform, Refinement):
                found = self._of_raw(step, version, version.transform, rest, seen)
            else:
                found = {day: self._of_rows(step, version, day) for day in rest}
            gains |= {day: each for day, each in found.items() if isinstance(each, Gain)}
            whole |= reasons | {day: each for day, each in found.items() if isinstance(each, str)}
        return gains, whole

    def _why_whole(self, step: Step, version: Version, day: date) -> str:
        for table in step.tables:
            files = self.files[table.name].get(day)
            paths = None if files is None else [file.path for file in files]
            state = self.pin.states.get(TableDay(table.name, day))
            if reason := decide.why_whole(state, paths, version, metric_names(table).numbers):
                return reason
        return ""

    def _of_raw(
        self, step: Step, version: Version, refinement: Refinement, days: Sequence[date], seen: Pin
    ) -> dict[date, Gain | str]:
        raw = version.reads[0].table
        if OCCURRENCE in refinement.key:
            return dict.fromkeys(days, "its key numbers identical lines")
        found: dict[date, Gain | str] = dict.fromkeys(days, f"which rows of {raw} are new is not known")
        corrected = days_with_deletions(seen.states, self.lake.catalog.table(raw), days)
        found |= dict.fromkeys(corrected, f"the source has taken rows of {raw} back")
        known = [day for day in days if day not in corrected]
        at = seen.inputs[raw].version
        files = dict.fromkeys(known, ()) if at is None else read_log(self.lake.storage, raw, at).of_days(known)
        for day, new in self._gained(step, version, raw, files, seen).items():
            found[day] = Gain(
                tuple(file for file in files[day] if file.path in new),
                tuple(file for file in files[day] if file.path not in new),
            )
        return found

    def _gained(self, step: Step, version: Version, raw: str, files: Files, seen: Pin) -> dict[date, frozenset[str]]:
        """Gained files, for days where they are known."""
        recorded = {day: self.content(step.name, day).inputs for day in files}

        def made_of(day: date) -> Callable[[str], bool]:
            def asked(logical: str) -> bool:
                return decide.wanted(step, version, [day], {raw: {day: logical}})[day].inputs == recorded[day]

            return asked

        now = {day: frozenset(file.path for file in of_day) for day, of_day in files.items()}
        known = {day: self.memory.of(TableDay(raw, day)) for day in files}
        found = {day: decide.gained_files(made_of(day), known[day], now[day]) for day in files}
        unknown = {day: made_of(day) for day in files if found[day] is None}
        for day, state in find_earlier_states(self.lake.publisher.log, raw, unknown).items():
            found[day] = decide.gained_files(made_of(day), [state], now[day])
        for day in files:
            self.memory.remember(TableDay(raw, day), EarlierState(seen.inputs[raw].days[day], now[day]))
        return {day: new for day, new in found.items() if new is not None}

    def _of_rows(self, step: Step, version: Version, day: date) -> Gain | str:
        """For days whose rows each come from one row of the first input with the same key."""
        first = version.reads[0].table
        gain = self.grown.get(TableDay(first, day))
        if gain is None or gain.keys is None:
            return f"{first} of that day was built whole"
        if step.name not in gain.keys.counts:
            return f"its key is not that of {first}"
        logicals = {read.table: self.pin.inputs[read.table].days for read in version.reads}
        published = decide.wanted(step, version, [day], logicals)[day].inputs
        if self.content(step.name, day).inputs != published:
            return "it was built from other inputs than those that were published"
        return gain


def metric_names(table: Table) -> MetricNames:
    kept = tuple(measures.numbers(table))
    return MetricNames(
        numbers=tuple(name for name in kept if not name.endswith(EXAMPLE)),
        least=tuple(name for name in kept if name.endswith(EXAMPLE)),
        examples=tuple(measures.examples(table)),
    )


def _files_as_pinned(lake: Lake, table: str, days: Collection[date], pin: Pin) -> Files:
    main = MainTable.open(lake.storage, table)
    found = main.state().of_days(days) if main else dict.fromkeys(days, ())
    expected = {day: pin.expected[TableDay(table, day)].files for day in days}
    return {day: files for day, files in found.items() if tuple(file.path for file in files) == expected[day]}


# ------------------------------------------------------------------ what an input held earlier


@dataclass
class InputMemory:
    """What a stream remembers between batches, instead of searching the log."""

    _states: dict[TableDay, dict[str, EarlierState]] = field(default_factory=dict)
    paused: dict[TableDay, datetime] = field(default_factory=dict)
    kept_logic: set[tuple[str, str]] = field(default_factory=set)
    edited: Sequence[EditedLogic] | None = None
    """None if unknown; looked up again unless empty."""

    def remember(self, key: TableDay, state: EarlierState) -> None:
        states = self._states.setdefault(key, {})
        states.pop(state.logical, None)
        states[state.logical] = state
        for oldest in list(states)[:-_KEPT_STATES]:
            del states[oldest]

    def put_together(self, key: TableDay, built: EarlierState, gone: frozenset[str], made: frozenset[str]) -> None:
        """A compaction has put files of ``built``, the state that facts were made of, into others: what came after it
        stays new. States that it has torn apart are forgotten.
        """
        earlier = [each for each in self._states.pop(key, {}).values() if gone <= each.files]
        for each in (*earlier, built):
            self.remember(key, EarlierState(each.logical, each.files - gone | made))

    def of(self, key: TableDay) -> list[EarlierState]:
        return list(self._states.get(key, {}).values())[::-1]


def find_earlier_states(
    log: PublicationLog, table: str, wanted: Mapping[date, Callable[[str], bool]]
) -> dict[date, EarlierState]:
    """The newest readable state of each day of ``wanted`` fingerprint; compactions count."""
    if not wanted:
        return {}
    left, found = dict(wanted), dict[date, EarlierState]()
    for each in brought_days(log.files(), [table], wanted, most_parts=_MOST_PARTS):
        if each.rows is not None and each.day in left and left[each.day](each.logical):
            del left[each.day]
            found |= _state(log, each)
        if not left:
            break
    return found


def _state(log: PublicationLog, then: Brought) -> dict[date, EarlierState]:
    try:
        files = read_log(log.storage, then.table, then.table_version).by_day().get(then.day, frozenset())
    except VersionGone:
        return {}
    return {then.day: EarlierState(then.logical, files)}
