"""Reads the full add and remove actions of a Delta table, which delta-rs's own listing does not give (statistics).

Covers what delta-rs and Spark write for our tables: JSON commits, and single or multi part checkpoints whose
statistics are JSON text. See https://github.com/delta-io/delta/blob/master/PROTOCOL.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from backfill_assets.lakehouse.storage import Storage

_COMMIT = re.compile(r"(\d{20})\.json$")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.\d{10})?\.parquet$")


@dataclass(frozen=True, order=True)
class AddedFile:
    """One data file as a Delta ``add`` action names it; ``path`` is relative to its table, ``day`` its partition."""

    path: str
    day: str
    size: int
    modified_ms: int
    stats: str

    @property
    def rows(self) -> int:
        return int(json.loads(self.stats)["numRecords"])

    def below(self, folder: str) -> AddedFile:
        """The same file as seen from a table whose sub-folder ``folder`` is the one that added it."""
        return AddedFile(f"{folder}/{self.path}", self.day, self.size, self.modified_ms, self.stats)

    def to_json(self) -> list[Any]:
        return [self.path, self.day, self.size, self.modified_ms, self.stats]

    @classmethod
    def from_json(cls, value: list[Any]) -> AddedFile:
        return cls(*value)


@dataclass(frozen=True)
class RemovedFile:
    """A tombstone: a file that some earlier version of the table still refers to."""

    path: str
    removed_ms: int


@dataclass(frozen=True)
class LogState:
    """Active files and tombstones of one version of a table, by path."""

    version: int
    active: dict[str, AddedFile]
    removed: dict[str, RemovedFile]

    def by_day(self) -> dict[str, frozenset[str]]:
        """The active paths of every day that has any."""
        days: dict[str, set[str]] = {}
        for file in self.active.values():
            days.setdefault(file.day, set()).add(file.path)
        return {day: frozenset(paths) for day, paths in days.items()}

    def of_days(self, days: Iterable[str]) -> dict[str, tuple[AddedFile, ...]]:
        """The active files of each of ``days``, sorted; a day without files has an empty tuple."""
        found: dict[str, list[AddedFile]] = {day: [] for day in days}
        for file in self.active.values():
            if file.day in found:
                found[file.day].append(file)
        return {day: tuple(sorted(files)) for day, files in found.items()}


def read_log(storage: Storage, table: str, version: int) -> LogState:
    """The state of ``table`` at ``version``: newest checkpoint at or before it, then the commits after that."""
    names = [file.path for file in storage.files(f"{table}/_delta_log")]
    checkpoints = [(int(m[1]), name) for name in names if (m := _CHECKPOINT.search(name)) and int(m[1]) <= version]
    base = max((number for number, _ in checkpoints), default=-1)
    state = LogState(version, {}, {})
    for number, name in checkpoints:
        if number == base:
            _apply(state, _checkpoint_actions(storage, name))
    commits = sorted((int(m[1]), name) for name in names if (m := _COMMIT.search(name)) and base < int(m[1]) <= version)
    for _, name in commits:
        _apply(state, storage.read_json_lines(name))
    return state


def _checkpoint_actions(storage: Storage, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = storage.read_parquet(name, ["add", "remove"]).to_pylist()
    return rows


def _apply(state: LogState, actions: Iterable[dict[str, Any]]) -> None:
    """Apply one commit: removes first, as a reader of the protocol sees them within a version."""
    listed = list(actions)
    for action in listed:
        if remove := action.get("remove"):
            path = unquote(remove["path"])
            state.active.pop(path, None)
            state.removed[path] = RemovedFile(path, int(remove.get("deletionTimestamp") or 0))
    for action in listed:
        if add := action.get("add"):
            file = _added(add)
            state.active[file.path] = file
            state.removed.pop(file.path, None)


def _added(add: dict[str, Any]) -> AddedFile:
    partition = dict(add["partitionValues"] or {})
    return AddedFile(
        path=unquote(add["path"]),
        day=str(partition.get("day", "")),
        size=int(add["size"]),
        modified_ms=int(add["modificationTime"]),
        stats=add.get("stats") or '{"numRecords":0}',
    )
