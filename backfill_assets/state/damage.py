"""Files that are gone, and files that may go.

No log shows a deleted file: a command that misses one leaves a note, which counts while the day names the file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

from backfill_assets.days import TableDay, day_or_none
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.delta_log import AddedFile, VersionGone, read_log
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage


def gone_files(storage: Storage, table: str, files: Iterable[AddedFile]) -> list[str]:
    paths = [file.path for file in files]
    missing = set(storage.missing([f"{table}/{path}" for path in paths]))
    return [path for path in paths if f"{table}/{path}" in missing]


def note_damage(storage: Storage, table: str, day: date, gone: Iterable[str]) -> None:
    with suppress(OSError, BackfillError):
        _notes(storage).replace(f"{table}/{day}", sorted(gone))


def damaged_days(storage: Storage, versions: Mapping[str, int]) -> dict[TableDay, list[str]]:
    noted: dict[str, list[date]] = {}
    for name in _notes(storage).files(recursive=True):
        table, _, text = name.rpartition("/")
        day = day_or_none(text)
        # Files with other names are left by file managers.
        if table in versions and day is not None:
            noted.setdefault(table, []).append(day)
    found = {}
    for table, days in noted.items():
        for day, files in read_log(storage, table, versions[table]).of_days(days).items():
            if gone := gone_files(storage, table, files):
                found[TableDay(table, day)] = gone
    return dict(sorted(found.items()))


def _notes(storage: Storage) -> Documents[list[str]]:
    return Documents(storage, "_damage", list[str])


# ------------------------------------------------------------------ what may go, and the room that there is


def files_may_go(
    storage: Storage, versions: Mapping[str, int], window_days: int, now: datetime
) -> Mapping[str, datetime]:
    """Since when files of these versions may be reclaimed, by table.

    Files that main has dropped stay for the rollback window; a version whose log is gone may go at once. Tables
    whose main has them all are left out.
    """
    moments = {}
    for table, version in versions.items():
        main = MainTable.open(storage, table)
        if main is not None and main.version != version:
            moment = _goes(storage, main, version, now - timedelta(days=window_days))
            if moment is not None:
                moments[table] = moment + timedelta(days=window_days)
    return moments


def _goes(storage: Storage, main: MainTable, version: int, long_ago: datetime) -> datetime | None:
    try:
        held = read_log(storage, main.name, version).active
    except VersionGone:
        return long_ago
    removed = [file.removed_ms for path, file in main.removed_files().items() if path in held]
    return datetime.fromtimestamp(min(removed) / 1000, UTC).replace(microsecond=0) if removed else None


def free_bytes(storage: Storage) -> int | None:
    """Returns None on an object store, or before there is a lakehouse."""
    if "://" in storage.root or not storage.exists(""):
        return None
    return shutil.disk_usage(storage.root).free
