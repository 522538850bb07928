"""Tries a declaration on the first landed file, and keeps nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import SourceUnreadable
from backfill_assets.judge.engine import files_by_day
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.rows import rows_of_main_files
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.landing_files import LandingFile, landing_job
from backfill_assets.landing.quarantine import Group, grouped
from backfill_assets.landing.records import records_of
from backfill_assets.landing.version_trial import (
    Find,
    Progress,
    RuleTried,
    VersionTrial,
    VersionTried,
    WrittenRows,
)
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Source, Step
from backfill_assets.model.landed import raw_schema
from backfill_assets.model.landed_format import record_word
from backfill_assets.model.logic import logic_of
from backfill_assets.model.rules import FewRejected
from backfill_assets.publish.log import PublicationLog, anything_published
from backfill_assets.state.edited_logic import contents_of, edited_logic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_LINES = 10_000
_FOR_FEW_ROWS = {
    # Generating and compiling code takes longer than interpreting a few thousand rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}


@dataclass(frozen=True)
class CheckedFile:
    file: str
    whole: bool
    rows: int
    quarantined: int | None
    reasons: tuple[Group, ...]
    versions: tuple[VersionTried, ...]

    @property
    def good(self) -> bool:
        return not self.quarantined and all(each.is_good for each in self.versions)

    @property
    def broken(self) -> list[RuleTried]:
        """Leaves out ``few_rejected``: the reasons say more."""
        rules = (rule for each in self.versions if each.is_current for rule in each.rules)
        return [rule for rule in rules if rule.outcome.holds_back and rule.outcome.rule != FewRejected.name_format]


@dataclass(frozen=True)
class LogicSeen:
    problems: tuple[str, ...]
    unread: tuple[str, ...]


def look_at_logic(storage: Storage, dataset: Dataset) -> LogicSeen:
    steps = [step for step in dataset.steps if not step.is_origin]
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
    published: Storage,
    progress: Progress = lambda _: None,
) -> CheckedFile:
    """Judge the first file with rows by every version of every step. Raises :class:`SourceUnreadable` without one."""
    day, file = first_file(landing, source)
    with TemporaryDirectory(prefix="backfill-check-") as folder:
        progress(f"reading {file}")
        path = landing.locate(file)
        key = Path(folder) / "token.key"
        key.write_text(clock.token(32))
        written, table = WrittenRows(spark, Storage(f"{folder}/lakehouse")), _raw_step(dataset, source).tables[0]
        landed = LandingFile(str(path), file, day, path.stat().st_size, MOST_LINES)
        timeline = written.timeline(table)
        files = landing_job(source, str(key), (table, timeline))([landed])
        written.files[table.name] = files_by_day(timeline.path, files)
        raw = rows_of_main_files(spark, written.storage, timeline.path, files, raw_schema(source))
        judged = _tried(written, dataset, source, raw, find, published, progress)
        return replace(judged, file=file, whole=not _is_longer(source, path))


def prepare_for_few_rows(spark: SparkSession) -> None:
    """The session must have no other use."""
    for name, value in _FOR_FEW_ROWS.items():
        spark.conf.set(name, value)


def first_file(landing: LandingZone, source: Source) -> tuple[date, str]:
    """Raises :class:`SourceUnreadable` without a line."""
    for day, path in ((day, path) for day, paths in landing.paths(source).items() for path in paths):
        landing.verify_readable(source, path)
        if any(map(len, records_of(source, landing.locate(path)))):
            return day, path
    raise SourceUnreadable(
        f"No {record_word(landing.example(source))} has landed for {source.name} in {landing.root}.",
        hint=f"Land {landing.example(source)}, then check again.",
    )


def _is_longer(source: Source, path: Path) -> bool:
    left = MOST_LINES
    for batch in records_of(source, path):
        left -= len(batch)
        if left < 0:
            return True
    return False


def _tried(
    written: WrittenRows,
    dataset: Dataset,
    source: Source,
    raw: DataFrame,
    find: Find,
    published: Storage,
    progress: Progress,
) -> CheckedFile:
    raw_table, bronze = _raw_step(dataset, source).tables[0], _bronze_step(dataset, source)
    progress(f"judging {raw_table.name}")
    received = measure_files(written.storage, raw_table, written.files[raw_table.name], lambda: raw)
    trial = VersionTrial(written, find, sorted(received), published, progress)
    trial.frames[raw_table.name], trial.known[raw_table.name] = raw, received
    steps = [step for step in dataset.steps if step.source is None]
    versions = [tried for step in steps for tried in trial.try_step(step)]
    quarantine = next(table for table in bronze.tables if table.layer == "quarantine")
    rejected = trial.frames[quarantine.name].select("day", "source_file", "source_line", "reasons").collect()
    letters = sorted((row.asDict() for row in rejected), key=itemgetter("source_file", "source_line"))
    return CheckedFile(
        file="",
        whole=True,
        rows=sum(int(str(metrics["received"])) for metrics in received.values()),
        quarantined=len(letters),
        reasons=tuple(grouped(quarantine.name, letters)),
        versions=tuple(versions),
    )


def _raw_step(dataset: Dataset, source: Source) -> Step:
    return next(step for step in dataset.steps if step.source is source)


def _bronze_step(dataset: Dataset, source: Source) -> Step:
    raw = _raw_step(dataset, source).name
    for step in dataset.steps:
        rejects = any(table.layer == "quarantine" for table in step.tables)
        if rejects and any(read.table == raw for read in step.version().reads):
            return step
    raise SourceUnreadable(
        f"No table of {dataset.name} quarantines rows of {raw}.", hint="Declare it as a LandedDataset."
    )
