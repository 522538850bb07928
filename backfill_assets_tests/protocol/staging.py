"""Small tables for the protocol tests: rows are names, staged with delta-rs alone."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayChange, DayContent, Expected, Mode, Position, TableChange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline, TimelineEntry
from backfill_assets.publish.pinned import Pin

DAYS = (date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3))
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


def content(names: Iterable[str], code_version: str = "v1") -> DayContent:
    """Count and checksum of rows, as a build would have measured them."""
    listed = list(names)
    total = sum(int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) for name in listed)
    return DayContent(rows=len(listed), checksum=str(total), code_version=code_version)


def change(
    timeline: Timeline,
    rows: RowsByDay,
    pin: Pin | None = None,
    mode: Mode = "replace",
    positions: tuple[Position, ...] = (),
) -> TableChange:
    """The staged days of ``rows`` as a change to their table, against what ``pin`` found (or against nothing)."""
    staged = timeline.days()
    expected = pin.expected if pin else {}
    days = tuple(
        DayChange(
            day=day,
            adds=staged[day].files,
            content=content(rows[day]),
            expected=expected.get(TableDay(timeline.table, day), Expected()),
        )
        for day in sorted(rows)
    )
    return TableChange(table=timeline.table, mode=mode, table_schema=timeline.schema(), days=days, positions=positions)


def published_rows(storage: Storage, table: str, version: int | None = None) -> dict[date, Counter[str]]:
    """The rows of a table by day, as a reader who uses delta-rs sees them."""
    found: dict[date, Counter[str]] = {}
    handle = DeltaTable(storage.uri(table), version=version, storage_options=dict(storage.options))
    for row in handle.to_pyarrow_table(columns=["name", "day"]).to_pylist():
        found.setdefault(row["day"], Counter())[row["name"]] += 1
    return found
