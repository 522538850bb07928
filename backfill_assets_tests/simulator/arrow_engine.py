"""Stages days without a JVM: Arrow in place of Spark's rows, below the real decisions of what is staged and from what.

``staged_by_arrow`` replaces the readers and the writer of rows. Pins, overlays, verdicts, timelines and publications
are the real ones.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T

from backfill_assets.days import Cadence
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.records import Environment, InputRead
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.lakehouse.written_files import write_folder, written_files
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Reads, Source, Step, Table, Version
from backfill_assets.rebuild import place as overlay
from backfill_assets.rebuild import stage as staging

STAGED = "staged"
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "name", "type": "string", "nullable": True, "metadata": {}},
            {"name": "day", "type": "date", "nullable": True, "metadata": {}},
        ],
    }
)


class NamedRow(Contract):
    """A row is a name and its day."""

    name: T.StringType = Field(description="What the row is.")
    day: T.DateType = Field(description="The day it belongs to.")


@dataclass(frozen=True)
class ArrowEngine:
    """What a build gets in place of a Spark session; ``reached`` is called when days are staged."""

    reached: Callable[[str], None] = field(default=lambda step: None)

    def createDataFrame(self, *_: object) -> None:  # noqa: N802
        """The published days of inputs that are read in part: transforms here need none."""


@dataclass(frozen=True)
class ArrowRows:
    """Rows by day, with as much of a DataFrame's ways as builds use."""

    engine: ArrowEngine
    days: Mapping[date, Sequence[str]]

    def unionByName(self, other: ArrowRows) -> ArrowRows:  # noqa: N802
        both = {day: [*self.days.get(day, ()), *other.days.get(day, ())] for day in {*self.days, *other.days}}
        return ArrowRows(self.engine, both)

    def select(self, *_: str) -> ArrowRows:
        return self


def fact_names(version: str, raw: Iterable[str]) -> tuple[str, ...]:
    """What a version of the fact makes of raw names ``<day>/<number>``: both agree on even numbers but for thirds."""
    numbers = {name: int(name.rpartition("/")[2]) for name in raw}
    kept = [name for name in numbers if version == "v1" or numbers[name] % 3]
    return tuple(sorted(f"{name}{'' if numbers[name] % 2 == 0 else version}" for name in kept))


def report_names(facts: Iterable[str]) -> tuple[str, ...]:
    """One row that says how many facts there are and which; none without any."""
    listed = sorted(facts)
    return (f"{len(listed)} {hashlib.sha256(' '.join(listed).encode()).hexdigest()[:12]}",) if listed else ()


def _fact(version: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    def transform(inputs: Mapping[str, ArrowRows]) -> Mapping[str, ArrowRows]:
        raw = inputs["raw"]
        return {"fact": ArrowRows(raw.engine, {day: fact_names(version, names) for day, names in raw.days.items()})}

    return transform


def _report(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    facts: ArrowRows = inputs["fact"]
    weeks: dict[date, list[str]] = {}
    for day, names in facts.days.items():
        weeks.setdefault(Cadence.WEEKLY.start(day), []).extend(names)
    return {"report": ArrowRows(facts.engine, {week: report_names(names) for week, names in weeks.items()})}


def named_table(name: str, layer: Any) -> Table:
    """A table of names by day."""
    return Table(name, layer, f"The {name}.", NamedRow, ("name",))


RAW = Step(
    (named_table("raw", "raw"),), source=Source("raw", "day", ("name",), "name", ("name", "day"), types={"day": "date"})
)
FACT = Step(
    (named_table("fact", "fact"),),
    tuple(Version(name, name, (Reads("raw"),), _fact(name)) for name in ("v1", "v2")),
    current="v2",
)
REPORT = Step(
    (named_table("report", "report"),),
    (Version("v1", "v1", (Reads("fact", partial=True),), _report),),
    current="v1",
    cadence=Cadence.WEEKLY,
)
STEPS = (RAW, FACT, REPORT)


def names_in(folder: str, files: Iterable[AddedFile]) -> dict[date, list[str]]:
    """The names in ``files`` below ``folder``, by day."""
    found: dict[date, list[str]] = {}
    for file in files:
        names = pq.ParquetFile(Path(folder) / file.path).read(["name"]).column("name").to_pylist()
        found.setdefault(date.fromisoformat(file.day), []).extend(names)
    return found


def staged_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds read and write rows by Arrow."""
    monkeypatch.setattr(overlay, "published_rows", _published_rows)
    monkeypatch.setattr(overlay, "rows_of_main_files", _rows_of_main_files)
    monkeypatch.setattr(staging, "struct_type", lambda _: SimpleNamespace(names=["name", "day"]))
    monkeypatch.setattr(staging, "environment_of", lambda *_: Environment(git_commit="c0ffee"))
    monkeypatch.setattr(staging, "stage", _stage)
    monkeypatch.setattr(staging, "measured_days", _measured_days)
    monkeypatch.setattr(staging, "for_another_thread", lambda _, work: work)


def _published_rows(engine: ArrowEngine, storage: Storage, read: InputRead, _: object) -> ArrowRows:
    if read.version is None:
        return ArrowRows(engine, {})
    by_day = read_log(storage, read.table, read.version).of_days(read.days)
    files = [file for found in by_day.values() for file in found]
    return ArrowRows(engine, names_in(storage.uri(read.table), files))


def _rows_of_main_files(
    engine: ArrowEngine, storage: Storage, table: str, files: Sequence[AddedFile], _: object
) -> ArrowRows:
    return ArrowRows(engine, names_in(storage.uri(table), files))


def _stage(rows: ArrowRows, timeline: Timeline, staged: Mapping[date, StagedAs], **_: object) -> list[AddedFile]:
    folder = write_folder()
    for day, names in rows.days.items():
        assert day in staged, f"{timeline.table} {day} was not asked for"
        if names:
            path = Path(timeline.uri) / folder / f"day={day}"
            path.mkdir(parents=True)
            pq.write_table(pa.table({"name": sorted(names)}), path / f"part-{uuid.uuid4().hex}.parquet")
    rows.engine.reached("written")
    files = written_files(timeline.storage, timeline.path, folder)
    timeline.add(files, SCHEMA, staged)
    rows.engine.reached(STAGED)
    return files


def _measured_days(_: object, table: Table, timeline: Timeline, days: Sequence[date]) -> dict[date, dict[str, int]]:
    names = names_in(timeline.uri, timeline.files(days))
    return {day: measured(names.get(day, ())) for day in days}


def measured(names: Iterable[str]) -> dict[str, int]:
    """The metrics of a day."""
    listed = list(names)
    total = sum(int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) for name in listed)
    return {"rows": len(listed), "checksum": total, "violating": 0, "keys": len(set(listed))}
