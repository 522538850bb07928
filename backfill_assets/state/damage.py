"""Days whose files are gone: found when a day is read, noted in the lakehouse, and forgotten when they are whole again.

Statuses come from logs, and a log does not show that a file was deleted. So a command that comes upon it leaves a note,
and a note only counts as long as the day still names that file and it is still missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date

from backfill_assets.days import TableDay, day_or_none
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.storage import Storage


def gone_files(storage: Storage, table: str, files: Iterable[AddedFile]) -> list[str]:
    """The paths below ``table`` of those of ``files`` that are not there."""
    paths = [file.path for file in files]
    missing = set(storage.missing([f"{table}/{path}" for path in paths]))
    return [path for path in paths if f"{table}/{path}" in missing]


def note_damage(storage: Storage, table: str, day: date, gone: Iterable[str]) -> None:
    """Remember which files were missed. A lakehouse that may only be read has no notes, and that is no error."""
    with suppress(OSError, BackfillError):
        _notes(storage).replace(f"{table}/{day}", sorted(gone))


def damaged_days(storage: Storage, versions: Mapping[str, int]) -> dict[TableDay, list[str]]:
    """The days that are noted and still damaged at ``versions``, with the files that are gone."""
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
