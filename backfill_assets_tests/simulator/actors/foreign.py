"""A writer who knows nothing of publications: adds rows to a day, deletes one, or puts its files together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date

import pyarrow as pa
from deltalake import CommitProperties
from deltalake._internal import RemoveAction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from backfill_assets.lakehouse.delta_log import newest_version, open_table, read_log
from backfill_assets_tests.simulator.judges.tables import FOREIGN
from backfill_assets_tests.simulator.staging import DAYS
from backfill_assets_tests.simulator.world import RAW, TABLES, Life

_CHANGES = ("add", "add", "delete")
_HOW = (*_CHANGES, "optimise")


def write_past_the_protocol(life: Life) -> None:
    _write_some(life, _HOW)


def change_past_the_protocol(life: Life) -> None:
    """Where another engine puts files together: delta-rs 1.6 commits one OPTIMIZE over another, and doubles rows."""
    _write_some(life, _CHANGES)


def _write_some(life: Life, hows: Sequence[str]) -> None:
    table, day, how = life.draw.choice(TABLES), life.draw.choice(DAYS), life.draw.choice(hows)
    if how != "delete" or table not in RAW:
        write_to(life, table, day, how)


def write_to(life: Life, table: str, day: date, how: str, row: str = "") -> None:
    """Of one day, ``how`` is to add a ``row``, to delete its rows, or to optimise its files."""
    version = newest_version(life.storage, table)
    if version is None:
        return
    handle, name = open_table(life.storage, table, version), life.new_id("foreign")
    active = read_log(life.storage, table, version).of_days([day])[day]
    rows = [row or f"{name}/{table}"] if how == "add" else []
    if how == "optimise":
        paths = [f"{table}/{file.path}" for file in active]
        rows = [row for path in paths for row in life.storage.read_parquet(path).column("name").to_pylist()]
    if (how != "add" and not active) or (how == "optimise" and len(active) < 2):
        return
    gone = (
        []
        if how == "add"
        else [RemoveAction(f.path, how == "delete", life.world.clock.stamp(), f.size, {}) for f in active]
    )
    new = [_written(life, table, day, name, rows, changes=how != "optimise")] if rows else []
    life.world.record.asks(life.id, "publish", pinned=False, writes={(table, str(day)): name})
    try:
        properties = CommitProperties(custom_metadata={FOREIGN: name}, max_commit_retries=0)
        handle.create_write_transaction([*new, *gone], "append", handle.schema(), ["day"], commit_properties=properties)
    except CommitFailedError:
        life.world.record.told(life.id, "refused")
        return
    life.world.wrote(life, table, version, day)
    life.world.tally[f"foreign {how}"] += 1


def _written(life: Life, table: str, day: date, name: str, rows: list[str], *, changes: bool) -> AddAction:
    path = f"day={day}/{name}.parquet"
    size = life.storage.write_parquet(f"{table}/{path}", pa.table({"name": rows}))
    return AddAction(
        path, size, {"day": str(day)}, life.world.clock.stamp(), changes, json.dumps({"numRecords": len(rows)})
    )
