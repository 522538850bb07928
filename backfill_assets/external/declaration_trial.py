from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.errors import SourceUnreadable
from backfill_assets.external.files import DayMadeOf, days_made_of, possible_days
from backfill_assets.external.gate import broken_days
from backfill_assets.external.observe import require_columns, there_of
from backfill_assets.external.rows import external_rows
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.declaration_trial import MOST_LINES, CheckedFile
from backfill_assets.landing.version_trial import Find, Progress, RuleTried, VersionTrial, VersionTried, WrittenRows
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Step, Table
from backfill_assets.model.external_table import OBSERVED, ExternalTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _There:
    table: Table
    external: ExternalTable
    version: int
    days: Mapping[date, DayMadeOf]

    @classmethod
    def of(cls, step: Step, first_day: date) -> _There:
        external = step.external
        if external is None:
            raise LookupError(f"{step.name} is no table of others.")
        there, today = there_of(external), clock.today()
        version = there.newest()
        now = there.at(version)
        require_columns(external, now)
        possible = possible_days(first_day, there.committed_on(version) or today)
        days = {day: made for day, made in days_made_of(now.files, possible).items() if made.files}
        if not days:
            raise SourceUnreadable(
                f"{external.name} has no row from {first_day} on in {external.location}.",
                hint=f"Look at its column {external.day}, and at first_day of the dataset.",
            )
        return cls(step.tables[0], external, version, days)


def check_tables_of_others(
    spark: SparkSession, dataset: Dataset, find: Find, published: Storage, progress: Progress
) -> CheckedFile:
    """By every version of every step; keeps nothing. Raises :class:`SourceUnreadable` without rows."""
    found = [_There.of(step, dataset.first_day) for step in dataset.steps if step.external]
    day, steps = max(found[0].days), [step for step in dataset.steps if not step.is_origin]
    with TemporaryDirectory(prefix="backfill-check-") as folder:
        key = Path(folder) / "token.key"
        key.write_text(clock.token(32))
        written = WrittenRows(spark, Storage(f"{folder}/lakehouse"))
        trial = VersionTrial(written, find, [day], published, progress)
        tried = [_read(spark, trial, there, _days_read(steps, there, day), str(key)) for there in found]
        versions = [each for step in steps for each in trial.try_step(step)]
    first = found[0]
    named = f"{first.external.name} {day}, version {first.version} of {first.external.location}"
    return CheckedFile(named, True, tried[0].rows_out, None, (), (*tried, *versions))


def _days_read(steps: list[Step], there: _There, day: date) -> list[date]:
    reads = (read for step in steps for version in step.versions for read in version.reads)
    wanted = {day, *(each for read in reads if read.table == there.table.name for each in read.days(DayRange.of(day)))}
    return sorted(wanted.intersection(there.days)) or [max(there.days)]


def _read(spark: SparkSession, trial: VersionTrial, there: _There, days: list[date], key_file: str) -> VersionTried:
    table = there.table
    trial.progress(f"reading {table.name}, version {there.version}")
    contents = {day: there.days[day].content(there.version) for day in days}
    rows = external_rows(spark, there.external, {there.version: contents}, key_file)
    some, files = trial.written.write(rows.limit(MOST_LINES).repartition("day"), table, OBSERVED)
    trial.take(table, some, files)
    count = sum(int(str(each["rows"])) for each in trial.known[table.name].values())
    broken = sorted(broken_days(table, some).items(), reverse=True)
    rules = {outcome.rule: (day, outcome) for day, outcomes in broken for outcome in outcomes}
    return VersionTried(
        table.name,
        OBSERVED,
        is_current=True,
        reads=table.name,
        rows_in=count,
        rows_out=count,
        rules=tuple(RuleTried(table.name, day, len(broken), outcome) for day, outcome in rules.values()),
    )
