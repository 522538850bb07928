"""Stages days without a JVM: Arrow in place of Spark's rows, below the real decisions of what is staged and from what.

``staged_by_arrow`` replaces the readers and the writer of rows. Pins, overlays, verdicts, timelines and publications
are the real ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.records import DayContent, Environment, InputRead, TableChange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.lakehouse.written_files import write_folder, written_files
from backfill_assets.model.declaration import Table
from backfill_assets.rebuild import place as overlay
from backfill_assets.rebuild import stage as staging
from backfill_assets_tests.simulator.chain import measured
from backfill_assets_tests.simulator.staging import schema

STAGED = "staged"


@dataclass(frozen=True)
class ArrowEngine:
    """What a build gets in place of a Spark session; ``reached`` is called when days are staged."""

    reached: Callable[[str], None] = field(default=lambda step: None)

    def createDataFrame(self, *_: object) -> None:  # noqa: N802
        """The published days of inputs that are read in part: transforms here need none."""


@dataclass(frozen=True)
class WatchedStorage(Storage):
    """Storage in which a process may also die around each file that is written once."""

    reached: Callable[[str], None] = field(default=lambda step: None, compare=False)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.reached("to be written once")
        written = super().put_if_absent(path, data)
        self.reached("written once")
        return written


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
    timeline.add(files, schema(), staged)
    rows.engine.reached(STAGED)
    return files


def _measured_days(_: object, table: Table, timeline: Timeline, days: Sequence[date]) -> dict[date, dict[str, int]]:
    names = names_in(timeline.uri, timeline.files(days))
    return {day: measured(names.get(day, ())) for day in days}


def measured_change(made: TableChange, rows: Mapping[date, Iterable[str]]) -> TableChange:
    """With the metrics that the days of a build have."""
    days = tuple(day.model_copy(update={"content": _content(rows[day.day])}) for day in made.days)
    return made.model_copy(update={"days": days})


def _content(names: Iterable[str]) -> DayContent:
    figures = measured(names)
    return DayContent(rows=figures.pop("rows"), checksum=str(figures.pop("checksum")), metrics=figures)
