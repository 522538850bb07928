"""A chain of four tables that the package's own builds compute, from raw rows to a weekly report; without Spark.

A raw row is ``key.version=amount``. Bronze has the newest version of each key; the fact takes its amount ten times, by
``v2`` an odd one eleven times, so that both agree on even ones; the report says how many there are and their sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.judge.engine import DayFiles
from backfill_assets.judge.measure import FilesUnreadable
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.records import Environment, InputRead
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.lakehouse.written_files import write_folder
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Layer, Metrics, Reads, Source, Step, Table, Version
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild import place, stage
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.upkeep import maintenance, read_days, watch
from backfill_assets_tests.simulator.staging import Names, named_file, schema

DAYS = tuple(DayRange.parse("2017-03-25..2017-03-28"))
"""Two days of one week, and two of the next."""
Rows = Mapping[str, Mapping[date, Sequence[str]]]


# ------------------------------------------------------------------ what each table makes of its inputs


def _newest(inputs: Mapping[str, Mapping[date, Sequence[str]]]) -> Names:
    newest: dict[str, tuple[int, str]] = {}
    for name in (name for names in inputs["landed"].values() for name in names):
        key, _, rest = name.partition(".")
        version, _, amount = rest.partition("=")
        newest[key] = max(newest.get(key, (0, "")), (int(version), amount))
    return tuple(sorted(f"{key}={amount}" for key, (_, amount) in newest.items()))


def _times(odd: int) -> Callable[[Rows], Names]:
    def computed(inputs: Rows) -> Names:
        amounts = [name.split("=") for names in inputs["clean"].values() for name in names]
        return tuple(sorted(f"{key}={int(amount) * (odd if int(amount) % 2 else 10)}" for key, amount in amounts))

    return computed


def _summed(inputs: Rows) -> Names:
    amounts = [int(name.partition("=")[2]) for names in inputs["sums"].values() for name in names]
    return (f"{len(amounts)}={sum(amounts)}",) if amounts else ()


MADE: Mapping[tuple[str, str], Callable[[Rows], Names]] = {
    ("clean", "v1"): _newest,
    ("sums", "v1"): _times(10),
    ("sums", "v2"): _times(11),
    ("weekly", "v1"): _summed,
}
"""By table and version."""


# ------------------------------------------------------------------ the declaration, and the engine of its transforms


class NamedRow(Contract):
    """A row is a name and its day."""

    name: T.StringType = Field(description="What the row is.")
    day: T.DateType = Field(description="The day it belongs to.")


def named_table(name: str, layer: Layer) -> Table:
    """A table of names by day."""
    return Table(name, layer, f"The {name}.", NamedRow, ("name",))


@dataclass(frozen=True)
class Engine:
    """What a build gets in place of a Spark session."""

    def createDataFrame(self, *_: object) -> None:  # noqa: N802
        """The published days of inputs that are read in part: transforms here need none."""


@dataclass(frozen=True)
class NamedRows:
    """Rows by day, with as much of a DataFrame's ways as builds use."""

    days: Mapping[date, Sequence[str]]

    def unionByName(self, other: NamedRows) -> NamedRows:  # noqa: N802
        both = {*self.days, *other.days}
        return NamedRows({day: [*self.days.get(day, ()), *other.days.get(day, ())] for day in both})

    def select(self, *_: str) -> NamedRows:
        return self


def _version(table: str, cadence: Cadence, name: str, reads: Reads) -> Version:
    def transform(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        read: NamedRows = inputs[reads.table]
        periods = map(cadence.period, cadence.starts(read.days))
        made = {
            each.first: MADE[table, name]({reads.table: {day: read.days.get(day, ()) for day in reads.days(each)}})
            for each in periods
        }
        return {table: NamedRows(made)}

    return Version(name, name, (reads,), transform)


def _step(name: str, layer: Layer, reads: Reads, versions: Sequence[str], cadence: Cadence = Cadence.DAILY) -> Step:
    made = tuple(_version(name, cadence, version, reads) for version in versions)
    return Step((named_table(name, layer),), made, current=made[-1].name, cadence=cadence)


LANDED = Step((named_table("landed", "raw"),), source=Source("landed", "day", ("name",), "name", ("name", "day")))
CLEAN = _step("clean", "bronze", Reads("landed"), ["v1"])
SUMS = _step("sums", "fact", Reads("clean"), ["v1", "v2"])
WEEKLY = _step("weekly", "report", Reads("sums", partial=True), ["v1"], Cadence.WEEKLY)
STEPS = (LANDED, CLEAN, SUMS, WEEKLY)
COMPUTED = (CLEAN, SUMS, WEEKLY)
RUN = RunInfo("a-run", launched_by="ana")
STEP_OF = {step.name: step for step in STEPS}


@dataclass(frozen=True, eq=False)
class Chain:
    """Tables that are made of each other: what is declared of them, and what a version makes, by table and version."""

    days: Sequence[date]
    """Those of what is computed of sales."""
    steps: Sequence[Step]
    made: Mapping[tuple[str, str], Callable[[Rows], Names]]
    days_of: Mapping[str, Sequence[date]] = field(default_factory=dict)
    """The days of steps that have others."""

    @cached_property
    def catalog(self) -> Catalog:
        """Of one dataset, which no files land for."""
        dataset: Any = SimpleNamespace(name="sales", steps=tuple(self.steps))
        found = Catalog((dataset,))
        vars(found)["steps"] = dataset.steps
        return found

    @cached_property
    def step_of(self) -> Mapping[str, Step]:
        return {step.name: step for step in self.steps}

    @property
    def computed(self) -> list[Step]:
        return [step for step in self.steps if step.source is None]

    def starts(self, step: Step, days: Iterable[date] = ()) -> list[date]:
        """The first days of the periods of ``step`` that ``days`` of sales are in; by default of all."""
        return list(self.days_of.get(step.name) or step.cadence.starts(sorted(days or self.days)))

    def reads(self, step: Step, version: str, day: date) -> list[TableDay]:
        """What a day of a version is made of."""
        reads = next(each for each in step.versions if each.name == version).reads
        return [TableDay(read.table, each) for read in reads for each in read.days(step.cadence.period(day))]

    def names_of(self, step: Step, version: str, day: date, shown: Callable[[TableDay], Iterable[str]]) -> Names:
        """The rows that a version makes of just the days that it reads, of what is ``shown``."""
        inputs: dict[str, dict[date, Names]] = {}
        for key in self.reads(step, version, day):
            inputs.setdefault(key.table, {})[key.day] = tuple(shown(key))
        return self.made[step.name, version](inputs)

    def lake_of(self, publisher: Publisher) -> Lake:
        """What builds, campaigns, undos and timelines work with."""
        landing = LandingZone(Path("/nothing/lands/here"))
        engine: Any = Engine()
        return Lake(self.catalog, publisher.storage, publisher, landing, lambda: engine, "")


CHAIN = Chain(DAYS, STEPS, MADE)
lake_of = CHAIN.lake_of


def computed_in_memory(patch: pytest.MonkeyPatch) -> None:
    """Builds read and write rows of the chain through their storage; what is decided of them is decided as ever."""
    patch.setattr(place, "published_rows", _published_rows)
    patch.setattr(place, "rows_of_main_files", _rows_of_main_files)
    patch.setattr(stage, "struct_type", lambda _: SimpleNamespace(names=["name", "day"]))
    patch.setattr(stage, "environment_of", lambda *_: Environment(git_commit="c0ffee"))
    patch.setattr(stage, "stage", _stage)
    patch.setattr(stage, "measured_days", _measured_days)
    patch.setattr(stage, "for_another_thread", lambda _, work: work)
    patch.setattr(maintenance, "git_commit", lambda: "c0ffee")
    for module in (watch, read_days):
        patch.setattr(module, "measure_files", _measure_files)


def _names_in(storage: Storage, folder: str, files: Iterable[AddedFile]) -> dict[date, list[str]]:
    found: dict[date, list[str]] = {}
    for file in sorted(files):
        rows = storage.read_parquet(f"{folder}/{file.path}".lstrip("/"), ["name"])
        found.setdefault(date.fromisoformat(file.day), []).extend(rows.column("name").to_pylist())
    return found


def _published_rows(_: Engine, storage: Storage, read: InputRead, __: object) -> NamedRows:
    if read.version is None:
        return NamedRows({})
    by_day = read_log(storage, read.table, read.version).of_days(read.days)
    return NamedRows(_names_in(storage, read.table, (file for found in by_day.values() for file in found)))


def _rows_of_main_files(_: Engine, storage: Storage, table: str, files: Sequence[AddedFile], __: object) -> NamedRows:
    return NamedRows(_names_in(storage, table, files))


def _stage(rows: NamedRows, timeline: Timeline, staged: Mapping[date, StagedAs], **_: object) -> list[AddedFile]:
    folder = write_folder()
    for day in rows.days:
        assert day in staged, f"{timeline.table} {day} was not asked for"
    files = [
        named_file(timeline, f"{folder}/day={day}/part-0.parquet", day, pa.table({"name": sorted(names)}))
        for day, names in sorted(rows.days.items())
        if names
    ]
    timeline.add(files, schema(), staged)
    return files


def _measured_days(_: object, table: Table, timeline: Timeline, days: Sequence[date]) -> dict[date, dict[str, int]]:
    names = _names_in(timeline.storage, timeline.path, timeline.files(days))
    return {day: measured_of(table, names.get(day, ())) for day in days}


def measured_of(table: Table, names: Iterable[str]) -> dict[str, int]:
    """The metrics of a day, with the totals of its table."""
    listed = list(names)
    total = sum(int(name.rpartition("=")[2]) for name in listed) if table.totals else 0
    return measured(listed) | {f"total_{column}": total for column in table.totals}


def _measure_files(storage: Storage, _: Table, files: DayFiles, *__: object, **___: object) -> dict[date, Metrics]:
    """By what the package reads published days afresh."""
    try:
        return {day: dict(measured(_names_in(storage, "", some).get(day, ()))) for day, some in files.items() if some}
    except FileNotFoundError as error:
        raise FilesUnreadable(str(error)) from error


def measured(names: Iterable[str]) -> dict[str, int]:
    """The metrics of a day."""
    listed = list(names)
    total = sum(int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) for name in listed)
    return {"rows": len(listed), "checksum": total, "violating": 0, "keys": len(set(listed))}
