"""Proves that a publication can be computed again: same inputs, code and parameters give the same rows.

Each day is staged again on a timeline that no build reuses, or has a reason why not; one put back or compacted names
the publication that brought it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from itertools import product

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.delta_log import VersionGone, files_at
from backfill_assets.lakehouse.records import (
    Before,
    DayChange,
    DayContent,
    DayRecord,
    DayRecords,
    Environment,
    InputRead,
    Prepared,
    day_record,
)
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import step_by_table, tables_as_of
from backfill_assets.publish.log import lineages
from backfill_assets.publish.publisher import Pin
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import InputFingerprint
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.ingest import declared_anew, ingest_again
from backfill_assets.rebuild.lake import Lake, Progress, waiting
from backfill_assets.rebuild.place import Overlay
from backfill_assets.rebuild.stage import Chunk, stage_chunk
from backfill_assets.state.edited_logic import edited_logic
from backfill_assets.state.reading import unknown_publication

_NOTHING = DayContent(rows=0, checksum="0")


class ReproductionVerdict(enum.StrEnum):
    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_REPRODUCED = "cannot be reproduced"


@dataclass(frozen=True)
class Reproduced:
    table: str
    day: date
    published: DayContent | None
    staged: DayContent | None = None
    reason: str = ""

    @property
    def verdict(self) -> ReproductionVerdict:
        if self.published is None or self.staged is None:
            return ReproductionVerdict.NOT_REPRODUCED
        return (
            ReproductionVerdict.EQUAL
            if self.published.logical == self.staged.logical
            else ReproductionVerdict.DIFFERENT
        )


@dataclass(frozen=True)
class Reproduction:
    days: tuple[Reproduced, ...]
    made_with: tuple[Environment, ...] = ()
    """Empty if not recorded, or no day was reproduced."""
    here: Environment | None = None


def reproduce(lake: Lake, publication: str, progress: Progress) -> Reproduction:
    """Stage every day of ``publication`` again and compare. Raises :class:`InvalidRequest` if it is unknown, under way
    or aborted.
    """
    entry = lake.publisher.log.find_prepared(publication)
    if entry is None:
        raise unknown_publication(lake.storage, publication)
    if lake.publisher.log.outcome(lake.publisher.log.head(), publication) != "done":
        raise InvalidRequest(f"{publication} brought nothing: it was aborted, or is still under way.")
    recorded = RecordedInputs(entry[0])
    return _Again(lake, recorded, progress).run()


@dataclass(frozen=True)
class _Day:
    table: str
    change: DayChange

    @property
    def key(self) -> TableDay:
        return TableDay(self.table, self.change.day)

    @property
    def content(self) -> DayContent:
        return self.change.content or _NOTHING


@dataclass
class _Again:
    lake: Lake
    recorded: RecordedInputs
    progress: Progress
    done: dict[TableDay, Reproduced] = field(default_factory=dict)
    staged: bool = False
    started: float = field(default_factory=clock.seconds)

    @property
    def made_by(self) -> Prepared:
        return self.recorded.made_by

    @cached_property
    def days(self) -> list[_Day]:
        tables = self.made_by.publication.tables
        return [_Day(change.table, day) for change in tables for day in change.days]

    @cached_property
    def readable(self) -> Readable:
        return Readable(self.lake.storage)

    def run(self) -> Reproduction:
        to_make = []
        for day in self.days:
            if day.change.content is None and not day.change.adds:
                self.settle(day, _NOTHING)  # withdrawn: it holds nothing
            elif reason := self.not_computed(day):
                self.settle(day, None, reason)
            else:
                to_make.append(day)
        if to_make and self.made_by.publication.kind == "append":
            self.ingest(to_make)
        else:
            for step, days in self.of_steps(to_make):
                self.stage_step(step, days)
        return Reproduction(tuple(self.done[day.key] for day in self.days), *self.environments())

    def not_computed(self, day: _Day) -> str:
        """Why not; empty if the publication computed the day."""
        if day.change.content is None:
            return "a writer that bypassed the log wrote it"
        if where := day.change.only_where:
            return f"only its rows with {where} were computed, and the others carried over"
        before = self.put_back(day)
        if before is None:
            return ""
        return f"it was only put back or compacted, and holds what {before.publication} brought: reproduce that one"

    def put_back(self, day: _Day) -> Before | None:
        publication = self.made_by.publication
        if publication.kind == "compact":
            return self.made_by.before_of(day.table, day.change.day)
        before = self.undone.before_of(day.table, day.change.day) if self.undone else None
        # An undo stages days that have moved since, and their readers: these have new files.
        as_before = before and (day.change.adds, day.change.content) == (before.files, before.content)
        return before if as_before else None

    @cached_property
    def undone(self) -> Prepared | None:
        undoes = self.made_by.publication.provenance.undoes
        found = self.lake.publisher.log.find_prepared(undoes) if undoes else None
        return found[0] if found else None

    def ingest(self, days: Sequence[_Day]) -> None:
        lost = self.readable.first_lost(map(_recorded_input, self.made_by.publication.inputs), {})
        again = ingest_again(self.lake, self.made_by, lost, self.progress)
        if isinstance(again, str):
            for day in days:
                self.settle(day, None, again)
            return
        self.take(days, again)
        if reason := declared_anew(self.lake.catalog, self.made_by):
            for day in days:
                if self.done[day.key].verdict is ReproductionVerdict.DIFFERENT:
                    self.settle(day, None, reason)

    def settle(self, day: _Day, staged: DayContent | None, reason: str = "") -> None:
        foreign = day.change.content is None and day.change.adds
        published = None if foreign else day.content
        self.done[day.key] = Reproduced(*day.key, published, staged, reason)

    def take(self, days: Sequence[_Day], staged: Mapping[TableDay, DayContent]) -> None:
        for day in days:
            if (content := staged.get(day.key)) is not None:
                self.staged = True
                self.settle(day, content)
        what = f"{days[0].table}: staged again"
        self.progress(decide.days_so_far(what, len(self.done), len(self.days), clock.seconds() - self.started))

    def of_steps(self, days: Iterable[_Day]) -> Iterator[tuple[Step, list[_Day]]]:
        declared = step_by_table(self.lake.catalog.steps)
        by_step: dict[str, list[_Day]] = {}
        for day in days:
            if day.table in declared:
                by_step.setdefault(declared[day.table].name, []).append(day)
            else:
                self.settle(day, None, f"the table {day.table} is not declared any more")
        return ((declared[name], found) for name, found in by_step.items())

    def stage_step(self, step: Step, days: Sequence[_Day]) -> None:
        groups: dict[tuple[object, ...], tuple[Version, dict[date, Inputs]]] = {}
        for day in days:
            inputs = self.inputs_of(step, day)
            if isinstance(inputs, str):
                self.settle(day, None, inputs)
            else:
                version, read = inputs
                key = (version.name, *((each.table, each.version, bool(each.own)) for each in read))
                groups.setdefault(key, (version, {}))[1][day.change.day] = read
        for version, found in groups.values():
            self.stage_group(step, version, found, [day for day in days if day.change.day in found])

    def inputs_of(self, step: Step, day: _Day) -> tuple[Version, Inputs] | str:
        content = day.content
        version = next((each for each in step.versions if each.name == content.code_version), None)
        if content.is_adopted:
            return "it was adopted with its table: nothing here has computed it"
        if version is None:
            return f"the version {content.code_version or 'without a name'} of {step.name} is not declared any more"
        if edited := edited_logic(self.lake.storage, [step], {day.key: content}):
            return f"it was {edited[0].why}"
        inputs = self.recorded.inputs_of(step, version, day.change.day, content)
        if inputs is None:
            return f"{self.made_by.publication.id} did not record what it was computed from"
        lost = self.readable.first_lost(inputs, self.recorded.own)
        return lost or (version, inputs)

    def stage_group(self, step: Step, version: Version, inputs: Mapping[date, Inputs], days: Sequence[_Day]) -> None:
        read = [each for day in inputs.values() for each in day]
        pin, overlay = Pin({}, merge_inputs(read), {}), self.recorded.overlay(read)
        content = {day.change.day: day.content for day in days}
        wanted = {day: InputFingerprint(held.inputs, held.input_fingerprint) for day, held in content.items()}
        name = self.lake.new_id(f"reproduce-{step.name}")
        # Never opened: a run that builds these days meanwhile must not adopt what was staged without a verdict.
        timelines = {table.name: Timeline(self.lake.storage, table.name, name) for table in step.tables}
        spark = self.lake.spark()
        for part in decide.chunks(sorted(content), 0):
            key = self.lake.token_key_file
            chunk = Chunk(
                self.lake.catalog, step, version, part, wanted, pin, judged=False, overlay=overlay, token_key_file=key
            )
            with waiting(self.progress, f"{step.name}: Spark computes {part[0]} to {part[-1]}"):
                staged = stage_chunk(spark, self.lake.storage, chunk, timelines)
            self.take(days, {TableDay(day.table, day.day): day.content for day in staged})

    def environments(self) -> tuple[tuple[Environment, ...], Environment | None]:
        if not self.staged:
            return (), None
        found = lineages(self.lake.storage, [self.made_by.publication.id]).values()
        then = dict.fromkeys(each.environment for days in found for each in days.values() if each.environment)
        return tuple(then), environment_of(self.lake.spark(), self.lake.catalog.folder)


def _recorded_input(read: InputRead) -> RecordedInput:
    return RecordedInput(read.table, read.version, read.days)


# ------------------------------------------------------------------ what a day was computed from, as recorded


@dataclass(frozen=True)
class RecordedInput:
    table: str
    version: int | None
    logicals: Mapping[date, str]
    own: frozenset[date] = frozenset()


Inputs = tuple[RecordedInput, ...]


@dataclass(frozen=True)
class RecordedInputs:
    made_by: Prepared

    @cached_property
    def own(self) -> dict[str, dict[date, DayRecord]]:
        return {
            change.table: {day.day: day_record(day.day, day.adds, day.content) for day in change.days}
            for change in self.made_by.publication.tables
        }

    def inputs_of(self, step: Step, version: Version, day: date, content: DayContent) -> Inputs | None:
        """What ``content`` was computed from, or None: the log has one fingerprint for all inputs, so versions are
        tried.
        """
        needed = decide.read_days(step, version, [day])
        as_of = tables_as_of([step])
        for inputs in product(*(list(self._candidates(table, days, table in as_of)) for table, days in needed.items())):
            logicals = {each.table: each.logicals for each in inputs}
            if decide.wanted(step, version, [day], logicals)[day].inputs == content.inputs:
                return inputs
        return None

    def _candidates(self, table: str, needed: list[date], as_of: bool) -> Iterable[RecordedInput]:
        held = self.own.get(table, {})
        own = {day: held[day].logical for day in needed if day in held}
        for brought in (own, {}) if own else ({},):
            others = [day for day in needed if day not in brought]
            if not others or (as_of and brought):
                yield RecordedInput(table, None, brought, frozenset(brought))
            for read in (each for each in self.made_by.publication.inputs if each.table == table):
                rest = [day for day in others if day in read.days or not as_of]
                if rest and read.days.keys() >= set(rest):
                    logicals = {**{day: read.days[day] for day in rest}, **brought}
                    yield RecordedInput(table, read.version, logicals, frozenset(brought))

    def overlay(self, inputs: Iterable[RecordedInput]) -> Overlay:
        days: dict[str, dict[date, DayRecord]] = {}
        for each in inputs:
            days.setdefault(each.table, {}).update({day: self.own[each.table][day] for day in each.own})
        return Overlay(days)


def merge_inputs(inputs: Iterable[RecordedInput]) -> dict[str, InputRead]:
    versions: dict[str, int | None] = {}
    days: dict[str, dict[date, str]] = {}
    for each in inputs:
        versions[each.table] = each.version
        days.setdefault(each.table, {}).update(each.logicals)
    return {table: InputRead(table=table, version=versions[table], days=dates) for table, dates in days.items()}


@dataclass
class Readable:
    storage: Storage
    _files: dict[tuple[str, int], dict[date, list[str]] | None] = field(default_factory=dict)
    _lost: dict[tuple[str, int, date], bool] = field(default_factory=dict)

    def first_lost(self, inputs: Iterable[RecordedInput], own: DayRecords) -> str:
        for each in inputs:
            main = sorted(each.logicals.keys() - each.own)
            if each.version is not None and main and (lost := self._first(each.table, each.version, main)):
                return lost
            for record in (own[each.table][day] for day in sorted(each.own)):
                if self.storage.missing(f"{each.table}/{file.path}" for file in record.files):
                    return f"files of {each.table} {record.day} that it brought itself are gone"
        return ""

    def _first(self, table: str, version: int, days: list[date]) -> str:
        files = self._files_of(table, version)
        if files is None:
            return f"{table} cannot be read at version {version} any more"
        new = {path: day for day in days if (table, version, day) not in self._lost for path in files.get(day, ())}
        gone = {new[path] for path in self.storage.missing(new)}
        self._lost.update({(table, version, day): day in gone for day in new.values()})
        lost = (day for day in days if self._lost.get((table, version, day)))
        return next((f"files of {table} {day} at version {version} are gone" for day in lost), "")

    def _files_of(self, table: str, version: int) -> dict[date, list[str]] | None:
        if (table, version) not in self._files:
            self._files[table, version] = _paths_by_day(self.storage, table, version)
        return self._files[table, version]


def _paths_by_day(storage: Storage, table: str, version: int) -> dict[date, list[str]] | None:
    try:
        paths_of = files_at(storage, table, version).by_day()
    except VersionGone:
        return None
    return {day: [f"{table}/{path}" for path in sorted(paths)] for day, paths in paths_of.items()}
