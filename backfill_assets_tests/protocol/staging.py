"""Small tables for the protocol tests: rows are names, staged with delta-rs alone."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline, TimelineEntry
from backfill_assets_tests.simulator.staging import DAYS, change, content

__all__ = ["DAYS", "RowsByDay", "change", "content", "published_rows", "rows_table", "scratch", "stage"]
RowsByDay = Mapping[date, Iterable[str]]
_IN_MEMORY, _ENOUGH = "/dev/shm", 2**30  # noqa: S108 - tests make folders of their own there


def scratch() -> str | None:
    """Where histories make their folders: in memory where there is room for it, else where temporary files are.

    Delta-rs keeps what is in its own memory within one handle, so that no other process or handle would see it.
    """
    return _IN_MEMORY if Path(_IN_MEMORY).is_dir() and shutil.disk_usage(_IN_MEMORY).free > _ENOUGH else None


def rows_table(rows: RowsByDay, extra: int = 0) -> pa.Table:
    """Rows as Arrow: a name, its day, and ``extra`` more nullable columns."""
    flat = [(name, day) for day, names in sorted(rows.items()) for name in names]
    columns = {
        "name": pa.array([name for name, _ in flat], pa.string()),
        "day": pa.array([day for _, day in flat], pa.date32()),
    }
    for number in range(extra):
        columns[f"extra_{number}"] = pa.array([f"e{number}"] * len(flat), pa.string())
    return pa.table(columns)


def stage(storage: Storage, table: str, timeline: str, rows: RowsByDay, extra: int = 0) -> Timeline:
    """Stage the days of ``rows`` into a new timeline, as Spark would; a day may have no rows."""
    target = Timeline(storage, table, timeline)
    entry = TimelineEntry(staged={day: StagedAs(input_fingerprint=f"of {day}") for day in rows})
    write_deltalake(
        target.uri,
        rows_table(rows, extra),
        mode="append",
        partition_by=["day"],
        storage_options=dict(storage.options),
        commit_properties=CommitProperties(custom_metadata={"userMetadata": entry.model_dump_json()}),
    )
    return target


def published_rows(storage: Storage, table: str, version: int | None = None) -> dict[date, Counter[str]]:
    """The rows of a table by day, as a reader who uses delta-rs sees them."""
    found: dict[date, Counter[str]] = {}
    handle = DeltaTable(storage.uri(table), version=version, storage_options=dict(storage.options))
    for row in handle.to_pyarrow_table(columns=["name", "day"]).to_pylist():
        found.setdefault(row["day"], Counter())[row["name"]] += 1
    return found
