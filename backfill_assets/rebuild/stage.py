"""Stages days of a step: reads pinned inputs, transforms, writes, measures, judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from backfill_assets import clock
from backfill_assets.days import DayRange, TableDay
from backfill_assets.external.gate import broken_days
from backfill_assets.external.rows import DaysToRead, days_to_read, external_rows, require_as_looked_at
from backfill_assets.judge.by_pandera import with_reports
from backfill_assets.judge.engine import DayFiles, files_by_day, of_days
from backfill_assets.judge.measure import fingerprint, measure_files, prepare
from backfill_assets.judge.second_look import with_second_look
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import TOTAL, DayContent, Environment, content_in
from backfill_assets.lakehouse.rows import rows_as_of, rows_of_files, stage, take_in
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import GateVerdict, StagedAs, Timeline
from backfill_assets.landing.deletions import days_with_deletions, rows_that_stand
from backfill_assets.landing.release import with_releases
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import (
    FROM,
    PUBLISHED_DAYS,
    AsOf,
    DayFacts,
    Metrics,
    RuleOutcome,
    Step,
    Table,
    Version,
)
from backfill_assets.model.deletion import OF_DELETIONS
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.model.graph import Filled, made_of
from backfill_assets.model.logic import logic_of
from backfill_assets.model.refinement import Refinement
from backfill_assets.model.rules import FewDuplicates, FewRejected
from backfill_assets.publish.publisher import Pin
from backfill_assets.quality import gates, measures
from backfill_assets.rebuild import decide, refining
from backfill_assets.rebuild.decide import InputFingerprint
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.only_rows import OnlyRows
from backfill_assets.rebuild.place import NOTHING_LAID, Overlay
from backfill_assets.rebuild.refining import refine
from backfill_assets.spark.worker_queries import written_schema
from backfill_assets.spark.workers import errors_of_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Contents = Mapping[str, DayContent]
Facts = Mapping[str, Mapping[date, DayFacts]]
MeasuredTables = Mapping[str, Future[dict[date, Metrics]]]
JUDGING_THREADS = 3
"""Both tables of a refinement are measured while earlier days are judged."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class StagedTableDay:
    table: str
    day: date
    files: tuple[AddedFile, ...]
    content: DayContent
    rules: tuple[RuleOutcome, ...]
    pin: Pin
    table_schema: str
    seconds: float = 0.0
    environment: Environment | None = None

    @property
    def passed(self) -> bool:
        return not any(rule.holds_back for rule in self.rules)


def filled_in(step: Step, pin: Pin) -> Filled:
    return decide.filled_days([step], {table: read.days for table, read in pin.inputs.items()})


@dataclass(frozen=True)
class Chunk:
    catalog: Catalog
    step: Step
    version: Version
    days: Sequence[date]
    wanted: Mapping[date, InputFingerprint]
    pin: Pin
    judged: bool = True
    """False: only measure, as what gates compare with is not the present state."""
    overlay: Overlay = NOTHING_LAID
    only: OnlyRows | None = None
    token_key_file: str = ""
    """Tokenizes external tables' personal columns."""

    @cached_property
    def filled(self) -> Filled:
        return filled_in(self.step, self.pin)

    @property
    def read_days(self) -> dict[str, list[date]]:
        return decide.read_days(self.step, self.version, self.days, self.filled)

    def days_held(self, read: AsOf) -> dict[date, date]:
        """For each day of the chunk, the day of ``read`` whose rows count."""
        periods = ((day, read.counted(DayRange.of(day), self.filled[read.table])) for day in self.days)
        return {day: held for day, counted in periods for held in counted}

    def upstream(self, day: date) -> dict[str, DayContent]:
        """Other tables that rules judge by, as of when the inputs were built from them."""
        if not self.judged:
            return {}
        period = self.step.cadence.period(day)
        made = made_of(self.step, self.version, day, self.filled)
        as_of = {read.table: made.get(read.table, period) for read in self.version.reads if isinstance(read, AsOf)}
        direct = {
            read.table: _content_of_period(self.pin, read.table, as_of.get(read.table, period))
            for read in self.version.reads
        }

        def beside(table: str) -> DayContent:
            recorded = (recorded_upstream(content, table) for content in direct.values())
            return (
                direct.get(table) or next(filter(None, recorded), None) or _content_of_period(self.pin, table, period)
            )

        return {table: beside(table) for table in gates.looked_at_beside(self.step)}

    def content_of(self, day: date, metrics: Metrics) -> DayContent:
        content = content_of(metrics, self.version.name, self.wanted[day].inputs, self.upstream(day))
        return replace(content, logic=logic_of(self.version).fingerprint)


def prepare_chunk(chunk: Chunk) -> None:
    """Generate queries ahead, which takes about a second."""
    prepare(chunk.step.tables)
    if isinstance(transform := chunk.version.transform, Refinement):
        refining.prepare(transform, chunk.catalog.table(transform.raw), chunk.step.tables)


def stage_chunk(
    spark: SparkSession, storage: Storage, chunk: Chunk, timelines: Mapping[str, Timeline]
) -> list[StagedTableDay]:
    with ThreadPoolExecutor(JUDGING_THREADS) as judging:
        return write_chunk(spark, storage, chunk, timelines, judging).result()


def write_chunk(
    spark: SparkSession, storage: Storage, chunk: Chunk, timelines: Mapping[str, Timeline], judging: ThreadPoolExecutor
) -> Future[list[StagedTableDay]]:
    """Write the rows of ``chunk``; the future gives its days, judged and with recorded verdicts.

    Threads of ``judging`` (:data:`JUDGING_THREADS`) measure and judge while the caller has Spark write the next chunk.
    """
    started = clock.seconds()
    staged = {day: StagedAs(input_fingerprint=chunk.wanted[day].input_fingerprint) for day in chunk.days}
    writing = _Writing(spark, chunk, timelines, staged, judging)
    # An error of this is not lost: measuring raises it again.
    judging.submit(prepare, chunk.step.tables)
    inputs: Mapping[str, DataFrame] = {}
    if isinstance(chunk.version.transform, Refinement):
        measured = writing.refined(storage, chunk.version.transform)
    else:
        inputs = _inputs(spark, storage, chunk)
        with errors_of_workers():
            computed = chunk.version.transform(inputs)
            if chunk.only:
                computed = chunk.only.with_other_rows(spark, storage, chunk.step.tables, computed)
            measured = writing.each(computed)

    def judged() -> list[StagedTableDay]:
        facts = facts_of(
            storage,
            chunk,
            {name: metrics.result() for name, metrics in measured.items()},
            lambda name: staged_files(timelines[name], chunk.days),
        )
        seconds = (clock.seconds() - started) / len(chunk.days)
        environment = environment_of(spark, chunk.catalog.folder)
        broken = _made_of_broken_rows(chunk, inputs)
        _require_others_equal(storage, chunk, timelines)
        _require_inputs_as_looked_at(storage, chunk)
        return [
            day
            for table in chunk.step.tables
            for day in _judge_days(chunk, table, facts[table.name], timelines[table.name], seconds, environment, broken)
        ]

    return judging.submit(for_another_thread(spark, judged))


@dataclass(frozen=True)
class _Writing:
    spark: SparkSession
    chunk: Chunk
    timelines: Mapping[str, Timeline]
    staged: Mapping[date, StagedAs]
    judging: ThreadPoolExecutor

    def each(self, computed: Mapping[str, DataFrame]) -> MeasuredTables:
        def written(table: Table) -> Future[dict[date, Metrics]]:
            stage(computed[table.name], self.timelines[table.name], self.staged, table=table)
            return self.measured(table)

        return side_by_side(self.spark, {table.name: partial(written, table) for table in self.chunk.step.tables})

    def refined(self, storage: Storage, refinement: Refinement) -> MeasuredTables:
        """Both tables in one job that reads raw once."""
        tables, raw = self.chunk.step.tables, self.chunk.catalog.table(refinement.raw)
        into = [(table, self.timelines[table.name]) for table in tables]
        files = input_files(storage, self.chunk, raw.name)
        corrected = days_with_deletions(self.chunk.pin.states, raw, files)
        written = refine(self.spark, refinement, raw, files, corrected, into)
        measured = {}
        for (table, timeline), of_table in zip(into, written, strict=True):
            take_in(of_table, written_schema(table.contract), timeline, self.staged)
            measured[table.name] = self.measured(table)
        return measured

    def measured(self, table: Table) -> Future[dict[date, Metrics]]:
        measure = partial(measured_days, self.spark, table, self.timelines[table.name], self.chunk.days)
        return self.judging.submit(for_another_thread(self.spark, measure))


def side_by_side(spark: SparkSession, work: Mapping[str, Callable[[], Result]]) -> dict[str, Result]:
    """Raises the first error when all threads have ended."""
    if len(work) == 1:
        return {name: piece() for name, piece in work.items()}
    with ThreadPoolExecutor(len(work)) as pool:
        futures = {name: pool.submit(for_another_thread(spark, piece)) for name, piece in work.items()}
    return {name: future.result() for name, future in futures.items()}


def for_another_thread(spark: SparkSession, piece: Callable[[], Result]) -> Callable[[], Result]:
    """``piece`` with a copy of this thread's Spark properties, anew for each thread: Spark takes two threads with one
    set for one query.
    """
    from pyspark.util import inheritable_thread_target

    wrapped: Callable[[], Result] = inheritable_thread_target(spark)(piece)
    return wrapped


def measured_days(spark: SparkSession, table: Table, timeline: Timeline, days: Sequence[date]) -> dict[date, Metrics]:
    metrics_of = measured_files(spark, table, timeline, timeline.files(days))
    return {day: metrics_of[day] if day in metrics_of else measures.zero_metrics(table) for day in days}


def measured_files(
    spark: SparkSession, table: Table, timeline: Timeline, files: Sequence[AddedFile]
) -> dict[date, Metrics]:
    if not files:
        return {}
    by_day = files_by_day(timeline.path, files)
    return measure_files(timeline.storage, table, by_day, lambda: rows_of_files(spark, timeline, files))


def _inputs(spark: SparkSession, storage: Storage, chunk: Chunk) -> dict[str, DataFrame]:
    reads = chunk.read_days
    published = _published_days(spark, chunk, reads)
    return published | {name: input_rows(spark, storage, chunk, name, days) for name, days in reads.items()}


def input_rows(spark: SparkSession, storage: Storage, chunk: Chunk, name: str, days: Sequence[date]) -> DataFrame:
    """Rows of an input, without raw rows that the source has deleted; those read as of a day are repeated for each day
    that reads them.
    """
    rows = _rows_of_days(spark, storage, chunk, name, days)
    for read in chunk.version.reads:
        if read.table == name and isinstance(read, AsOf):
            return rows_as_of(rows, chunk.days_held(read))
    return rows


def _rows_of_days(spark: SparkSession, storage: Storage, chunk: Chunk, name: str, days: Sequence[date]) -> DataFrame:
    table, external = chunk.catalog.table(name), chunk.catalog.step(name).external
    if external:
        return external_rows(spark, external, _days_to_read(storage, chunk, external, days), chunk.token_key_file)
    schema = struct_type(table.contract)

    def rows(of: Sequence[date]) -> DataFrame:
        read = chunk.pin.inputs[name].model_copy(update={"days": dict.fromkeys(of, "")})
        return chunk.overlay.rows(spark, storage, read, schema)

    return rows_that_stand(chunk.pin.states, table, days, rows)


def _days_to_read(storage: Storage, chunk: Chunk, external: ExternalTable, days: Sequence[date]) -> DaysToRead:
    read = chunk.pin.inputs[external.name].model_copy(update={"days": dict.fromkeys(days, "")})
    known = {day: content_in(chunk.pin.states, TableDay(external.name, day)) for day in days}
    contents = {day: content for day, content in known.items() if content}
    return days_to_read(storage, external, read, contents, chunk.overlay.laid(external.name, days))


def _require_others_equal(storage: Storage, chunk: Chunk, timelines: Mapping[str, Timeline]) -> None:
    for table in chunk.step.tables:
        if chunk.only:
            chunk.only.require_others_equal(storage, table, staged_files(timelines[table.name], chunk.days))


def _require_inputs_as_looked_at(storage: Storage, chunk: Chunk) -> None:
    """Run after reading: no pinned version shows that a file of an external table was replaced meanwhile."""
    for name, days in chunk.read_days.items():
        if external := chunk.catalog.step(name).external:
            require_as_looked_at(external, _days_to_read(storage, chunk, external, days))


def _made_of_broken_rows(chunk: Chunk, inputs: Mapping[str, DataFrame]) -> dict[date, list[RuleOutcome]]:
    others = {name: rows for name, rows in inputs.items() if name in chunk.pin.inputs}
    found = {
        name: broken_days(chunk.catalog.table(name), rows)
        for name, rows in others.items()
        if chunk.judged and chunk.catalog.step(name).external
    }
    if not any(found.values()):
        return {}
    read = {day: decide.read_days(chunk.step, chunk.version, [day], chunk.filled) for day in chunk.days}
    return {
        # Rows that are read as of a day carry that day.
        day: [each for name, broken in found.items() for at in {*tables[name], day} for each in broken.get(at, ())]
        for day, tables in read.items()
    }


def input_files(storage: Storage, chunk: Chunk, name: str) -> Mapping[date, Sequence[AddedFile]]:
    days = chunk.read_days[name]
    read = chunk.pin.inputs[name].model_copy(update={"days": dict.fromkeys(days, "")})
    return chunk.overlay.files(storage, read)


def _published_days(spark: SparkSession, chunk: Chunk, reads: Mapping[str, list[date]]) -> dict[str, DataFrame]:
    """Tells transforms which days of a partly read period are published."""
    partial = [read.table for read in chunk.version.reads if read.partial]
    if not partial:
        return {}
    never = fingerprints.NEVER_PUBLISHED
    rows = [
        (table, day)
        for table in partial
        for day in reads[table]
        if chunk.pin.inputs[table].days.get(day, never) != never
    ]
    return {PUBLISHED_DAYS: spark.createDataFrame(rows, "table string, day date")}


def _judge_days(
    chunk: Chunk,
    table: Table,
    facts: Mapping[date, DayFacts],
    timeline: Timeline,
    seconds: float,
    environment: Environment,
    broken: Mapping[date, Sequence[RuleOutcome]],
) -> list[StagedTableDay]:
    schema = timeline.schema()
    verdicts = judge(timeline.storage, table, facts if chunk.judged else {}, lambda: staged_files(timeline, chunk.days))
    days = []
    for day in chunk.days:
        metrics = {**facts[day].own, **_period_metrics(chunk, day)}
        rules = (*verdicts.get(day, ()), *broken.get(day, ()))
        measured_content = chunk.content_of(day, metrics)
        content = with_cost(with_verdict(measured_content, rules), seconds)
        days.append(StagedTableDay(table.name, day, (), content, rules, chunk.pin, schema, seconds))
    made_of = {day: chunk.wanted[day].input_fingerprint for day in chunk.days}
    return record_verdicts(timeline, days, made_of, environment, measured=fingerprint(table))


def staged_files(timeline: Timeline, days: Sequence[date]) -> DayFiles:
    return files_by_day(timeline.path, timeline.files(days))


def judge(
    storage: Storage, table: Table, facts: Mapping[date, DayFacts], files: Callable[[], DayFiles]
) -> dict[date, tuple[RuleOutcome, ...]]:
    judged = {day: gates.judge(table, each) for day, each in facts.items()}
    return with_reports(storage, table, with_releases(storage, table.name, judged), files)


def facts_of(
    storage: Storage,
    chunk: Chunk,
    measured: Mapping[str, Mapping[date, Metrics]],
    rejects: Callable[[str], DayFiles],
) -> Facts:
    """What rules judge; close looks also read raw rows and ``rejects``."""

    def files(rule: FewDuplicates | FewRejected, days: Sequence[date]) -> tuple[DayFiles, DayFiles]:
        raw = chunk.overlay.files(storage, chunk.pin.inputs[rule.raw])
        return of_days(raw, days), of_days(rejects(rule.quarantine), days)

    facts = plain_facts(chunk, measured)
    if not chunk.judged:
        return facts
    return {table.name: with_second_look(storage, table, facts[table.name], files) for table in chunk.step.tables}


def plain_facts(chunk: Chunk, measured: Mapping[str, Mapping[date, Metrics]]) -> dict[str, dict[date, DayFacts]]:
    def of_day(table: str, day: date) -> DayFacts:
        return DayFacts(
            own=measured[table][day],
            upstream={name: as_facts(content) for name, content in chunk.upstream(day).items()},
            companions={name: metrics[day] for name, metrics in measured.items() if name != table},
        )

    return {table: {day: of_day(table, day) for day in chunk.days} for table in measured}


def _period_metrics(chunk: Chunk, day: date) -> dict[str, int]:
    logicals = {name: read.days for name, read in chunk.pin.inputs.items()}
    period = decide.period_days(chunk.step, chunk.version, day, logicals)
    return {} if period is None else {"period_days": len(period.period), "published_days": len(period.published)}


def record_verdicts(
    timeline: Timeline,
    days: Sequence[StagedTableDay],
    input_fingerprints: Mapping[date, str],
    environment: Environment | None = None,
    measured: str = "",
) -> list[StagedTableDay]:
    """Like :func:`note_verdicts`; returns ``days`` with files and environment."""
    note_verdicts(timeline, days, input_fingerprints, environment, measured)
    held = timeline.days()
    return [replace(day, files=held[day.day].files, environment=environment) for day in days]


def note_verdicts(
    timeline: Timeline,
    days: Sequence[StagedTableDay],
    input_fingerprints: Mapping[date, str],
    environment: Environment | None,
    measured: str = "",
) -> None:
    """Record verdicts, environment and the fingerprint of what was ``measured``.

    Days are listed again too: in Spark a write without rows makes no commit, and lists no day.
    """
    verdicts = {
        day.day: GateVerdict(
            input_fingerprint=input_fingerprints[day.day],
            passed=day.passed,
            content=day.content,
            rules=day.rules,
            replaces=_replaced_publication(day),
            measured=measured,
        )
        for day in days
    }
    staged = {day: StagedAs(input_fingerprint=verdict.input_fingerprint) for day, verdict in verdicts.items()}
    timeline.judge(verdicts, staged, environment)


def _replaced_publication(day: StagedTableDay) -> str:
    expected = day.pin.expected.get(TableDay(day.table, day.day))
    return expected.publication if expected else ""


def content_of(metrics: Metrics, code_version: str, inputs: str, upstream: Contents) -> DayContent:
    """Includes the accounting of the inputs, by which later tables are judged."""
    own = {name: as_stored(value) for name, value in metrics.items() if name not in ("rows", "checksum")}
    return DayContent(
        rows=int(str(metrics["rows"])),
        checksum=str(metrics["checksum"]),
        code_version=code_version,
        inputs=inputs,
        metrics={**own, **_accounting(upstream)},
    )


def with_verdict(content: DayContent, rules: Sequence[RuleOutcome]) -> DayContent:
    """Rule counts are recorded: a reused day need not be judged."""
    return replace(content, metrics={**content.metrics, **gates.to_metrics(rules)})


def with_cost(content: DayContent, seconds: float) -> DayContent:
    """Record the staging time, from which plans estimate."""
    return replace(content, staged_ms=round(seconds * 1000))


_ACCOUNTED = (
    "received",
    "content_hash_sum",
    "deduplicated",
    "deduplicated_hash_sum",
    "superseded",
    "superseded_hash_sum",
    *OF_DELETIONS,
)


def _accounting(upstream: Contents) -> dict[str, int | str | None]:
    return {
        f"{FROM}{table}.{name}": value
        for table, content in upstream.items()
        for name, value in {"rows": content.rows, **content.metrics}.items()
        if name == "rows" or name in _ACCOUNTED
    }


def recorded_upstream(content: DayContent, table: str) -> DayContent | None:
    """The accounting of ``table`` when ``content`` was built from it; None if it was not."""
    prefix = f"{FROM}{table}."
    metrics = {name.removeprefix(prefix): value for name, value in content.metrics.items() if name.startswith(prefix)}
    if not metrics:
        return None
    return DayContent(rows=int(str(metrics["rows"])), checksum="", metrics=metrics)


def _content_of_period(pin: Pin, table: str, period: DayRange) -> DayContent:
    """Sums over days; unpublished days count as empty."""
    contents = [content for day in period if (content := content_in(pin.states, TableDay(table, day)))]
    if len(contents) == 1:
        return contents[0]
    return DayContent(
        rows=sum(content.rows for content in contents),
        checksum=str(sum(int(content.checksum) for content in contents)),
        metrics=_metrics_together(contents),
    )


def _metrics_together(contents: Sequence[DayContent]) -> dict[str, int | str | None]:
    """Days without rows count as zero, even for a total declared later."""
    totals = {name for content in contents for name in content.metrics if name.startswith(TOTAL)}
    nothing = dict.fromkeys(totals, 0)
    return measures.add_up(
        [content.metrics if content.rows else {**nothing, **content.metrics} for content in contents]
    )


def as_facts(content: DayContent) -> Metrics:
    return {**content.metrics, "rows": content.rows, "checksum": content.checksum}


def as_stored(value: object) -> int | str | None:
    return value if value is None or isinstance(value, int) else str(value)
