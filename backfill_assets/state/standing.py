"""The state of the lakehouse, with the size of every day and main's schemas: one look, from logs alone."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from backfill_assets.lakehouse.delta_log import LogState, VersionGone, read_log, schema_at
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.state.observed import LogView, observe


@dataclass(frozen=True)
class LakehouseView:
    """``bytes`` by table and day; ``schemas`` as Delta's JSON, of tables that exist."""

    observed: LogView
    bytes: Mapping[str, Mapping[date, int]] = field(default_factory=dict)
    schemas: Mapping[str, str] = field(default_factory=dict)


class _Logs:
    """Reads each version of a table once and keeps it."""

    def __init__(self) -> None:
        self.read: dict[tuple[str, int], LogState] = {}

    def __call__(self, storage: Storage, table: str, version: int) -> LogState:
        if (table, version) not in self.read:
            self.read[table, version] = read_log(storage, table, version)
        return self.read[table, version]


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection: years of days are many small objects that stay, and searching them costs 50 % more."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def observe_tables(storage: Storage, tables: Iterable[str]) -> LakehouseView:
    """Look at ``tables`` as of the last closed entry of the log; writes nothing."""
    wanted, logs = list(tables), _Logs()
    observed = observe(storage, wanted, logs)
    pinned = {table: observed.versions.get(table) for table in wanted}
    return LakehouseView(
        observed=observed,
        bytes={
            table: _bytes_by_day(logs(storage, table, version))
            for table, version in pinned.items()
            if version is not None
        },
        schemas={table: schema_at(storage, table, version) for table, version in pinned.items() if version is not None},
    )


def files_may_go(
    storage: Storage, versions: Mapping[str, int], window_days: int, now: datetime
) -> Mapping[str, datetime]:
    """From when on files of these versions may be reclaimed, of tables whose main has moved on from some of them.

    A file is kept for the rollback window after main let go of it. A version whose log is gone may go at once.
    """
    moments = {}
    for table, version in versions.items():
        main = MainTable.open(storage, table)
        if main is not None and main.version != version:
            moment = _goes(storage, main, version, now - timedelta(days=window_days))
            if moment is not None:
                moments[table] = moment + timedelta(days=window_days)
    return moments


def free_bytes(storage: Storage) -> int | None:
    """Room on the disk of the lakehouse; None on an object store, or before there is a lakehouse."""
    if "://" in storage.root or not storage.exists(""):
        return None
    return shutil.disk_usage(storage.root).free


def _goes(storage: Storage, main: MainTable, version: int, long_ago: datetime) -> datetime | None:
    try:
        held = read_log(storage, main.name, version).active
    except VersionGone:
        return long_ago
    removed = [file.removed_ms for path, file in main.removed_files().items() if path in held]
    return datetime.fromtimestamp(min(removed) / 1000, UTC).replace(microsecond=0) if removed else None


def _bytes_by_day(state: LogState) -> dict[date, int]:
    return {day: sum(state.active[path].size for path in paths) for day, paths in state.by_day().items()}
