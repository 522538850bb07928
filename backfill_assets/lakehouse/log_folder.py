"""The files of a table's Delta log by their names, and which of them are lost: gone, or not readable any more."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.delta_log import Actions, checkpoints, hinted_checkpoint, require_actions
from backfill_assets.lakehouse.storage import Storage

_COMMIT = re.compile(r"(\d{20})\.json$")


@dataclass(frozen=True)
class LogFolder:
    """What a log has, as it was listed. ``checkpoints`` are complete ones: their files by version."""

    storage: Storage
    table: str
    commits: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]
    hint: int | None
    """The checkpoint that the hint of the log names, which may be gone."""

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
        """Has nothing been cleaned up? Clean-up leaves a checkpoint, and the hint of it."""
        return 0 in self.commits or (not self.checkpoints and self.hint is None)

    def commit_path(self, version: int) -> str:
        return f"{self.table}/_delta_log/{version:020d}.json"

    def actions(self, version: int) -> Actions | None:
        """Those of a commit; None where it is gone or damaged."""
        try:
            return require_actions(self.storage, self.commit_path(version))
        except (BackfillError, OSError):
            return None

    def checkpoint(self, version: int, columns: list[str]) -> Actions | None:
        """The same of a checkpoint: only ``columns``."""
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
        """The newest one at or before a version that can be read; None without one."""
        older = (version for version in sorted(self.checkpoints, reverse=True) if version <= until)
        return next((each for each in older if self.checkpoint(each, ["add.path"]) is not None), None)

    def lost(self, newest: int) -> tuple[str, ...]:
        """The files without which ``newest`` cannot be read, oldest first; empty where nothing of it is lost."""
        base = self.sound_checkpoint(newest)
        first = 0 if base is None and self.is_from_the_beginning else self._begins(base)
        gone = [version for version in range(first, newest + 1) if self.actions(version) is None]
        damaged = [part for version in self.damaged_checkpoints() for part in self.checkpoints[version]]
        cleaned = base is None and not self.is_from_the_beginning
        wanted = f"{self.table}/_delta_log/{self.hint:020d}.checkpoint.parquet" if cleaned and self.hint else ""
        named = [wanted] if wanted and self.hint not in self.checkpoints else []
        return (*named, *damaged, *map(self.commit_path, gone))

    def _begins(self, base: int | None) -> int:
        return min(self.commits, default=0) if base is None else base + 1

    def damaged_checkpoints(self) -> list[int]:
        return [version for version in sorted(self.checkpoints) if self.checkpoint(version, ["add.path"]) is None]


def json_lines(actions: Actions) -> bytes:
    """As a commit has them."""
    return "\n".join(json.dumps(each) for each in actions).encode()


_MAPS = frozenset({"options", "configuration"})


def without_nulls(value: Any, name: str = "") -> Any:
    """An action of a checkpoint as a commit has it: maps are objects, and what is not set is absent."""
    if name in _MAPS:
        return {key: each for key, each in dict(value).items() if each is not None}
    if isinstance(value, dict):
        return {key: without_nulls(each, key) for key, each in value.items() if each is not None}
    return value
