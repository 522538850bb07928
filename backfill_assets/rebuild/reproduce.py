"""Proves that a publication can be computed again: same inputs, code and parameters give the same rows.

Every table and day that a publication brought is staged again from what it was computed from, on a timeline that
no build adopts from; landed files are ingested again. What cannot be staged again is named, with the reason: a day that
an undo put back, or that a compaction rewrote, with the publication that brought it before.
"""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import (
    Before,
    DayChange,
    DayContent,
    Environment,
    InputRead,
    Position,
    Prepared,
    TableChange,
)
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.raw_rows import raw_schema
from backfill_assets.landing.zone import LandedFile, LandingZone
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.deletion import REFRESH
from backfill_assets.model.graph import step_by_table
from backfill_assets.model.placement import recorded_placement
from backfill_assets.publish.log import lineages
from backfill_assets.publish.publisher import Pin
from backfill_assets.quality.measures import zero_metrics
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import InputFingerprint
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.ingest import ArrivalBuild, from_landed_files
from backfill_assets.rebuild.lake import Lake, Progress, waiting
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.recorded_inputs import Inputs, Readable, RecordedInput, RecordedInputs, merge_inputs
from backfill_assets.rebuild.stage import Chunk, content_of, stage_chunk
from backfill_assets.state.reading import unknown_publication
from backfill_assets.state.stream_positions import stream_topics

_NOTHING = DayContent(rows=0, checksum="0")


class ReproductionVerdict(enum.StrEnum):
    """What became of a published day that was to be computed again."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_REPRODUCED = "cannot be reproduced"


@dataclass(frozen=True)
class Reproduced:
    """One published day beside what the recorded inputs and code give today."""

    table: str
    day: date
    published: DayContent | None
    """None for a day with a foreign write."""
    staged: DayContent | None = None
    """None if it could not be computed again; ``reason`` says why."""
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
    """All days of a publication, and what computed them then and now."""

    days: tuple[Reproduced, ...]
    made_with: tuple[Environment, ...] = ()
    """What computed them then; empty if that was not recorded, and if no day could be computed again."""
    here: Environment | None = None
    """None if no day could be computed again."""


def reproduce(lake: Lake, publication: str, progress: Progress) -> Reproduction:
    """Stage every day of every table of ``publication`` again and compare rows and checksums; publishes nothing.

    Raises :class:`InvalidRequest` for a publication that is unknown, under way or aborted.
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
    """A day of a table as the publication brought it."""

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
    """Stages the days of a publication again, step by step."""

    lake: Lake
    recorded: RecordedInputs
    progress: Progress
    done: dict[TableDay, Reproduced] = field(default_factory=dict)
    staged: bool = False
    started: float = field(default_factory=time.monotonic)

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
        """Why the publication did not compute a day that it brought; empty if it did."""
        if day.change.content is None:
            return "a writer that bypassed the log wrote it"
        before = self.put_back(day)
        if before is None:
            return ""
        return f"it was only put back or compacted, and holds what {before.publication} brought: reproduce that one"

    def put_back(self, day: _Day) -> Before | None:
        publication = self.made_by.publication
        if publication.kind == "compact":
            return self.made_by.before_of(day.table, day.change.day)
        before = self.undone.before_of(day.table, day.change.day) if self.undone else None
        # An undo stages days again that moved since, and what reads them: these have files of their own.
        as_before = before and (day.change.adds, day.change.content) == (before.files, before.content)
        return before if as_before else None

    @cached_property
    def undone(self) -> Prepared | None:
        """What the publication undid."""
        undoes = self.made_by.publication.provenance.undoes
        found = self.lake.publisher.log.find_prepared(undoes) if undoes else None
        return found[0] if found else None

    def ingest(self, days: Sequence[_Day]) -> None:
        again = ingest_again(self.lake, self.made_by, self.progress)
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
        """Keep what became of a day."""
        foreign = day.change.content is None and day.change.adds
        published = None if foreign else day.content
        self.done[day.key] = Reproduced(*day.key, published, staged, reason)

    def take(self, days: Sequence[_Day], staged: Mapping[TableDay, DayContent]) -> None:
        """Settle those of ``days`` that were ``staged`` again."""
        for day in days:
            if (content := staged.get(day.key)) is not None:
                self.staged = True
                self.settle(day, content)
        what = f"{days[0].table}: staged again"
        self.progress(decide.days_so_far(what, len(self.done), len(self.days), time.monotonic() - self.started))

    def of_steps(self, days: Iterable[_Day]) -> Iterator[tuple[Step, list[_Day]]]:
        """The days by the step that builds their table; those of tables that are no longer declared are settled."""
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
        """The version and the inputs that a day was computed with, or a sentence that says why they are not usable."""
        content = day.content
        version = next((each for each in step.versions if each.name == content.code_version), None)
        if version is None:
            return f"the version {content.code_version or 'without a name'} of {step.name} is not declared any more"
        inputs = self.recorded.inputs_of(step, version, day.change.day, content)
        if inputs is None:
            return f"{self.made_by.publication.id} did not record what it was computed from"
        lost = self.readable.first_lost(inputs, self.recorded.own)
        return lost or (version, inputs)

    def stage_group(self, step: Step, version: Version, inputs: Mapping[date, Inputs], days: Sequence[_Day]) -> None:
        """Stage days that were computed from the same versions of the inputs."""
        read = [each for day in inputs.values() for each in day]
        pin, overlay = Pin({}, merge_inputs(read), {}), self.recorded.overlay(read)
        content = {day.change.day: day.content for day in days}
        wanted = {day: InputFingerprint(held.inputs, held.input_fingerprint) for day, held in content.items()}
        name = self.lake.new_id(f"reproduce-{step.name}")
        # Never opened: a run that builds these days meanwhile must not adopt what was staged without a verdict.
        timelines = {table.name: Timeline(self.lake.storage, table.name, name) for table in step.tables}
        spark = self.lake.spark()
        for part in decide.chunks(sorted(content), 0):
            chunk = Chunk(self.lake.catalog, step, version, part, wanted, pin, _nothing, judged=False, overlay=overlay)
            with waiting(self.progress, f"{step.name}: Spark computes {part[0]} to {part[-1]}"):
                staged = stage_chunk(spark, self.lake.storage, chunk, timelines)
            self.take(days, {TableDay(day.table, day.day): day.content for day in staged})

    def environments(self) -> tuple[tuple[Environment, ...], Environment | None]:
        """What computed the days then, each once, and what there is here; nothing if none could be computed again."""
        if not self.staged:
            return (), None
        found = lineages(self.lake.storage, [self.made_by.publication.id]).values()
        then = dict.fromkeys(each.environment for days in found for each in days.values() if each.environment)
        return tuple(then), environment_of(self.lake.spark(), self.lake.catalog.folder)


def _nothing(_: date) -> dict[str, DayContent]:
    return {}


# ------------------------------------------------------------------ landed files

Contents = Mapping[TableDay, DayContent]
"""What was ingested, by table and day."""


def ingest_again(lake: Lake, made_by: Prepared, progress: Progress) -> Contents | str:
    """The rows that the landed files of ``made_by`` give today, or a sentence that says why they cannot be ingested."""
    (change,) = made_by.publication.tables
    try:
        step = lake.catalog.step(change.table)
    except InvalidRequest:
        return f"the table {change.table} is not declared any more"
    if never := _why_never(made_by, change):
        return never
    build = ArrivalBuild(lake, as_declared_then(step, change), RunInfo(""), progress)
    files = _landed_again(lake.landing, build.source.name, change.positions)
    if isinstance(files, str):
        return files
    lost = Readable(lake.storage).first_lost(map(_recorded_input, made_by.publication.inputs), {})
    if lost:
        return lost
    if build.source.personal_fields and not Path(lake.token_key_file).exists():
        return f"the token key {lake.token_key_file} is gone"
    return _taken_in(build, files, made_by)


def declared_anew(catalog: Catalog, made_by: Prepared) -> str:
    """A sentence that says which fields of the source were declared or dropped since ``made_by``; empty for none.

    Raw keeps the value of a field that is not declared elsewhere, so the same lines give other rows.
    """
    (change,) = made_by.publication.tables
    source = catalog.step(change.table).source
    if source is None:
        return ""
    then = {field["name"] for field in json.loads(change.table_schema)["fields"]}
    differ = sorted(then ^ set(raw_schema(source).names))
    return f"its source has other fields now than it had then: {', '.join(differ)}" if differ else ""


def _why_never(made_by: Prepared, change: TableChange) -> str:
    """Why its rows cannot be had again from landed files, whichever there are; empty if they can."""
    if made_by.publication.provenance.reason.startswith(REFRESH):
        return "it read its source again, and appended what differed from the rows that raw held then"
    if topics := stream_topics(change.positions):
        return f"its rows are events of the topic {', '.join(topics)}, which is not read again: raw has them"
    return ""


def as_declared_then(step: Step, change: TableChange) -> Step:
    """``step`` with the event days that were possible when ``change`` was ingested."""
    recorded = {day.content.code_version for day in change.days if day.content}
    if step.source is None or not recorded:
        return step
    then = recorded_placement(recorded.pop())
    return replace(step, source=replace(step.source, earliest_day=then.earliest_day, days_ahead=then.days_ahead))


def _taken_in(build: ArrivalBuild, files: list[LandedFile], made_by: Prepared) -> Contents:
    table = build.table
    staged = build.staged(from_landed_files(build, files))
    try:
        searched = next((read for read in made_by.publication.inputs if read.table == table.name), None)
        measured = build.measured(staged, searched)
    finally:
        staged.close()
    days = {day.day for day in made_by.change(table.name).days} | set(measured)
    nothing = zero_metrics(table)
    return {TableDay(table.name, day): content_of(measured.get(day, nothing), "", "", {}) for day in sorted(days)}


def _landed_again(landing: LandingZone, source: str, positions: tuple[Position, ...]) -> list[LandedFile] | str:
    """The files of ``positions`` in the landing zone, or a sentence that names the one that changed."""
    paths = [position.id.split(":", 2)[2] for position in positions]
    there = {path for paths in landing.paths(source).values() for path in paths}
    if gone := sorted(set(paths) - there):
        return f"the landed file {gone[0]} is gone" + (f", and {len(gone) - 1} more" if len(gone) > 1 else "")
    days = {date.fromisoformat(path.split("/")[1]) for path in paths}
    file_of = {file.position[0]: file for file in landing.files(source, days)} if days else {}
    for position in positions:
        if file_of[position.id].position[1] != position.after:
            return f"the landed file {file_of[position.id].path} is not what it was"
    return [file_of[position.id] for position in positions]


def _recorded_input(read: InputRead) -> RecordedInput:
    return RecordedInput(read.table, read.version, read.days)
