"""Which table and day lost a file, by an engine's error, and the remedy. Pure."""

from __future__ import annotations

import re

from backfill_assets.errors import LakehouseUnusable

_FILE = re.compile(
    r"(?P<table>[^/\s'\"]+)/(?:_timelines/[^'\"\n]*?/)?day=(?P<day>\d{4}-\d{2}-\d{2})/(?P<file>[^'\"\n]+?\.parquet)"
)
_LOST = re.compile(
    r"No files found|No such file|does not exist|not found|No magic bytes|too small to be a Parquet", re.IGNORECASE
)


class FileLost(LakehouseUnusable):
    pass


def file_lost(error: Exception) -> FileLost | None:
    found = _FILE.search(str(error))
    if found is None or not _LOST.search(str(error)):
        return None
    table, day = found["table"], found["day"]
    mends = f"backfill show {table} {day} says what helps"
    if table.startswith("raw_"):
        mends = f"backfill raw restore {table} {day} reads its rows again from the landed files"
    return FileLost(f"{table} {day} cannot be read: its file {found['file']} is gone or damaged.", hint=f"{mends}.")
