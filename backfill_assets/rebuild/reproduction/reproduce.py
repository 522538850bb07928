"""Proves that a publication can be computed again: same inputs, code and parameters give the same rows.

Every table and day that a publication brought is staged again from what it was computed from, on a timeline that
no build adopts from. A day that an undo put back, or that a compaction rewrote, was computed by an earlier publication:
it is staged again from what that one recorded. What cannot be staged again is named, with the reason.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property

from backfill_assets.datasets import registry
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import DayContent, Environment, Prepared
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import step_by_table
from backfill_assets.publication.publisher import Pin
from backfill_assets.publication_log.lineage import lineages
from backfill_assets.published.reading import published_versions
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import InputFingerprint
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.reproduction.ingest_again import declared_anew, ingest_again
from backfill_assets.rebuild.reproduction.recorded_inputs import (
    Inputs,
    Origin,
    Readable,
    RecordedInputs,
    merge_inputs,
    origins,
)
from backfill_assets.rebuild.stage import Chunk, stage_chunk
from backfill_assets.rebuild.waiting import waiting

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
    computed_by: str = ""
    """The publication that computed the day: an earlier one if the day was only put back or compacted."""
    staged: DayContent | None = None
    """None if it could not be computed again; ``reason`` says why."""
    reason: str = ""
    moved: bool = False
    """True for a day that the publication did not compute itself: it put it back, or compacted it."""

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
    made_with: Mapping[str, tuple[Environment, ...]] = field(default_factory=dict)
    """By the publication that computed days; no environment if it did not record one."""
    here: Environment | None = None
    """None if no day could be computed again."""


def reproduce(lake: Lake, publication: str, progress: Progress) -> Reproduction:
    """Stage every day of every table of ``publication`` again and compare rows and checksums; publishes nothing.

    Raises :class:`InvalidRequest` for a publication that is unknown, under way or aborted.
    """
    entry = lake.publisher.log.find_prepared(publication)
    if entry is None:
        raise InvalidRequest(f"There is no publication {publication!r}.", hint="backfill history lists them.")
    if lake.publisher.log.outcome(lake.publisher.log.head(), publication) != "done":
        raise InvalidRequest(f"{publication} brought nothing: it was aborted, or is still under way.")
    return _Again(lake, publication, origins(lake.publisher.log, entry[0]), progress).run()


@dataclass
class _Again:
    """Stages the days of ``origins`` again, publication by publication and step by step."""

    lake: Lake
    publication: str
    origins: Sequence[Origin]
    progress: Progress
    done: dict[TableDay, Reproduced] = field(default_factory=dict)
    staged: bool = False
    started: float = field(default_factory=time.monotonic)

    @cached_property
    def readable(self) -> Readable:
        return Readable(self.lake.storage)

    def run(self) -> Reproduction:
        for origin in self.origins:
            self.settle(origin, _NOTHING if origin.withdrawn else None, origin.reason)
        for made_by, days_to_make in _by_maker(self.origins):
            if made_by.publication.kind == "append":
                self.ingest(made_by, days_to_make)
            else:
                for step, days in self.of_steps(days_to_make):
                    self.stage_step(made_by, step, days)
        return Reproduction(
            tuple(self.done[TableDay(origin.table, origin.day)] for origin in self.origins),
            self.made_with(),
            self.here(),
        )

    def ingest(self, made_by: Prepared, days_to_make: Sequence[Origin]) -> None:
        again = ingest_again(self.lake, made_by, self.progress)
        if isinstance(again, str):
            for origin in days_to_make:
                self.settle(origin, None, again)
            return
        self.take(days_to_make, again)
        if reason := declared_anew(made_by):
            for origin in days_to_make:
                if self.done[TableDay(origin.table, origin.day)].verdict is ReproductionVerdict.DIFFERENT:
                    self.settle(origin, None, reason)

    def settle(self, origin: Origin, staged: DayContent | None, reason: str = "") -> None:
        """Keep what became of a day."""
        published = _NOTHING if origin.withdrawn else origin.content
        made_by = origin.made_by.publication.id if origin.made_by else ""
        self.done[TableDay(origin.table, origin.day)] = Reproduced(
            origin.table, origin.day, published, made_by, staged, reason, moved=made_by not in ("", self.publication)
        )

    def take(self, days_to_make: Sequence[Origin], staged: Mapping[TableDay, DayContent]) -> None:
        """Settle those of ``days_to_make`` that were ``staged`` again."""
        for origin in days_to_make:
            if (content := staged.get(TableDay(origin.table, origin.day))) is not None:
                self.staged = True
                self.settle(origin, content)
        what = f"{days_to_make[0].table}: staged again"
        self.progress(decide.days_so_far(what, len(self.done), len(self.origins), time.monotonic() - self.started))

    def of_steps(self, days_to_make: Iterable[Origin]) -> Iterator[tuple[Step, list[Origin]]]:
        """The origins by the step that builds their table; those of tables that are no longer declared are settled."""
        declared = step_by_table(registry.steps())
        by_step: dict[str, list[Origin]] = {}
        for origin in days_to_make:
            if origin.table in declared:
                by_step.setdefault(declared[origin.table].name, []).append(origin)
            else:
                self.settle(origin, None, f"the table {origin.table} is not declared any more")
        return ((declared[name], days) for name, days in by_step.items())

    def stage_step(self, made_by: Prepared, step: Step, days_to_make: Sequence[Origin]) -> None:
        """Stage days of one step that one publication computed, together what was read at the same versions."""
        recorded = RecordedInputs(made_by, published_versions(self.lake.storage, made_by.publication.id))
        groups: dict[tuple[object, ...], tuple[Version, dict[date, Inputs]]] = {}
        for origin in days_to_make:
            inputs = self.inputs_of(recorded, step, origin)
            if isinstance(inputs, str):
                self.settle(origin, None, inputs)
            else:
                version, read = inputs
                key = (version.name, *((each.table, each.version, bool(each.own)) for each in read))
                groups.setdefault(key, (version, {}))[1][origin.day] = read
        for version, days in groups.values():
            self.stage_group(recorded, step, version, days, [each for each in days_to_make if each.day in days])

    def inputs_of(self, recorded: RecordedInputs, step: Step, origin: Origin) -> tuple[Version, Inputs] | str:
        """The version and the inputs that a day was computed with, or a sentence that says why they are not usable."""
        content = origin.content or _NOTHING
        version = next((each for each in step.versions if each.name == content.code_version), None)
        if version is None:
            return f"the version {content.code_version or 'without a name'} of {step.name} is not declared any more"
        inputs = recorded.inputs_of(step, version, origin.day, content)
        if inputs is None:
            return f"{recorded.made_by.publication.id} did not record what it was computed from"
        lost = self.readable.first_lost(inputs, recorded.versions)
        return lost or (version, inputs)

    def stage_group(
        self,
        recorded: RecordedInputs,
        step: Step,
        version: Version,
        inputs: Mapping[date, Inputs],
        days_to_make: Sequence[Origin],
    ) -> None:
        """Stage days that were computed from the same versions of the inputs."""
        read = [each for day in inputs.values() for each in day]
        pin, overlay = Pin({}, merge_inputs(read), {}, -1), recorded.overlay(read)
        content = {origin.day: origin.content or _NOTHING for origin in days_to_make}
        wanted = {day: InputFingerprint(held.inputs, held.input_fingerprint) for day, held in content.items()}
        name = self.lake.new_id(f"reproduce-{step.name}")
        # Never opened: a run that builds these days meanwhile must not adopt what was staged without a verdict.
        timelines = {table.name: Timeline(self.lake.storage, table.name, name) for table in step.tables}
        spark = self.lake.spark()
        for part in decide.chunks(sorted(content), 0):
            chunk = Chunk(step, version, part, wanted, pin, _nothing, judged=False, overlay=overlay)
            with waiting(self.progress, f"{step.name}: Spark computes {part[0]} to {part[-1]}"):
                staged = stage_chunk(spark, self.lake.storage, chunk, timelines)
            self.take(days_to_make, {TableDay(day.table, day.day): day.content for day in staged})

    def made_with(self) -> dict[str, tuple[Environment, ...]]:
        made_by = {day.computed_by for day in self.done.values() if day.computed_by}
        if not made_by:
            return {}
        environments_of: dict[str, dict[Environment, None]] = {publication: {} for publication in sorted(made_by)}
        for (publication, _), days in lineages(self.lake.storage, made_by).items():
            for (table, day), lineage in days.items():
                held = self.done.get(TableDay(table, day))
                if held is not None and held.computed_by == publication and lineage.environment is not None:
                    environments_of[publication][lineage.environment] = None
        return {publication: tuple(environments) for publication, environments in environments_of.items()}

    def here(self) -> Environment | None:
        return environment_of(self.lake.spark()) if self.staged else None


def _by_maker(days_to_make: Iterable[Origin]) -> Iterator[tuple[Prepared, list[Origin]]]:
    makers: dict[str, tuple[Prepared, list[Origin]]] = {}
    for origin in days_to_make:
        if origin.made_by is not None:
            makers.setdefault(origin.made_by.publication.id, (origin.made_by, []))[1].append(origin)
    return iter(makers.values())


def _nothing(_: date) -> dict[str, DayContent]:
    return {}
