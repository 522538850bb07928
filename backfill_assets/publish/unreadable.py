"""Unreadable tables as findings with remedies; others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from deltalake.exceptions import DeltaError

from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.lakehouse.catalog_managed import CatalogManaged
from backfill_assets.lakehouse.delta_log import VersionGone
from backfill_assets.lakehouse.log_folder import LogFolder
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.text import format_count

UNREADABLE = (BackfillError, DeltaError, OSError, pa.ArrowException, ValueError, LookupError, TypeError)
Found = TypeVar("Found")


@dataclass(frozen=True)
class Unreadable:
    table: str
    why: str
    next_step: str
    lost: tuple[str, ...] = ()
    kind: type[LakehouseUnusable] = LakehouseUnusable

    @property
    def error(self) -> LakehouseUnusable:
        return self.kind(f"{self.table} cannot be read: {self.why}", hint=self.next_step)


def mend_command(table: str) -> str:
    return f"backfill maintain --mend {table}"


def read_or_say(storage: Storage, table: str, version: int | None, read: Callable[[], Found]) -> Found | Unreadable:
    try:
        return read()
    except UNREADABLE as error:
        return _unreadable(storage, table, version, error)


def _unreadable(storage: Storage, table: str, version: int | None, error: Exception) -> Unreadable:
    words = (error.message if isinstance(error, BackfillError) else str(error)).partition("\n")[0].rstrip(".")
    words = words.removeprefix(f"{table} cannot be read: ")
    try:
        folder = LogFolder.of(storage, table)
        lost = folder.lost(max(version if version is not None else -1, folder.newest))
    except UNREADABLE:
        lost = ()  # Not even the folder can be listed: its permissions or the bucket, which the error names.
    if lost and not isinstance(error, CatalogManaged) and not is_closed_to_us(error):
        more = f", and {format_count(len(lost) - 1, 'more file')}" if len(lost) > 1 else ""
        return Unreadable(table, f"{lost[0]} is gone or damaged{more}", mend_command(table), lost)
    hint = (error.hint if isinstance(error, BackfillError) else "") or f"Look at {storage.uri(table)}/_delta_log."
    kind = next((kind for kind in (VersionGone, CatalogManaged) if isinstance(error, kind)), LakehouseUnusable)
    return Unreadable(table, words, hint, kind=kind)


def is_closed_to_us(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, PermissionError) or "access is denied" in str(error):
            return True
        error = error.__cause__
    return False


class GivenBack(LakehouseUnusable):
    pass


def given_back(table: str, by: str) -> Unreadable:
    return Unreadable(table, f"it was given back by {by}", f"backfill adopt {table} LOCATION", kind=GivenBack)


def require_ours(released: Mapping[str, str], tables: Iterable[str]) -> None:
    for table in sorted(set(tables) & released.keys()):
        raise given_back(table, released[table]).error


def require_newest(table: str, version: int | None, pinned: int | None) -> None:
    """Raises :class:`LakehouseUnusable` for a table older than its pin: it has lost commits, and another would drop
    their days and reuse their numbers.
    """
    if pinned is not None and (version is None or version < pinned):
        has = "no log" if version is None else f"version {version} at most"
        raise LakehouseUnusable(
            f"{table} has lost commits of its Delta log: readers are pinned to version {pinned}, and it has {has}.",
            hint=f"{mend_command(table)} writes them anew.",
        )
