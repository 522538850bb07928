"""Extends days: computes rows from new input rows and old ones of the same keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, cached_property, partial
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.judge.changed_keys import (
    KeyedFiles,
    copied_columns,
    count_rows_of_keys,
    keys_of_raw,
    rows_of_other_keys,
)
from backfill_assets.judge.engine import DayFiles, files_by_day, of_days
from backfill_assets.judge.measure import measure_files
from backfill_assets.judge.second_look import with_second_look
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.rows import rows_and_files, take_in, write
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.lakehouse.written_files import write_folder, written_files
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import DUPLICATES, DayFacts, Metrics, RuleOutcome, Step, Table, Transform
from backfill_assets.model.refinement import Refinement
from backfill_assets.model.rules import FewDuplicates, FewRejected
from backfill_assets.quality import gates, measures
from backfill_assets.rebuild import grown_content
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.growing import ChangedKeys, Gain, Growing, metric_names
from backfill_assets.rebuild.grown_content import EXTENSIONS, FileChoice, had_no_duplicates
from backfill_assets.rebuild.refining import refine_gained
from backfill_assets.rebuild.stage import (
    Chunk,
    StagedTableDay,
    input_rows,
    measured_files,
    plain_facts,
    side_by_side,
    with_verdict,
)
from backfill_assets.spark.worker_queries import written_schema
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ROWS_AT_ONCE = 16_384


def grow_chunk(growing: Growing, chunk: Chunk, gains: Mapping[date, Gain], timelines: Mapping[str, Timeline]) -> Grown:
    """Extend days by their ``gains``, and judge them like whole days.

    ``timelines`` has one for each table. Days whose metrics cannot be told exactly so have to be built whole.
    """
    transform = chunk.version.transform
    if isinstance(transform, Refinement):
        return _grow_refined(Growth(growing, chunk, timelines), transform, gains)
    done = Grown()
    for keys in {id(gains[day].keys): gains[day].keys for day in chunk.days}.values():
        days = [day for day in chunk.days if gains[day].keys is keys]
        if keys is not None:
            part = _grow_following(Growth(growing, replace(chunk, days=days), timelines), transform, keys, gains)
            done = Grown({**done.staged, **part.staged}, {**done.whole, **part.whole})
    return done


# ------------------------------------------------------------------ raw rows become typed rows


def _grow_refined(growth: Growth, refinement: Refinement, gains: Mapping[date, Gain]) -> Grown:
    started, days = clock.seconds(), growth.chunk.days
    raw = growth.chunk.catalog.table(growth.chunk.version.reads[0].table)
    bronze, quarantine = growth.chunk.step.tables
    new = [file for day in days for file in gains[day].new]
    keys = _find_keys(growth, raw, refinement, gains)
    again = [file for day in days for file in gains[day].old if keys.counts[raw.name].get(file.path)]
    into = [(table, growth.timelines[table.name]) for table in (bronze, quarantine)]
    refined = cache(partial(refine_gained, refinement, KeyedFiles(raw, new), KeyedFiles(raw, again), keys.values, into))
    grown = {
        bronze.name: growth.replace_rows(bronze, lambda: refined().accepted, written_schema(bronze.contract), keys),
        quarantine.name: growth.add_rows(quarantine, refined().rejected),
    }
    raw_files = {day: [file.below(raw.name) for file in (*new, *again) if file.day == str(day)] for day in days}
    grown[bronze.name] |= _without_duplicates(growth, bronze, grown, raw_files)
    return growth.judged(grown, clock.seconds() - started)


def _without_duplicates(
    growth: Growth, bronze: Table, grown: Mapping[str, Mapping[date, GrownTable]], raw: DayFiles
) -> dict[date, GrownTable]:
    """Days of many deduplicated rows without a true duplicate (equal key and version); others are built whole. ``raw``
    has all rows of the changed keys: if there was none before, no other row can be one.
    """
    facts = plain_facts(growth.chunk, growth.metrics(grown))[bronze.name]
    known = {day: own for day, own in facts.items() if had_no_duplicates(growth.growing.content(bronze.name, day))}

    def files(rule: FewDuplicates | FewRejected, days: Sequence[date]) -> tuple[DayFiles, DayFiles]:
        rejects = grown[rule.quarantine]
        return of_days(raw, days), {day: [file.below(rule.quarantine) for file in rejects[day].files] for day in days}

    looked_at = with_second_look(growth.storage, bronze, known, files)
    return {
        day: replace(grown[bronze.name][day], metrics=found.own)
        for day, found in looked_at.items()
        if found.own.get(DUPLICATES) == 0
    }


def _find_keys(growth: Growth, raw: Table, refinement: Refinement, gains: Mapping[date, Gain]) -> ChangedKeys:
    days, growing, storage = growth.chunk.days, growth.growing, growth.storage
    new, old = (tuple(chain.from_iterable(getattr(gains[day], part) for day in days)) for part in ("new", "old"))
    values = keys_of_raw(storage, KeyedFiles(raw, new), refinement)
    bronze = growth.chunk.step.tables[0]
    tables = (bronze, *_followers(growing.steps, bronze.name, refinement.key))
    places = [KeyedFiles(table, growing.files_of(table.name, days)) for table in tables]
    counts = count_rows_of_keys(storage, refinement, values, KeyedFiles(raw, old), places)
    return ChangedKeys(values, counts, refinement.key)


def _followers(steps: Sequence[Step], table: str, key: Sequence[str]) -> list[Table]:
    """Tables that follow ``table`` by rows in any version, directly or through others."""
    grown, found = {table}, list[Table]()
    for step in steps:
        follows = any(version.follows == "rows" and version.reads[0].table in grown for version in step.versions)
        if follows and set(step.tables[0].key) == set(key):
            grown.add(step.name)
            found.append(step.tables[0])
    return found


# ------------------------------------------------------------------ tables that follow row by row


def _grow_following(growth: Growth, transform: Transform, keys: ChangedKeys, gains: Mapping[date, Gain]) -> Grown:
    started, (table,) = clock.seconds(), growth.chunk.step.tables
    rows = transform(_inputs(growth, gains))[table.name].select(*struct_type(table.contract).names)
    came = partial(write, rows, growth.timelines[table.name], table)
    grown = {table.name: growth.replace_rows(table, came, rows.schema, keys)}
    _require_keys_of(growth, table, keys, gains)
    return growth.judged(grown, clock.seconds() - started)


def _inputs(growth: Growth, gains: Mapping[date, Gain]) -> dict[str, DataFrame]:
    """Changed rows of the first input; other inputs as for whole days."""
    chunk = growth.chunk
    first = chunk.catalog.table(chunk.version.reads[0].table)
    rows = growth.rows(first, [file for day in chunk.days for file in gains[day].new])
    others = chunk.read_days
    del others[first.name]
    return {
        first.name: rows.select(*struct_type(first.contract).names),
        **{name: input_rows(growth.spark, growth.storage, chunk, name, days) for name, days in others.items()},
    }


def _require_keys_of(growth: Growth, table: Table, keys: ChangedKeys, gains: Mapping[date, Gain]) -> None:
    """A row of another key would be added beside the one there."""
    first = growth.chunk.version.reads[0].table
    for day in growth.chunk.days:
        made_files = growth.growing.grown[TableDay(table.name, day)].new
        read, made = (
            keys_in(growth.storage, name, files, keys.key)
            for name, files in ((first, gains[day].new), (table.name, made_files))
        )
        if others := made - read:
            raise LakehouseUnusable(
                f"Extending {table.name} {day} gave {format_count(len(others), 'key')} that its rows of {first} do not "
                f"have: {min(map(str, others))}.",
                hint=f"Nothing was published. A transform with follows='rows' keeps each row's key: correct it, or "
                f"build the day whole: backfill run {table.name} --days {day} --force",
            )


# ------------------------------------------------------------------ one table, without the other rows of its days


@dataclass(frozen=True)
class Grown:
    staged: dict[date, list[StagedTableDay]] = field(default_factory=dict)
    whole: dict[date, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GrownTable:
    files: tuple[AddedFile, ...]
    metrics: Metrics


GrownTables = Mapping[str, Mapping[date, GrownTable]]


@dataclass(frozen=True)
class Growth:
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
        return rows_and_files(self.spark, self.storage, table, files)

    def metrics(self, grown: GrownTables) -> dict[str, dict[date, Metrics]]:
        return {name: {day: each.metrics for day, each in days.items()} for name, days in grown.items()}

    # ---------------------------------------------------------------- one table

    def replace_rows(
        self, table: Table, came: Callable[[], Sequence[AddedFile]], schema: StructType, keys: ChangedKeys
    ) -> dict[date, GrownTable]:
        """Replace the rows of the changed ``keys`` by those that ``came`` writes.

        ``came`` returns unnamed files. Remaining rows of rewritten files get files of their own: each file is measured
        as a whole, without Spark.
        """
        timeline, counts = self.timelines[table.name], keys.counts[table.name]
        published = self.growing.files[table.name]
        choices = {day: grown_content.choose_files(published[day], counts) for day in self.chunk.days}
        went = [file for choice in choices.values() for file in choice.rewritten]
        parts = {"came": came}
        if went:
            parts["stayed"] = partial(_copy_others, self.storage, KeyedFiles(table, went), keys, timeline)
        files = side_by_side(self.spark, parts)
        for own in files.values():
            take_in(own, schema, timeline, self.staged_as)
        measured = {part: measured_files(self.spark, table, timeline, own) for part, own in files.items()}
        gone = measure_files(self.storage, table, files_by_day(table.name, went), partial(self.rows, table, went))
        grown = {}
        for day in self.chunk.days:
            new, old = (_of_day(timeline, files.get(part, ()), day) for part in ("came", "stayed"))
            self.growing.grown[TableDay(table.name, day)] = Gain(new, keys=keys)
            _require_all_that_stays(table, day, choices[day], counts, sum(file.rows for file in old))
            added, stayed = (measured.get(part, {}).get(day, {}) for part in ("came", "stayed"))
            removed = grown_content.without(gone.get(day, {}), stayed, metric_names(table))
            grown[day] = self.grown(table, day, (*choices[day].kept, *new, *old), removed, added)
        return grown

    def add_rows(self, table: Table, staged: Sequence[AddedFile]) -> dict[date, GrownTable]:
        """Add the rows of written files to a table that never loses any."""
        timeline = self.timelines[table.name]
        take_in(staged, written_schema(table.contract), timeline, self.staged_as)
        added = measured_files(self.spark, table, timeline, staged)
        grown = {}
        for day in self.chunk.days:
            files = (*sorted(self.growing.files[table.name][day]), *_of_day(timeline, staged, day))
            grown[day] = self.grown(table, day, files, {}, added.get(day, {}))
        return grown

    def grown(
        self, table: Table, day: date, files: tuple[AddedFile, ...], removed: Metrics, added: Metrics
    ) -> GrownTable:
        before = self.growing.content(table.name, day)
        metrics = grown_content.extended_metrics(before, removed, added, metric_names(table))
        return GrownTable(files, metrics if metrics["rows"] else dict(measures.zero_metrics(table)))

    # ---------------------------------------------------------------- judge

    def judged(self, grown: GrownTables, seconds: float) -> Grown:
        """A day with a rule that cannot be judged from new rows has to be built whole."""
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
        content = chunk.content_of(day, metrics)
        # Plans estimate whole builds by this: keep the time of the last one, known or not.
        return replace(with_verdict(content, rules), staged_ms=before.staged_ms)


def _copy_others(storage: Storage, went: KeyedFiles, keys: ChangedKeys, timeline: Timeline) -> list[AddedFile]:
    """Copies rows of other keys from rewritten files into one new file a day."""
    folder, columns = write_folder(), copied_columns(went.table)
    copied = rows_of_other_keys(storage, went, keys.key, keys.values)
    for day, parts in groupby(copied, key=itemgetter(0)):
        with storage.parquet_writer(f"{timeline.path}/{folder}/day={day}/part-0.zstd.parquet", columns) as writer:
            for _, rows in parts:
                writer.write_table(rows)
    return written_files(storage, timeline.path, folder)


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
    """Returns an empty text if the new rows are enough to measure and judge the day."""
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


def keys_in(storage: Storage, table: str, files: Sequence[AddedFile], key: Sequence[str]) -> set[tuple[object, ...]]:
    batches = (batch for file in files for batch in storage.parquet_batches(f"{table}/{file.path}", _ROWS_AT_ONCE, key))
    return {row for batch in batches for row in zip(*(batch.column(name).to_pylist() for name in key), strict=True)}
