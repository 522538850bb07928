"""Copies what is committed while a storm goes on: afterwards, old commits are trimmed and old files reclaimed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backfill_assets.lakehouse.delta_log import newest_version
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets_tests.simulator.world import CHAIN, TABLES

ALL = (LOG_TABLE, *TABLES, *CHAIN)
_SEEN = "seen.json"


@dataclass
class Archive:
    """The folder ``kept`` gets each commit of a lakehouse with the files that it adds.

    ``seen`` says when each version of a table was there already (ns of the monotonic clock).
    """

    storage: Storage
    kept: Path
    every: float = 0.1
    seen: dict[str, list[int]] = field(default_factory=lambda: {table: [] for table in ALL})
    _over: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """All that is there now is kept.

        Raises:
            AssertionError: a commit was gone before it was copied.
        """
        self._over.set()
        self._thread.join()
        if self.error is not None:
            raise self.error
        self.look()
        for table, seen in self.seen.items():
            newest = newest_version(self.storage, table)
            assert (newest is None) == (not seen), f"{table} was not copied"
            assert newest is None or newest == len(seen) - 1, f"{table} {len(seen)} was gone before it was copied"
        (self.kept / _SEEN).write_text(json.dumps(self.seen))

    def _follow(self) -> None:
        try:
            while not self._over.wait(self.every):
                self.look()
        except BaseException as error:
            self.error = error

    def look(self) -> None:
        for table in ALL:
            while self._copy_next(table):
                pass

    def _copy_next(self, table: str) -> bool:
        path = f"{table}/_delta_log/{len(self.seen[table]):020d}.json"
        if self.storage.missing([path]):
            return False
        data = self.storage.read_bytes(path)
        for file in _added(data, changed_only=table == LOG_TABLE):
            if not (self.kept / table / file).exists():
                self._keep(f"{table}/{file}", self.storage.read_bytes(f"{table}/{file}"))
        self._keep(path, data)
        self.seen[table].append(time.monotonic_ns())
        return True

    def _keep(self, path: str, data: bytes) -> None:
        copy = self.kept / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)


def seen_in(kept: Path) -> Mapping[str, list[int]]:
    """When each version of each table had been seen."""
    found: dict[str, list[int]] = json.loads((kept / _SEEN).read_text())
    return found


def _added(data: bytes, *, changed_only: bool) -> Iterator[str]:
    """Of the log only what says something new: others may put its rows into other files."""
    actions: list[dict[str, Any]] = [json.loads(line) for line in data.splitlines()]
    for add in (action["add"] for action in actions if "add" in action):
        if add["dataChange"] or not changed_only:
            yield add["path"]
