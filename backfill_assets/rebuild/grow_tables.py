"""Tables grow on some days: new rows are staged, measured and judged, without the other rows of these days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, partial
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.days import TableDay
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.judge.engine import files_by_day
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.rows import rows_and_files, stage, take_in, write
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import DUPLICATES, DayFacts, Metrics, RuleOutcome, Table
from backfill_assets.model.rules import FewDuplicates, FewRejected
from backfill_assets.quality import gates, measures
from backfill_assets.rebuild import grown_content
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.growing import ChangedKeys, Gain, Growing, metric_names
from backfill_assets.rebuild.grown_content import EXTENSIONS, FileChoice
from backfill_assets.rebuild.keyed_rows import of_keys
from backfill_assets.rebuild.stage import (
    Chunk,
    StagedTableDay,
    content_of,
    measured_files,
    plain_facts,
    side_by_side,
    with_verdict,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Grown:
    """The days that have grown, judged; and why others have to be built whole."""

    staged: dict[date, list[StagedTableDay]] = field(default_factory=dict)
    whole: dict[date, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GrownTable:
    """What a table holds on a day once it has grown."""

    files: tuple[AddedFile, ...]
    metrics: Metrics


GrownTables = Mapping[str, Mapping[date, GrownTable]]
"""By table and day."""


@dataclass(frozen=True)
class Growth:
    """Days of a step that grow by one set of Spark jobs, and the timelines that they are staged in."""

    growing: Growing
    chunk: Chunk
    timelines: Mapping[str, Timeline]

    @cached_property
    def spark(self) -> SparkSession:
        return self.growing.lake.spark()

    @property
    def storage(self) -> Storage:
        return self.growing.lake.storage

    @cached_property
    def staged_as(self) -> Mapping[date, StagedAs]:
        wanted = self.chunk.wanted
        return {day: StagedAs(input_fingerprint=wanted[day].input_fingerprint) for day in self.chunk.days}

    def rows(self, table: Table, files: Sequence[AddedFile]) -> DataFrame:
        """Rows of ``table`` with their files."""
        return rows_and_files(self.spark, self.storage, table, files)

    def metrics(self, grown: GrownTables) -> dict[str, dict[date, Metrics]]:
        return {name: {day: each.metrics for day, each in days.items()} for name, days in grown.items()}

    # ---------------------------------------------------------------- one table

    def replace_rows(self, table: Table, rows: DataFrame, keys: ChangedKeys) -> dict[date, GrownTable]:
        """Put ``rows``, those of the changed keys, in the place of the ones that ``table`` has of these keys.

        The rows that stay of a file are written apart from them, so that each file is measured as a whole, without
        Spark.
        """
        names, timeline, counts = struct_type(table.contract).names, self.timelines[table.name], keys.counts[table.name]
        published = self.growing.files[table.name]
        choices = {day: grown_content.choose_files(published[day], counts) for day in self.chunk.days}
        went = [file for choice in choices.values() for file in choice.rewritten]
        parts = {"came": rows.select(*names)}
        if went:
            columns = [F.col(name) for name in keys.key]
            staying = of_keys(self.rows(table, went), columns, keys.changed, others=True)
            parts["stayed"] = staying.select(*names).repartition("day")
        files = side_by_side(self.spark, {part: partial(write, own, timeline, table) for part, own in parts.items()})
        for part, own in files.items():
            take_in(own, parts[part].schema, timeline, self.staged_as)
        measured = {part: measured_files(self.spark, table, timeline, own) for part, own in files.items()}
        gone = measure_files(self.storage, table, files_by_day(table.name, went), partial(self.rows, table, went))
        grown = {}
        for day in self.chunk.days:
            new, old = (_of_day(timeline, files.get(part, ()), day) for part in ("came", "stayed"))
            self.growing.grown[TableDay(table.name, day)] = Gain(new, keys=keys)
            _require_all_that_stays(table, day, choices[day], counts, sum(file.rows for file in old))
            came, stayed = (measured.get(part, {}).get(day, {}) for part in ("came", "stayed"))
            removed = grown_content.without(gone.get(day, {}), stayed, metric_names(table))
            grown[day] = self.grown(table, day, (*choices[day].kept, *new, *old), removed, came)
        return grown

    def add_rows(self, table: Table, rows: DataFrame) -> dict[date, GrownTable]:
        """Add ``rows`` to ``table``, which never loses any."""
        timeline, names = self.timelines[table.name], struct_type(table.contract).names
        staged = stage(rows.select(*names), timeline, self.staged_as, table=table)
        added = measured_files(self.spark, table, timeline, staged)
        grown = {}
        for day in self.chunk.days:
            files = (*sorted(self.growing.files[table.name][day]), *_of_day(timeline, staged, day))
            grown[day] = self.grown(table, day, files, {}, added.get(day, {}))
        return grown

    def grown(
        self, table: Table, day: date, files: tuple[AddedFile, ...], removed: Metrics, added: Metrics
    ) -> GrownTable:
        """What a day holds; empty metrics stand for no rows."""
        before = self.growing.content(table.name, day)
        metrics = grown_content.extended_metrics(before, removed, added, metric_names(table))
        return GrownTable(files, metrics if metrics["rows"] else dict(measures.zero_metrics(table)))

    # ---------------------------------------------------------------- judge

    def judged(self, grown: GrownTables, seconds: float) -> Grown:
        """Judge each day as a whole one. If one of its rules cannot be judged so, the day is to be built whole."""
        facts, tables = plain_facts(self.chunk, self.metrics(grown)), self.chunk.step.tables
        environment = environment_of(self.spark, self.chunk.catalog.folder)
        schemas = {name: timeline.schema() for name, timeline in self.timelines.items()}
        share, done = seconds / len(self.chunk.days), Grown()
        for day in self.chunk.days:
            reasons = [_why_whole(table, facts[table.name][day]) for table in tables]
            if reason := next(filter(None, reasons), ""):
                done.whole[day] = reason
                for table in tables:
                    self.growing.grown.pop(TableDay(table.name, day), None)
                continue
            for table in tables:
                name, rules = table.name, gates.judge(table, facts[table.name][day])
                content, files = self.content(name, day, grown[name][day].metrics, rules), grown[name][day].files
                staged = StagedTableDay(
                    name, day, files, content, rules, self.chunk.pin, schemas[name], share, environment
                )
                done.staged.setdefault(day, []).append(staged)
        return done

    def content(self, table: str, day: date, measured: Metrics, rules: Sequence[RuleOutcome]) -> DayContent:
        chunk, before = self.chunk, self.growing.content(table, day)
        metrics = {**measured, EXTENSIONS: grown_content.extensions_of(before) + 1}
        content = content_of(metrics, chunk.version.name, chunk.wanted[day].inputs, chunk.upstream(day))
        # What the whole day took, for plans; as unknown as it was.
        return replace(with_verdict(content, rules), staged_ms=before.staged_ms)


def _of_day(timeline: Timeline, files: Sequence[AddedFile], day: date) -> tuple[AddedFile, ...]:
    return tuple(file.below(timeline.folder) for file in files if file.day == str(day))


def _require_all_that_stays(
    table: Table, day: date, choice: FileChoice, counts: Mapping[str, int], stayed: int
) -> None:
    removed = sum(counts[file.path] for file in choice.rewritten)
    if grown_content.miscounted(choice, removed, stayed):
        raise LakehouseUnusable(
            f"Extending {table.name} {day} lost or doubled rows: {removed} of {choice.rewritten_rows} in the rewritten "
            f"files were replaced, and {stayed} were written again.",
            hint=f"Nothing was published. Build the day whole: backfill run {table.name} --days {day} --force",
        )


def _why_whole(table: Table, facts: DayFacts) -> str:
    """Why a whole build has to judge a day: it measures more than the new rows. Empty if it does not have to."""
    if measures.shows_examples(facts.own, table):
        return "people are shown an example of what is wrong in its rows"
    looks = [rule for rule in table.rules if isinstance(rule, FewDuplicates | FewRejected)]
    closer = {type(rule) for rule in looks if rule.looks_closer(facts)}
    if FewRejected in closer:
        return "it has so many rejected rows that they are looked at closely"
    if FewDuplicates in closer and facts.own.get(DUPLICATES) is None:
        return "it has so many deduplicated rows that they are looked at closely"
    truths = {rule.name for rule in gates.gates_of(table) if grown_content.is_truth(rule)}
    broken = [rule for rule in gates.judge(table, facts) if rule.holds_back and rule.rule in truths]
    return f"extended, it breaks {broken[0].rule}: {broken[0].observed}" if broken else ""
