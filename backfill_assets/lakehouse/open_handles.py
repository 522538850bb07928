"""Delta-rs's handles, kept by a process that opens the same tables again and again.

Opening a table reads its log from the newest checkpoint; a handle that comes along reads only the commits since. Each
handle is of one user at a time: who takes it has it alone, until it is given back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

from deltalake import DeltaTable

from backfill_assets.lakehouse import durable
from backfill_assets.lakehouse.delta_log import LogRead, commit_file, open_again
from backfill_assets.lakehouse.storage import Storage

_MOST_KEPT = 16
_kept: list[tuple[str, DeltaTable, tuple[int, ...]]] = []
"""With their addresses, the longest unused first, and what the file of the commit was that each is of."""
_alone = Lock()


def take(storage: Storage, table: str) -> DeltaTable | None:
    """None if there is none, or if the table is another one by now: its log was written anew, or cleaned up."""
    address = storage.uri(table)
    with _alone:
        newest = max((place for place, (of, *_) in enumerate(_kept) if of == address), default=None)
        _, handle, commit = _kept.pop(newest) if newest is not None else ("", None, ())
    return handle if handle is not None and commit == _commit_of(storage, table, handle) else None


def give_back(storage: Storage, table: str, handle: DeltaTable) -> None:
    """Nothing is committed by it any more. On an object store, telling whether a log is the same would take longer."""
    if commit := _commit_of(storage, table, handle):
        with _alone:
            _kept.append((storage.uri(table), handle, commit))
            del _kept[:-_MOST_KEPT]


def _commit_of(storage: Storage, table: str, handle: DeltaTable) -> tuple[int, ...]:
    return durable.as_it_is(storage.uri(commit_file(table, handle.version()))) if storage.is_folder else ()


@dataclass(frozen=True)
class Known:
    """What the user of several versions of tables has read of each: it reads only what is new since."""

    handles: dict[str, DeltaTable] = field(default_factory=dict)
    logs: dict[str, LogRead] = field(default_factory=dict)

    def handle_at(self, storage: Storage, table: str, version: int) -> DeltaTable:
        """Raises what delta-rs raises."""
        known = self.handles.get(table) or take(storage, table)
        self.handles[table] = found = open_again(storage, table, version, known)
        return found

    def give_back(self, storage: Storage, tables: Iterable[str]) -> None:
        for table in tables:
            if (handle := self.handles.pop(table, None)) is not None:
                give_back(storage, table, handle)
