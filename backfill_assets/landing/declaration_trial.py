"""Tries a dataset's declaration on the first file that landed for it: nothing is staged, published or kept."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from backfill_assets.days import TableDay
from backfill_assets.errors import SourceUnreadable
from backfill_assets.judge.engine import DayFiles, files_by_day, of_days
from backfill_assets.judge.measure import measure_files
from backfill_assets.judge.second_look import with_second_look
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.rows import rows_of_main_files, write
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.landing_files import LandingFile, landing_job
from backfill_assets.landing.quarantine import Group, grouped
from backfill_assets.landing.records import records_of
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.checks import struct_type
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import (
    PUBLISHED_DAYS,
    DayFacts,
    Metrics,
    RuleOutcome,
    Source,
    Step,
    Table,
    Version,
)
from backfill_assets.model.landed import raw_schema
from backfill_assets.model.logic import logic_of
from backfill_assets.model.rules import FewDuplicates, FewRejected
from backfill_assets.publish.log import PublicationLog, anything_published
from backfill_assets.quality import gates, measures
from backfill_assets.spark.computed import computed
from backfill_assets.state.edited_logic import contents_of, edited_logic
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_LINES = 10_000
"""Of a longer file, its first lines are read: a wrong declaration shows in them."""
_FOR_FEW_ROWS = {
    # Generating and compiling code takes longer than interpreting a few thousand rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}
Find = Callable[[str], Table]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class BrokenGate:
    """A gate that would hold back a day of the file."""

    table: str
    day: date
    outcome: RuleOutcome


@dataclass(frozen=True)
class CheckedFile:
    """What would become of the rows of one landed file."""

    file: str
    whole: bool
    """False if only its first lines were read."""
    rows: int
    quarantined: int
    reasons: tuple[Group, ...]
    broken: tuple[BrokenGate, ...]

    @property
    def good(self) -> bool:
        return not self.quarantined and not self.broken


@dataclass(frozen=True)
class LogicSeen:
    """What is wrong with the logic of versions as it is written, and what of it cannot be read."""

    problems: tuple[str, ...]
    unread: tuple[str, ...]


def look_at_logic(storage: Storage, dataset: Dataset) -> LogicSeen:
    """Clocks and randomness in any version, and versions that were edited in place; reads sources and the log."""
    steps = [step for step in dataset.steps if step.source is None]
    asks: dict[str, None] = {}
    unread: dict[str, None] = {}
    contents: Mapping[TableDay, DayContent] = {}
    for of, version in ((step.name, version) for step in steps for version in step.versions):
        logic = logic_of(version)
        why = "a day that is built again would have other rows"
        asks |= {f"{each}: {of}, version {version.name}; {why}": None for each in logic.asks}
        unread |= dict.fromkeys(logic.unread)
    if anything_published(storage):
        log = PublicationLog(storage)
        contents = contents_of(log.day_states(log.head(), [name for step in steps for name in step.table_names]))
    edited = (f"{each} -> {each.next_step}" for each in edited_logic(storage, steps, contents))
    return LogicSeen((*asks, *edited), tuple(unread))


def check_file(
    spark: SparkSession,
    landing: LandingZone,
    dataset: Dataset,
    source: Source,
    find: Find,
    progress: Progress = lambda _: None,
) -> CheckedFile:
    """Judge the rows of the first file of ``source`` that has any, as its bronze step judges them.

    ``find`` gives a table by its name; ``progress`` hears which is judged. Raises :class:`SourceUnreadable` when
    nothing has landed.
    """
    day, file = first_file(landing, source)
    with TemporaryDirectory(prefix="backfill-check-") as folder:
        progress(f"reading {file}")
        path = landing.locate(file)
        key = Path(folder) / "token.key"
        key.write_text(secrets.token_hex(32))
        written, table = _Written(Storage(f"{folder}/lakehouse")), _raw_step(dataset, source).tables[0]
        landed = LandingFile(str(path), file, day, path.stat().st_size, MOST_LINES)
        raw = written.landed(spark, table, source, landed, str(key))
        judged = _judge_rows(written, spark, dataset, source, raw, find, progress)
        return replace(judged, file=file, whole=not _is_longer(source, path))


def prepare_for_few_rows(spark: SparkSession) -> None:
    """Set up a session that is used for nothing else."""
    for name, value in _FOR_FEW_ROWS.items():
        spark.conf.set(name, value)


def first_file(landing: LandingZone, source: Source) -> tuple[date, str]:
    """The first landed file of ``source`` that has a line, with its arrival day; raises :class:`SourceUnreadable`
    without one."""
    for day, path in ((day, path) for day, paths in landing.paths(source).items() for path in paths):
        landing.verify_readable(source, path)
        if any(map(len, records_of(source, landing.locate(path)))):
            return day, path
    raise SourceUnreadable(
        f"No line has landed for {source.name} in {landing.root}.",
        hint=f"Land {landing.example(source)}, then check again.",
    )


def schema_problems(spark: SparkSession, step: Step, version: Version, find: Find) -> list[str]:
    """Where the output of ``version`` differs from the contracts of its tables; runs no Spark job."""
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
    """What ``version`` reads, without rows."""
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


def _is_longer(source: Source, path: Path) -> bool:
    left = MOST_LINES
    for batch in records_of(source, path):
        left -= len(batch)
        if left < 0:
            return True
    return False


@dataclass(frozen=True)
class _Written:
    """Rows that are written to be judged, as those of a build are, and that nobody keeps."""

    storage: Storage
    files: dict[str, DayFiles] = field(default_factory=dict)

    def landed(
        self, spark: SparkSession, table: Table, source: Source, file: LandingFile, token_key_file: str
    ) -> DataFrame:
        """The raw rows of ``file``, written by this process."""
        timeline = self._timeline(table)
        files = landing_job(source, token_key_file, (table, timeline))([file])
        self.files[table.name] = files_by_day(timeline.path, files)
        return rows_of_main_files(spark, self.storage, timeline.path, files, raw_schema(source))

    def measured(self, rows: DataFrame, table: Table) -> dict[date, Metrics]:
        if table.name not in self.files:
            timeline = self._timeline(table)
            self.files[table.name] = files_by_day(timeline.path, write(rows, timeline, table))
        return measure_files(self.storage, table, self.files[table.name], lambda: rows)

    def _timeline(self, table: Table) -> Timeline:
        return Timeline(self.storage, table.name, "check")

    def of(self, table: str, days: Sequence[date]) -> DayFiles:
        return of_days(self.files.get(table, {}), days)


def _judge_rows(
    written: _Written,
    spark: SparkSession,
    dataset: Dataset,
    source: Source,
    raw: DataFrame,
    find: Find,
    progress: Progress,
) -> CheckedFile:
    step = _bronze_step(dataset, source)
    version = step.version()
    raw_table = _raw_step(dataset, source).tables[0]
    outputs = computed(version, {**empty_inputs(spark, version, find), raw_table.name: raw})
    quarantine = next(table for table in step.tables if table.layer == "quarantine")
    progress(f"looking for rows of {quarantine.name}")
    rejected = outputs[quarantine.name].select("day", "source_file", "source_line", "reasons").collect()
    letters = sorted((row.asDict() for row in rejected), key=itemgetter("source_file", "source_line"))
    progress(f"judging {raw_table.name}")
    received = written.measured(raw, raw_table)
    known = {
        raw_table.name: received,
        quarantine.name: written.measured(outputs[quarantine.name], quarantine) if letters else {},
    }
    broken: list[BrokenGate] = []
    for table in (each for each in step.tables if each is not quarantine):
        progress(f"judging {table.name}, {format_count(len(received), 'day')}")
        own = written.measured(outputs[table.name], table)
        facts = {day: _facts(table, day, own, known) for day in sorted(received)}
        broken += _broken_gates(_with_rules_judged_here(table, known), facts, written)
    return CheckedFile(
        file="",
        whole=True,
        rows=sum(int(str(metrics["received"])) for metrics in received.values()),
        quarantined=len(letters),
        reasons=tuple(grouped(quarantine.name, letters)),
        broken=tuple(broken),
    )


def _raw_step(dataset: Dataset, source: Source) -> Step:
    return next(step for step in dataset.steps if step.source is source)


def _bronze_step(dataset: Dataset, source: Source) -> Step:
    """The step that rejects rows of ``source``."""
    raw = _raw_step(dataset, source).name
    for step in dataset.steps:
        rejects = any(table.layer == "quarantine" for table in step.tables)
        if rejects and any(read.table == raw for read in step.version().reads):
            return step
    raise SourceUnreadable(
        f"No table of {dataset.name} quarantines rows of {raw}.", hint="Declare it as a LandedDataset."
    )


def _with_rules_judged_here(table: Table, known: Mapping[str, object]) -> Table:
    """``table`` with the rules on its raw and quarantine, but for the share of rejects: the reasons report those."""
    rules = (rule for rule in table.rules if set(rule.tables) <= known.keys() and not isinstance(rule, FewRejected))
    return replace(table, rules=tuple(rules))


def _facts(
    table: Table, day: date, own: Mapping[date, Metrics], known: Mapping[str, Mapping[date, Metrics]]
) -> DayFacts:
    upstream = {name: metrics.get(day) or _nothing(name, table) for name, metrics in known.items()}
    return DayFacts(own=own.get(day, measures.zero_metrics(table)), upstream=upstream)


def _broken_gates(table: Table, facts: Mapping[date, DayFacts], written: _Written) -> Iterator[BrokenGate]:
    def files(rule: FewDuplicates | FewRejected, days: Sequence[date]) -> tuple[DayFiles, DayFiles]:
        return written.of(rule.raw, days), written.of(rule.quarantine, days)

    for day, known in with_second_look(written.storage, table, facts, files).items():
        outcomes = gates.judge(table, known)
        yield from (BrokenGate(table.name, day, outcome) for outcome in outcomes if outcome.holds_back)


def _nothing(name: str, table: Table) -> Metrics:
    needed = {metric: 0 for rule in table.rules for metric in rule.needs.get(name, ())}
    return {"rows": 0, **needed}
