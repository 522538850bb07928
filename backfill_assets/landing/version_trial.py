"""Tries every version of a dataset on a few rows, written and judged as in a build, then dropped. Other datasets are
read as published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from backfill_assets.days import DayRange
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.judge.engine import DayFiles, engine, files_by_day, of_days, rows_of_files
from backfill_assets.judge.measure import measure_files
from backfill_assets.judge.second_look import with_second_look
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.rows import rows_as_of, rows_of_main_files, write
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.model.checks import struct_type
from backfill_assets.model.contract import BINARY, NUMBERS, declared_types
from backfill_assets.model.declaration import (
    PUBLISHED_DAYS,
    AsOf,
    DayFacts,
    Metrics,
    Reads,
    RuleOutcome,
    Step,
    Table,
    Version,
)
from backfill_assets.model.measure import exact_sum
from backfill_assets.model.refinement import Refinement
from backfill_assets.model.rules import FewDuplicates, FewRejected, TotalAgrees, VolumeWithin
from backfill_assets.quality import gates, measures
from backfill_assets.spark.computed import computed
from backfill_assets.text import format_count, format_range

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from pyspark.sql import DataFrame, SparkSession

Find = Callable[[str], Table]
Progress = Callable[[str], None]
_SUPERSEDED = "superseded_by_day"


# ------------------------------------------------------------------ what is found


@dataclass(frozen=True)
class RuleTried:
    table: str
    day: date
    broken: int
    outcome: RuleOutcome


@dataclass(frozen=True)
class TotalTried:
    """``of_input``: None unless a sum or count of one column."""

    name: str
    own: Decimal
    of_input: Decimal | None
    is_compared: bool

    @property
    def is_less(self) -> bool:
        return self.of_input is not None and abs(self.own) < abs(self.of_input)

    def __str__(self) -> str:
        return f"{self.name} {self.own:,}" + (f" of {self.of_input:,}" if self.of_input is not None else "")


@dataclass(frozen=True)
class VersionTried:
    table: str
    version: str
    is_current: bool
    reads: str = ""
    rows_in: int = 0
    rows_out: int = 0
    aggregates: bool = False
    """The key differs from the first input's."""
    is_compared: bool = False
    totals: tuple[TotalTried, ...] = ()
    rules: tuple[RuleTried, ...] = ()
    not_tried: str = ""
    failed: bool = False

    @property
    def holds_back(self) -> bool:
        return any(rule.broken and rule.outcome.severity == "error" for rule in self.rules)

    @property
    def loses(self) -> str:
        if self.aggregates or self.is_compared or self.rows_out >= self.rows_in:
            return ""
        return f"{self} loses rows: {self._numbers}, and no rule compares them."

    @property
    def may_lose(self) -> str:
        if less := [total for total in self.totals if total.is_less and not total.is_compared]:
            words = ", ".join(map(str, less))
            return f"{self} may lose rows: {self._numbers}, and no rule compares {words}."
        unseen = self.aggregates and not self.is_compared and all(total.of_input is None for total in self.totals)
        if unseen and self.rows_in:
            return f"{self}: {self._numbers}. Nothing that it adds up is comparable: lost rows would not be seen."
        return ""

    @property
    def is_good(self) -> bool:
        return not (self.is_current and (self.failed or self.holds_back or self.loses))

    @property
    def _numbers(self) -> str:
        totals = f" ({', '.join(map(str, self.totals))})" if self.totals else ""
        return f"{self.rows_out:,} rows of {self.rows_in:,} of {self.reads}{totals}"

    def __str__(self) -> str:
        return f"{self.table}, version {self.version}"


# ------------------------------------------------------------------ without a row


def schema_problems(spark: SparkSession, step: Step, version: Version, find: Find) -> list[str]:
    where = f"{step.name}, version {version.name}"
    try:
        outputs = computed(version, empty_inputs(spark, version, find))
        given = {
            name: [(f.name, f.dataType.simpleString()) for f in rows.schema.fields] for name, rows in outputs.items()
        }
    except KeyError as error:
        return [f"{where}: it uses {error}, which is not among its Reads."]
    except PySparkException as error:
        return [f"{where}: {str(error).splitlines()[0]}"]
    return [problem for table in step.tables for problem in _differences(where, table, given.get(table.name))]


def empty_inputs(spark: SparkSession, version: Version, find: Find) -> dict[str, DataFrame]:
    inputs = {read.table: spark.createDataFrame([], struct_type(find(read.table).contract)) for read in version.reads}
    if any(read.partial for read in version.reads):
        inputs[PUBLISHED_DAYS] = spark.createDataFrame([], "table string, day date")
    return inputs


def _differences(where: str, table: Table, given: Sequence[tuple[str, str]] | None) -> Iterator[str]:
    if given is None:
        yield f"{where}: it gives no table {table.name}."
        return
    declared = [(field.name, field.dataType.simpleString()) for field in struct_type(table.contract).fields]
    types = dict(given)
    for name, kind in declared:
        if name not in types:
            yield f"{where}: {table.name} has no column {name}, which its contract {table.contract.__name__} declares."
        elif types[name] != kind:
            yield f"{where}: {table.name}.{name} is a {types[name]}, its contract declares a {kind}."
    for name in types.keys() - dict(declared).keys():
        yield f"{where}: {table.name}.{name} is not in its contract {table.contract.__name__}."
    if types == dict(declared) and list(given) != declared:
        yield f"{where}: {table.name} has its columns in another order: {', '.join(name for name, _ in declared)}."


# ------------------------------------------------------------------ rows that nobody keeps


@dataclass(frozen=True)
class WrittenRows:
    spark: SparkSession
    storage: Storage
    files: dict[str, DayFiles] = field(default_factory=dict)

    def timeline(self, table: Table, version: str = "") -> Timeline:
        return Timeline(self.storage, table.name, f"check{version}")

    def write(self, rows: DataFrame, table: Table, version: str) -> tuple[DataFrame, DayFiles]:
        timeline = self.timeline(table, f"-{version}")
        files = write(rows, timeline, table)
        written = rows_of_main_files(self.spark, self.storage, timeline.path, files, struct_type(table.contract))
        return written, files_by_day(timeline.path, files)

    def of(self, table: str, days: Sequence[date]) -> DayFiles:
        return of_days(self.files.get(table, {}), days)


# ------------------------------------------------------------------ trying


@dataclass
class VersionTrial:
    written: WrittenRows
    find: Find
    days: Sequence[date]
    published: Storage
    progress: Progress
    frames: dict[str, DataFrame] = field(default_factory=dict)
    known: dict[str, Mapping[date, Metrics]] = field(default_factory=dict)
    of_others: dict[Reads, DataFrame | None] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        return self.written.spark

    def take(self, table: Table, rows: DataFrame, files: DayFiles) -> None:
        self.frames[table.name], self.written.files[table.name] = rows, files
        self.known[table.name] = self._measured(table, rows, files)

    def try_step(self, step: Step) -> Iterator[VersionTried]:
        for version in sorted(step.versions, key=lambda each: each.name == step.current):
            self.progress(f"judging {step.name}, version {version.name}, {format_count(len(self.days), 'day')}")
            yield self._try_version(step, version)

    def _try_version(self, step: Step, version: Version) -> VersionTried:
        tried = VersionTried(step.name, version.name, version.name == step.current)
        if not version.reads:
            return replace(tried, not_tried="it reads no table")
        tried = replace(tried, reads=version.reads[0].table)
        try:
            absent = [read for read in version.reads if self._frame(read) is None]
        except LakehouseUnusable as error:
            return replace(tried, not_tried=error.message.rstrip("."))
        if absent:
            days = format_range(absent[0].days(DayRange(self.days[0], self.days[-1])))
            why = f"it reads {absent[0].table}, of which nothing is tried, and nothing published for {days}"
            return replace(tried, not_tried=why)
        if problems := [] if tried.is_current else schema_problems(self.spark, step, version, self.find):
            return replace(tried, not_tried=problems[0], failed=True)
        try:
            return self._judged(step, version, tried)
        except PySparkException as error:
            if isinstance(version.transform, Refinement):
                raise
            return replace(tried, not_tried=str(error).splitlines()[0], failed=True)

    def _judged(self, step: Step, version: Version, tried: VersionTried) -> VersionTried:
        outputs = computed(version, self._inputs(version))
        frames, files, own = {}, {}, {}
        for table in step.tables:
            frames[table.name], files[table.name] = self.written.write(outputs[table.name], table, version.name)
            own[table.name] = self._measured(table, frames[table.name], files[table.name])
        rules = [rule for table in step.tables for rule in self._rules(step, table, own, files)]
        first = step.tables[0]
        origin = self.find(tried.reads)
        found = replace(
            tried,
            aggregates=not {*origin.key} <= {*first.key} or not origin.key,
            rows_in=self._rows_in(origin),
            rows_out=sum(int(str(metrics["rows"])) for metrics in own[first.name].values()),
            is_compared=any(origin.name in rule.tables and not isinstance(rule, VolumeWithin) for rule in first.rules),
            totals=tuple(self._totals(first, origin, own[first.name])),
            rules=tuple(rules),
        )
        if tried.is_current:
            self.frames |= frames
            self.known |= own
            self.written.files.update(files)
        return found

    def _measured(self, table: Table, rows: DataFrame, files: DayFiles) -> Mapping[date, Metrics]:
        return measure_files(self.written.storage, table, files, lambda: rows)

    # ---------------------------------------------------------------- inputs

    def _frame(self, read: Reads) -> DataFrame | None:
        if read.table in self.frames:
            return self.frames[read.table]
        if read not in self.of_others:
            span = DayRange(self.days[0], self.days[-1])
            self.of_others[read] = (
                self._held(read) if isinstance(read, AsOf) else self._published(read.table, read.days(span))
            )
        return self.of_others[read]

    def _held(self, read: AsOf) -> DataFrame | None:
        main = MainTable.open(self.published, read.table)
        files = main.state().files_by_day() if main else {}
        filled = sorted(files)
        held = {day: each for day in self.days for each in read.counted(DayRange.of(day), filled)}
        rows = self._rows(read.table, [file for day in set(held.values()) for file in files[day]])
        return None if rows is None else rows_as_of(rows, held)

    def _published(self, name: str, days: DayRange) -> DataFrame | None:
        main = MainTable.open(self.published, name)
        by_day = main.state().of_days(days) if main else {}
        return self._rows(name, [file for of_day in by_day.values() for file in of_day])

    def _rows(self, name: str, files: Sequence[AddedFile]) -> DataFrame | None:
        if not files:
            return None
        return rows_of_main_files(self.spark, self.published, name, files, struct_type(self.find(name).contract))

    def _inputs(self, version: Version) -> dict[str, DataFrame]:
        inputs = {read.table: rows for read in version.reads if (rows := self._frame(read)) is not None}
        if any(read.partial for read in version.reads):
            listed = [(read.table, day) for read in version.reads for day in self.days]
            inputs[PUBLISHED_DAYS] = self.spark.createDataFrame(listed, "table string, day date")
        return inputs

    # ---------------------------------------------------------------- rules

    def _rules(
        self, step: Step, table: Table, own: Mapping[str, Mapping[date, Metrics]], files: Mapping[str, DayFiles]
    ) -> Iterator[RuleTried]:
        beside = {**self.known, **own}
        judged = replace(table, rules=tuple(rule for rule in table.rules if {*rule.tables} <= beside.keys()))
        facts = {
            period.first: DayFacts(
                own=own[table.name].get(period.first, measures.zero_metrics(table)),
                upstream={name: self._together(name, beside, period) for name in gates.looked_at(judged.rules)},
            )
            for period in dict.fromkeys(map(step.cadence.period, self.days))
        }

        def of_rule(rule: FewDuplicates | FewRejected, days: Sequence[date]) -> tuple[DayFiles, DayFiles]:
            return self.written.of(rule.raw, days), of_days(files.get(rule.quarantine, {}), days)

        looked = with_second_look(self.written.storage, judged, facts, of_rule)
        outcomes = {day: gates.judge(judged, found) for day, found in looked.items()}
        for number, first in enumerate(next(iter(outcomes.values()))):
            broken = [day for day, of_day in outcomes.items() if not of_day[number].passed]
            day = broken[0] if broken else next(iter(outcomes))
            yield RuleTried(table.name, day, len(broken), outcomes[day][number] if broken else first)

    def _together(self, name: str, known: Mapping[str, Mapping[date, Metrics]], period: DayRange) -> Metrics:
        days = [metrics for day, metrics in known[name].items() if day in period]
        return measures.add_up(days) if days else measures.zero_metrics(self.find(name))

    # ---------------------------------------------------------------- rows and totals in and out

    def _rows_in(self, origin: Table) -> int:
        days = self.known.get(origin.name, {}).values()
        return sum(int(str(metrics["rows"])) - int(metrics.get("superseded") or 0) for metrics in days)

    def _totals(self, table: Table, origin: Table, own: Mapping[date, Metrics]) -> Iterator[TotalTried]:
        files = self.written.files.get(origin.name, {})
        compared = {rule.column for rule in table.rules if isinstance(rule, TotalAgrees) and rule.fact == origin.name}
        with engine(threads=1) as connection:
            rows = rows_of_files(connection, self.written.storage, origin.contract, files)
            if _SUPERSEDED in rows.columns:
                rows = rows.filter(rows[_SUPERSEDED].isnull())
            for name in table.totals:
                asked = _of_input(table, origin, rows, name) if files else None
                of_input = None if asked is None else Decimal(str(connection.execute(asked) or 0))
                total = sum((Decimal(str(metrics[f"total_{name}"] or 0)) for metrics in own.values()), Decimal(0))
                yield TotalTried(name, total, of_input, name in compared)


def _of_input(table: Table, origin: Table, rows: ir.Table, name: str) -> ir.Scalar | None:
    made_of = table.made_of.get(name, (f"{origin.name}.{name}",))
    of, _, column = made_of[0].partition(".")
    types = declared_types(origin.contract)
    if len(made_of) != 1 or of != origin.name or column not in types or origin.layer == "raw":
        return None
    adds_up = types[column].startswith(NUMBERS) and (column == name or column not in origin.key)
    if not adds_up:
        return rows[column].count()
    digits = origin.contract.fields()[column].digits
    # Without digits the sum of doubles depends on their order.
    return None if types[column] in BINARY and digits is None else exact_sum(rows[column], digits=digits)
