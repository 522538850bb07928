"""What the new rows of a day change in its tables: computed, staged, measured and judged, without the other rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.datasets import registry
from backfill_assets.days import TableDay
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.rows import stage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.landing.deletions import days_with_deletions
from backfill_assets.model.contract_columns import struct_type
from backfill_assets.model.declaration import EXAMPLE, DayFacts, Metrics, RuleOutcome, Step, Table
from backfill_assets.model.landed import OCCURRENCE
from backfill_assets.model.refinement import Refinement, accepted, rejected
from backfill_assets.model.rules import FewDuplicates
from backfill_assets.publication.publisher import Pin
from backfill_assets.quality import gates, measures
from backfill_assets.rebuild.decide import InputFingerprint, wanted
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.extension import extension_plan as plan
from backfill_assets.rebuild.extension.earlier_states import InputMemory, find_earlier_states
from backfill_assets.rebuild.extension.extension_plan import EXTENSIONS, EarlierState, FileChoice
from backfill_assets.rebuild.extension.extension_rows import (
    KeyedFiles,
    TableFiles,
    changed_keys,
    count_rows_of_keys,
    key_of_landed,
    keys_in,
    of_keys,
)
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.measuring.measure_files import measure_files
from backfill_assets.rebuild.replace import ReplaceBuild
from backfill_assets.rebuild.stage import (
    StagedTableDay,
    as_facts,
    content_of,
    measured_files,
    side_by_side,
    with_verdict,
)
from backfill_assets.text import format_count

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

    def why_not(self, build: ReplaceBuild, day: date) -> str:
        """Why no table of a step can be extended on ``day``, as far as the tables themselves show."""
        for table in build.step.tables:
            key = TableDay(table.name, day)
            if day not in self.files[table.name]:
                return "it is being published to"
            paths = (file.path for file in self.files[table.name][day])
            names = metric_names(table).numbers
            if reason := plan.why_not_extendable(self.pin.states.get(key), paths, build.version, names):
                return reason
        return ""

    def content(self, table: str, day: date) -> DayContent:
        content = self.pin.states[TableDay(table, day)].content
        if content is None:
            raise LookupError(f"What {table} {day} holds is not known.")
        return content


def metric_names(table: Table) -> plan.MetricNames:
    """How each metric of ``table`` changes when rows come and go."""
    sets = measures.sets_of_rows(table)
    return plan.MetricNames(
        numbers=(*measures.measurement(table), *(name for name in sets if not name.endswith(EXAMPLE))),
        least=tuple(name for name in sets if name.endswith(EXAMPLE)),
        examples=tuple(measures.examples(table)),
    )


# ------------------------------------------------------------------ raw rows become typed rows


def extend_refined(growth: Growth, build: ReplaceBuild, days: Sequence[date], pin: Pin, now: Wanted) -> Extended:
    """Extend ``days`` of the step that refines raw rows: winners and rejected rows."""
    refinement = build.version.transform
    if not isinstance(refinement, Refinement) or OCCURRENCE in refinement.key:
        return Extended(reasons=dict.fromkeys(days, "its key numbers identical lines"))
    raw = build.version.reads[0].table
    corrected = days_with_deletions(pin.states, raw, days)
    reasons = {day: why for day in days if (why := growth.why_not(build, day))}
    reasons |= dict.fromkeys(corrected, f"the source has taken rows of {raw} back")
    rest = [day for day in days if day not in reasons]
    files = _input_files(growth, raw, rest, pin)
    gained = _gained(growth, build, raw, rest, files, pin)
    reasons |= {day: f"which rows of {raw} are new is not known" for day in rest if day not in gained}
    done = Extended(reasons=reasons)
    if gained:
        _extend_refined(growth, build, refinement, gained, files, pin, now, done)
    return done


def _input_files(growth: Growth, table: str, days: Sequence[date], pin: Pin) -> Files:
    version = pin.inputs[table].version
    if version is None or not days:
        return dict.fromkeys(days, ())
    return read_log(growth.lake.storage, table, version).of_days(days)


def _gained(
    growth: Growth, build: ReplaceBuild, raw: str, days: Sequence[date], files: Files, pin: Pin
) -> dict[date, tuple[AddedFile, ...]]:
    """The files that each day of ``raw`` gained since its refined rows were built; days of which it is known."""
    paths = {day: frozenset(file.path for file in files[day]) for day in days}
    recorded = {day: growth.content(build.step.name, day).inputs for day in days}

    def fingerprint_of(day: date, logical: str) -> str:
        return wanted(build.step, build.version, [day], {raw: {day: logical}})[day].inputs

    def gained_since(day: date, states: Sequence[EarlierState]) -> frozenset[str] | None:
        return plan.gained_files(recorded[day], partial(fingerprint_of, day), states, paths[day])

    found = {day: gained_since(day, growth.memory.of(TableDay(raw, day))) for day in days}
    unknown = {
        day: lambda logical, day=day: fingerprint_of(day, logical) == recorded[day]
        for day in days
        if found[day] is None
    }
    for day, state in find_earlier_states(growth.lake.publisher.log, raw, unknown).items():
        found[day] = gained_since(day, [state])
    for day in days:
        growth.memory.remember(TableDay(raw, day), EarlierState(pin.inputs[raw].days[day], paths[day]))
    return {
        day: tuple(file for file in files[day] if file.path in new) for day, new in found.items() if new is not None
    }


def _extend_refined(
    growth: Growth,
    build: ReplaceBuild,
    refinement: Refinement,
    gained: Files,
    files: Files,
    pin: Pin,
    now: Wanted,
    done: Extended,
) -> None:
    started = time.monotonic()
    days, raw = sorted(gained), build.version.reads[0].table
    bronze, quarantine = build.step.tables
    new = [file for day in days for file in gained[day]]
    new_rows = growth.reader.raw(refinement, new)
    keys = _find_keys(growth, build, refinement, new_rows, gained, files)
    again = [file for day in days for file in files[day] if keys.counts[raw].get(file.path) and file not in gained[day]]
    judged = new_rows
    if again:
        before = of_keys(growth.reader.raw(refinement, again), key_of_landed(refinement), keys.changed)
        judged = new_rows.unionByName(before)
    timelines = growth.lake.timelines(build.step)
    build.use(timelines.values())
    staged_as = {day: StagedAs(input_fingerprint=now[day].input_fingerprint) for day in days}
    grow_bronze = partial(_grow, growth, bronze, accepted(judged, refinement), keys, timelines[bronze.name], staged_as)
    grow_quarantine = partial(
        _gain, growth, quarantine, rejected(new_rows, refinement), timelines[quarantine.name], staged_as
    )
    grown = side_by_side(growth.reader.spark, {bronze.name: grow_bronze, quarantine.name: grow_quarantine})
    if bronze.name in growth.keys:  # those of the days of another version
        for day in days:
            del growth.new_files[TableDay(bronze.name, day)]
    else:
        growth.keys[bronze.name] = keys
    _judge(growth, build, grown, timelines, days, pin, now, time.monotonic() - started, done)


def _find_keys(
    growth: Growth, build: ReplaceBuild, refinement: Refinement, new_rows: DataFrame, gained: Files, files: Files
) -> RefinedKeys:
    """One job: where raw had the new keys before, and where the refined table and those that follow have them now."""
    days, raw = sorted(gained), build.version.reads[0].table
    changed = changed_keys(new_rows, refinement)
    old = tuple(file for day in days for file in files[day] if file not in gained[day])
    columns = tuple(F.col(name) for name in refinement.key)
    places = [KeyedFiles(raw, old, key_of_landed(refinement), growth.reader.raw(refinement, old))]
    for table in (build.step.tables[0], *followers(growth.steps, build.step.name, refinement.key)):
        found = growth.files_of(table.name, days)
        places.append(KeyedFiles(table.name, found, columns, growth.reader.of(table, found)))
    return RefinedKeys(changed, count_rows_of_keys(places, changed), refinement.key)


def followers(steps: Sequence[Step], table: str, key: Sequence[str]) -> list[Table]:
    """The tables that follow ``table`` row by row, in one of their versions, directly or through others."""
    grown, found = {table}, list[Table]()
    for step in steps:
        follows = any(version.follows == "rows" and version.reads[0].table in grown for version in step.versions)
        if follows and set(step.tables[0].key) == set(key):
            grown.add(step.name)
            found.append(step.tables[0])
    return found


# ------------------------------------------------------------------ tables that follow row by row


def extend_followers(growth: Growth, build: ReplaceBuild, days: Sequence[date], pin: Pin, now: Wanted) -> Extended:
    """Extend ``days`` of a table whose rows each come from one row of its first input, of the same key."""
    first = build.version.reads[0].table
    keys = growth.keys.get(first)
    done = Extended()
    for day in days:
        reason = growth.why_not(build, day)
        if not reason and (keys is None or (first, day) not in growth.new_files):
            reason = f"{first} of that day was built whole, or by another version than the days before"
        if not reason and keys is not None and build.step.name not in keys.counts:
            reason = f"its key is not that of {first}"
        if not reason and not _built_from_published(growth, build, day):
            reason = "it was built from other inputs than those that were published"
        if reason:
            done.reasons[day] = reason
    rest = [day for day in days if day not in done.reasons]
    if rest and keys is not None:
        _extend_followers(growth, build, keys, rest, pin, now, done)
    return done


def _built_from_published(growth: Growth, build: ReplaceBuild, day: date) -> bool:
    """Whether the published day was built from the inputs that are published, before they are extended."""
    logicals = {read.table: growth.pin.inputs[read.table].days for read in build.version.reads}
    recorded = growth.content(build.step.name, day).inputs
    return wanted(build.step, build.version, [day], logicals)[day].inputs == recorded


def _extend_followers(
    growth: Growth, build: ReplaceBuild, keys: RefinedKeys, days: Sequence[date], pin: Pin, now: Wanted, done: Extended
) -> None:
    started = time.monotonic()
    [table] = build.step.tables
    timelines = growth.lake.timelines(build.step)
    build.use(timelines.values())
    rows = build.version.transform(_inputs(growth, build, keys, days, pin))[table.name]
    staged_as = {day: StagedAs(input_fingerprint=now[day].input_fingerprint) for day in days}
    grown = {table.name: _grow(growth, table, rows, keys, timelines[table.name], staged_as)}
    _require_keys_of(growth, build.version.reads[0].table, table, keys, days)
    growth.keys[table.name] = keys
    _judge(growth, build, grown, timelines, days, pin, now, time.monotonic() - started, done)


def _require_keys_of(growth: Growth, first: str, table: Table, keys: RefinedKeys, days: Sequence[date]) -> None:
    """Rows of other keys would stand beside those that the table has of them."""
    for day in days:
        read, made = (
            keys_in(growth.lake.storage, name, growth.new_files[TableDay(name, day)], keys.key)
            for name in (first, table.name)
        )
        if others := made - read:
            raise LakehouseUnusable(
                f"Extending {table.name} {day} gave {format_count(len(others), 'key')} that its rows of {first} do not "
                f"have: {min(map(str, others))}.",
                hint=f"Nothing was published. A transform with follows='rows' keeps each row's key: correct it, or "
                f"build the day whole: backfill run {table.name} --days {day} --force",
            )


def _inputs(
    growth: Growth, build: ReplaceBuild, keys: RefinedKeys, days: Sequence[date], pin: Pin
) -> dict[str, DataFrame]:
    """The changed rows of the first input, and the others as they are read for whole days."""
    first, *others = build.version.reads
    source = registry.table(first.table)
    files = [file for day in days for file in growth.new_files[TableDay(first.table, day)]]
    rows = growth.reader.of(source, files)
    inputs = {first.table: rows.select(*struct_type(source.contract).names)}
    for read in others:
        read_days = {each for day in days for each in read.days(build.step.cadence.period(day))}
        of_days = pin.inputs[read.table].model_copy(update={"days": dict.fromkeys(sorted(read_days), "")})
        schema = struct_type(registry.table(read.table).contract)
        inputs[read.table] = build.overlay.rows(growth.reader.spark, growth.lake.storage, of_days, schema)
    return inputs


# ------------------------------------------------------------------ one table


@dataclass(frozen=True)
class _GrownTable:
    """What a table holds on a day once it has grown."""

    files: tuple[AddedFile, ...]
    metrics: Metrics
    added: int
    removed: int
    rewritten: int


def _columns(keys: RefinedKeys) -> list[Column]:
    return [F.col(name) for name in keys.key]


def _grow(
    growth: Growth,
    table: Table,
    rows: DataFrame,
    keys: RefinedKeys,
    timeline: Timeline,
    staged_as: Mapping[date, StagedAs],
) -> dict[date, _GrownTable]:
    """Put ``rows``, those of the changed keys, in the place of the ones that ``table`` has of these keys.

    The rows that stay of a file are written apart from them, so that each file is measured as a whole, without Spark.
    """
    days, names = sorted(staged_as), struct_type(table.contract).names
    choices = {day: plan.choose_files(growth.files[table.name][day], keys.counts[table.name]) for day in days}
    came = stage(rows.select(*names), timeline, staged_as)
    went = [file for choice in choices.values() for file in choice.rewritten]
    stayed = list[AddedFile]()
    if went:
        staying = of_keys(growth.reader.of(table, went), _columns(keys), keys.changed, others=True)
        stayed = stage(staying.select(*names).repartition("day"), timeline, staged_as)
    measured = _Measured(
        came=measured_files(growth.reader.spark, table, timeline, came),
        stayed=measured_files(growth.reader.spark, table, timeline, stayed),
        went=measure_files(
            growth.lake.storage,
            table,
            table.name,
            went,
            lambda: growth.reader.of(table, went),
            sum(file.rows for file in went),
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
) -> _GrownTable:
    removed, added = (int(str(metrics.get("rows", 0))) for metrics in change)
    metrics = plan.extended_metrics(growth.content(table.name, day), *change, metric_names(table))
    if metrics["rows"] == 0:
        metrics = dict(measures.zero_metrics(table))
    return _GrownTable((*choice.kept, *written), metrics, added, removed, len(choice.rewritten))


def _gain(
    growth: Growth, table: Table, rows: DataFrame, timeline: Timeline, staged_as: Mapping[date, StagedAs]
) -> dict[date, _GrownTable]:
    """Add ``rows`` to ``table``, which never loses any."""
    staged = stage(rows.select(*struct_type(table.contract).names), timeline, staged_as)
    added = measured_files(growth.reader.spark, table, timeline, staged)
    grown = {}
    for day in staged_as:
        own = tuple(file.below(timeline.folder) for file in staged if file.day == str(day))
        choice = plan.choose_files(growth.files[table.name][day], {})
        grown[day] = _grown(growth, table, day, choice, own, ({}, added.get(day, {})))
    return grown


# ------------------------------------------------------------------ judge


def _judge(
    growth: Growth,
    build: ReplaceBuild,
    grown: Mapping[str, Mapping[date, _GrownTable]],
    timelines: Mapping[str, Timeline],
    days: Sequence[date],
    pin: Pin,
    now: Wanted,
    seconds: float,
    done: Extended,
) -> None:
    """Judge each day as a whole one. If one of its rules cannot be judged so, the day is to be built whole."""
    environment = environment_of(growth.reader.spark)
    schemas = {name: timeline.schema() for name, timeline in timelines.items()}
    for day in days:
        staged, reason = [], ""
        for table in build.step.tables:
            facts = _facts(build, table, grown, day, pin)
            reason = reason or _why_whole(table, facts)
            rules = gates.judge(table, facts)
            reason = reason or _broken_truth(table, rules)
            old = growth.content(table.name, day)
            metrics = {**grown[table.name][day].metrics, EXTENSIONS: plan.extensions_of(old) + 1}
            content = content_of(metrics, build.version.name, now[day].inputs, build.upstream(pin, day))
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


def _facts(
    build: ReplaceBuild, table: Table, grown: Mapping[str, Mapping[date, _GrownTable]], day: date, pin: Pin
) -> DayFacts:
    return DayFacts(
        own=grown[table.name][day].metrics,
        upstream={name: as_facts(content) for name, content in build.upstream(pin, day).items()},
        companions={name: found[day].metrics for name, found in grown.items() if name != table.name},
    )


def _why_whole(table: Table, facts: DayFacts) -> str:
    """Why a whole build has to measure more than was measured of the new rows; empty if it does not."""
    if plan.shows_wrong_rows(facts.own, metric_names(table), EXAMPLE):
        return "people are shown an example of what is wrong in its rows"
    closer = any(isinstance(rule, FewDuplicates) and rule.looks_closer(facts) for rule in table.rules)
    return "it has so many deduplicated rows that they are looked at closely" if closer else ""


def _broken_truth(table: Table, rules: Sequence[RuleOutcome]) -> str:
    truths = {rule.name for rule in gates.gates_of(table) if plan.is_truth(rule)}
    broken = [rule for rule in rules if rule.holds_back and rule.rule in truths]
    return f"extended, it breaks {broken[0].rule}: {broken[0].observed}" if broken else ""
