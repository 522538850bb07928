from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.delta_log import Actions, checkpoints, commit_file, hinted_checkpoint, require_actions
from backfill_assets.lakehouse.storage import Storage

_COMMIT = re.compile(r"(\d{20})\.json$")


@dataclass(frozen=True)
class LogFolder:
    storage: Storage
    table: str
    commits: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]
    hint: int | None

    @classmethod
    def of(cls, storage: Storage, table: str) -> LogFolder:
        names = [file.path for file in storage.files(f"{table}/_delta_log")]
        commits = frozenset(int(match[1]) for name in names if (match := _COMMIT.search(name)))
        return cls(storage, table, commits, checkpoints(names), hinted_checkpoint(storage, table))

    @property
    def newest(self) -> int:
        return max((*self.commits, *self.checkpoints), default=-1)

    @property
    def is_from_the_beginning(self) -> bool:
        """Clean-up leaves a checkpoint and its hint."""
        return 0 in self.commits or (not self.checkpoints and self.hint is None)

    def actions(self, version: int) -> Actions | None:
        try:
            return require_actions(self.storage, commit_file(self.table, version))
        except (BackfillError, OSError):
            return None

    def checkpoint(self, version: int, columns: list[str]) -> Actions | None:
        try:
            tables = [self.storage.read_parquet(part, columns) for part in self.checkpoints[version]]
        except (BackfillError, OSError, pa.ArrowException):
            return None
        return [
            {kind: each}
            for rows in tables
            for kind in rows.column_names
            for each in rows.column(kind).drop_null().to_pylist()
        ]

    def sound_checkpoint(self, until: int) -> int | None:
        older = (version for version in sorted(self.checkpoints, reverse=True) if version <= until)
        return next((each for each in older if self.checkpoint(each, ["add.path"]) is not None), None)

    def lost(self, newest: int) -> tuple[str, ...]:
        base = self.sound_checkpoint(newest)
        first = 0 if base is None and self.is_from_the_beginning else self._begins(base)
        gone = [version for version in range(first, newest + 1) if self.actions(version) is None]
        damaged = [part for version in self.damaged_checkpoints() for part in self.checkpoints[version]]
        cleaned = base is None and not self.is_from_the_beginning
        wanted = f"{self.table}/_delta_log/{self.hint:020d}.checkpoint.parquet" if cleaned and self.hint else ""
        named = [wanted] if wanted and self.hint not in self.checkpoints else []
        return (*named, *damaged, *(commit_file(self.table, version) for version in gone))

    def _begins(self, base: int | None) -> int:
        return min(self.commits, default=0) if base is None else base + 1

    def damaged_checkpoints(self) -> list[int]:
        return [version for version in sorted(self.checkpoints) if self.checkpoint(version, ["add.path"]) is None]


def json_lines(actions: Actions) -> bytes:
    return "\n".join(json.dumps(each) for each in actions).encode()


_MAPS = frozenset({"options", "configuration"})


def without_nulls(value: Any, name: str = "") -> Any:
    """Like commits: maps as objects, unset fields absent."""
    if name in _MAPS:
        return {key: each for key, each in dict(value).items() if each is not None}
    if isinstance(value, dict):
        return {key: without_nulls(each, key) for key, each in value.items() if each is not None}
    return value
