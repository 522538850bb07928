"""A table grows on some days: new rows are staged, measured and judged, without the other rows of these days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.days import TableDay
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.judge.engine import files_by_day
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.rows import stage, take_in, write
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import DUPLICATES, EXAMPLE, DayFacts, Metrics, RuleOutcome, Step, Table, Version
from backfill_assets.model.rules import FewDuplicates, FewRejected
from backfill_assets.publish.publisher import Pin
from backfill_assets.quality import gates, measures
from backfill_assets.rebuild.decide import InputFingerprint
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.extension import extension_plan as plan
from backfill_assets.rebuild.extension.earlier_states import InputMemory
from backfill_assets.rebuild.extension.extension_plan import EXTENSIONS, FileChoice
from backfill_assets.rebuild.extension.extension_rows import (
    TableFiles,
    of_keys,
)
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.stage import (
    StagedTableDay,
    as_facts,
    content_of,
    measured_files,
    side_by_side,
    with_verdict,
)
from backfill_assets.rebuild.step_build import StepBuild

Files = Mapping[date, tuple[AddedFile, ...]]
"""Files by day."""
Wanted = Mapping[date, InputFingerprint]


@dataclass(frozen=True)
class ExtendedDay:
    """A day of a step that was extended, and how much it took."""

    staged: tuple[StagedTableDay, ...]
    added: int
    removed: int
    rewritten: int


@dataclass
class Extended:
    """The days that were extended, and why others have to be built whole."""

    extended: dict[date, ExtendedDay] = field(default_factory=dict)
    reasons: dict[date, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RefinedKeys:
    """The keys that raw brought, and how many of their rows each file has, by table and path."""

    changed: DataFrame
    counts: Mapping[str, Mapping[str, int]]
    key: tuple[str, ...]
    """The columns of the key in the refined table and in those that follow it by rows."""


@dataclass
class Growth:
    """What the steps of one call share: one state of the lakehouse, and the keys that have changed since."""

    lake: Lake
    pin: Pin
    files: Mapping[str, Files]
    """The published files by table and day."""
    steps: Sequence[Step]
    memory: InputMemory
    keys: dict[str, RefinedKeys] = field(default_factory=dict)
    """By table whose days were extended."""
    new_files: dict[TableDay, tuple[AddedFile, ...]] = field(default_factory=dict)
    """The files that were staged for an extended day with the rows of changed keys, and no others."""

    @cached_property
    def reader(self) -> TableFiles:
        return TableFiles(self.lake.spark(), self.lake.storage)

    def files_of(self, table: str, days: Sequence[date]) -> tuple[AddedFile, ...]:
        return tuple(file for day in days for file in self.files[table].get(day, ()))

    def why_not(self, step: Step, version: Version, day: date) -> str:
        """Why no table of a step can be extended on ``day``, as far as the tables themselves show."""
        for table in step.tables:
            key = TableDay(table.name, day)
            if day not in self.files[table.name]:
                return "it is being published to"
            paths = (file.path for file in self.files[table.name][day])
            names = metric_names(table).numbers
            if reason := plan.why_not_extendable(self.pin.states.get(key), paths, version, names):
                return reason
        return ""

    def content(self, table: str, day: date) -> DayContent:
        content = self.pin.states[TableDay(table, day)].content
        if content is None:
            raise LookupError(f"What {table} {day} holds is not known.")
        return content


def metric_names(table: Table) -> plan.MetricNames:
    """How each metric of ``table`` changes when rows come and go."""
    kept = tuple(measures.numbers(table))
    return plan.MetricNames(
        numbers=tuple(name for name in kept if not name.endswith(EXAMPLE)),
        least=tuple(name for name in kept if name.endswith(EXAMPLE)),
        examples=tuple(measures.examples(table)),
    )


# ------------------------------------------------------------------ one table


@dataclass(frozen=True)
class GrownTable:
    """What a table holds on a day once it has grown."""

    files: tuple[AddedFile, ...]
    metrics: Metrics
    added: int
    removed: int
    rewritten: int


def _columns(keys: RefinedKeys) -> list[Column]:
    return [F.col(name) for name in keys.key]


def grow(
    growth: Growth,
    table: Table,
    rows: DataFrame,
    keys: RefinedKeys,
    timeline: Timeline,
    staged_as: Mapping[date, StagedAs],
) -> dict[date, GrownTable]:
    """Put ``rows``, those of the changed keys, in the place of the ones that ``table`` has of these keys.

    The rows that stay of a file are written apart from them, so that each file is measured as a whole, without Spark.
    """
    days, names = sorted(staged_as), struct_type(table.contract).names
    choices = {day: plan.choose_files(growth.files[table.name][day], keys.counts[table.name]) for day in days}
    went = [file for choice in choices.values() for file in choice.rewritten]
    parts = {"came": rows.select(*names)}
    if went:
        staying = of_keys(growth.reader.of(table, went), _columns(keys), keys.changed, others=True)
        parts["stayed"] = staying.select(*names).repartition("day")
    files = side_by_side(
        growth.reader.spark, {part: partial(write, rows, timeline, table) for part, rows in parts.items()}
    )
    for part, own in files.items():
        take_in(own, parts[part].schema, timeline, staged_as)
    came, stayed = files["came"], files.get("stayed", [])
    measured = _Measured(
        came=measured_files(growth.reader.spark, table, timeline, came),
        stayed=measured_files(growth.reader.spark, table, timeline, stayed),
        went=measure_files(
            growth.lake.storage,
            table,
            files_by_day(table.name, went),
            lambda: growth.reader.of(table, went),
        ),
    )
    grown = {}
    for day in days:
        new, old = (
            tuple(file.below(timeline.folder) for file in files if file.day == str(day)) for files in (came, stayed)
        )
        growth.new_files[TableDay(table.name, day)] = new
        removed = sum(keys.counts[table.name][file.path] for file in choices[day].rewritten)
        _require_all_that_stays(table, day, choices[day], removed, sum(file.rows for file in old))
        grown[day] = _grown(growth, table, day, choices[day], (*new, *old), measured.of(day, metric_names(table)))
    return grown


@dataclass(frozen=True)
class _Measured:
    """The metrics of the rows that came, by day; of the files that went, and of their rows that stay."""

    came: Mapping[date, Metrics]
    stayed: Mapping[date, Metrics]
    went: Mapping[date, Metrics]

    def of(self, day: date, names: plan.MetricNames) -> tuple[Metrics, Metrics]:
        """Of the rows that a day loses, and of those that it gains; empty metrics stand for no rows."""
        return plan.without(self.went.get(day, {}), self.stayed.get(day, {}), names), self.came.get(day, {})


def _require_all_that_stays(table: Table, day: date, choice: FileChoice, removed: int, stayed: int) -> None:
    if plan.miscounted(choice, removed, stayed):
        raise LakehouseUnusable(
            f"Extending {table.name} {day} lost or doubled rows: {removed} of {choice.rewritten_rows} in the rewritten "
            f"files were replaced, and {stayed} were written again.",
            hint=f"Nothing was published. Build the day whole: backfill run {table.name} --days {day} --force",
        )


def _grown(
    growth: Growth,
    table: Table,
    day: date,
    choice: FileChoice,
    written: tuple[AddedFile, ...],
    change: tuple[Metrics, Metrics],
) -> GrownTable:
    removed, added = (int(str(metrics.get("rows", 0))) for metrics in change)
    metrics = plan.extended_metrics(growth.content(table.name, day), *change, metric_names(table))
    if metrics["rows"] == 0:
        metrics = dict(measures.zero_metrics(table))
    return GrownTable((*choice.kept, *written), metrics, added, removed, len(choice.rewritten))


def gain(
    growth: Growth, table: Table, rows: DataFrame, timeline: Timeline, staged_as: Mapping[date, StagedAs]
) -> dict[date, GrownTable]:
    """Add ``rows`` to ``table``, which never loses any."""
    staged = stage(rows.select(*struct_type(table.contract).names), timeline, staged_as, table=table)
    added = measured_files(growth.reader.spark, table, timeline, staged)
    grown = {}
    for day in staged_as:
        own = tuple(file.below(timeline.folder) for file in staged if file.day == str(day))
        choice = plan.choose_files(growth.files[table.name][day], {})
        grown[day] = _grown(growth, table, day, choice, own, ({}, added.get(day, {})))
    return grown


# ------------------------------------------------------------------ judge


def judge(
    growth: Growth,
    build: StepBuild,
    version: Version,
    grown: Mapping[str, Mapping[date, GrownTable]],
    timelines: Mapping[str, Timeline],
    days: Sequence[date],
    pin: Pin,
    now: Wanted,
    seconds: float,
    done: Extended,
) -> None:
    """Judge each day as a whole one. If one of its rules cannot be judged so, the day is to be built whole."""
    environment = environment_of(growth.reader.spark, growth.lake.catalog.folder)
    schemas = {name: timeline.schema() for name, timeline in timelines.items()}
    for day in days:
        staged, reason = [], ""
        for table in build.step.tables:
            facts = facts_of(build, version, table, grown, day, pin)
            if reason := _why_whole(table, facts):
                break
            rules = gates.judge(table, facts)
            if reason := _broken_truth(table, rules):
                break
            old = growth.content(table.name, day)
            metrics = {**grown[table.name][day].metrics, EXTENSIONS: plan.extensions_of(old) + 1}
            content = content_of(metrics, version.name, now[day].inputs, build.upstream(pin, version, day))
            # What the whole day took, for plans; as unknown as it was.
            judged = replace(with_verdict(content, rules), staged_ms=old.staged_ms)
            files = grown[table.name][day].files
            share = seconds / len(days)
            staged.append(
                StagedTableDay(table.name, day, files, judged, rules, pin, schemas[table.name], share, environment)
            )
        if reason:
            done.reasons[day] = reason
            for table in build.step.tables:
                growth.new_files.pop(TableDay(table.name, day), None)
            continue
        figures = [grown[table.name][day] for table in build.step.tables]
        done.extended[day] = ExtendedDay(
            tuple(staged),
            added=sum(each.added for each in figures),
            removed=sum(each.removed for each in figures),
            rewritten=sum(each.rewritten for each in figures),
        )


def facts_of(
    build: StepBuild,
    version: Version,
    table: Table,
    grown: Mapping[str, Mapping[date, GrownTable]],
    day: date,
    pin: Pin,
) -> DayFacts:
    """What the rules of ``table`` look at on a day that has grown."""
    return DayFacts(
        own=grown[table.name][day].metrics,
        upstream={name: as_facts(content) for name, content in build.upstream(pin, version, day).items()},
        companions={name: found[day].metrics for name, found in grown.items() if name != table.name},
    )


def _why_whole(table: Table, facts: DayFacts) -> str:
    """Why a whole build has to measure more than was measured of the new rows; empty if it does not."""
    if plan.shows_wrong_rows(facts.own, metric_names(table), EXAMPLE):
        return "people are shown an example of what is wrong in its rows"
    rules = [rule for rule in table.rules if isinstance(rule, FewDuplicates | FewRejected)]
    closer = {type(rule) for rule in rules if rule.looks_closer(facts)}
    if FewRejected in closer:
        return "it has so many rejected rows that they are looked at closely"
    if FewDuplicates in closer and facts.own.get(DUPLICATES) is None:
        return "it has so many deduplicated rows that they are looked at closely"
    return ""


def _broken_truth(table: Table, rules: Sequence[RuleOutcome]) -> str:
    truths = {rule.name for rule in gates.gates_of(table) if plan.is_truth(rule)}
    broken = [rule for rule in rules if rule.holds_back and rule.rule in truths]
    return f"extended, it breaks {broken[0].rule}: {broken[0].observed}" if broken else ""
