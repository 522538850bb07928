"""The same world on a real disk, where delta-rs commits: its actors, its schedules, its judges.

What delta-rs does within one call is one step here; the package's own calls to its storage are steps as in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets_tests.simulator.judges.tables import Held
from backfill_assets_tests.simulator.store import _T, Content, Fault, carried_out
from backfill_assets_tests.simulator.world import Deed, World


@dataclass
class OnDisk:
    """The files below ``root``."""

    root: Path

    @property
    def contents(self) -> OnDisk:
        return self

    @property
    def changes(self) -> object:
        """Nobody has counted them."""
        return object()

    def get(self, path: str, /) -> Content | None:
        try:
            return self[path]
        except FileNotFoundError:
            return None

    def __getitem__(self, path: str, /) -> Content:
        """Of a table that is judged its names alone."""
        file = self.root / path
        if not path.endswith(".parquet"):
            return file.read_bytes()
        return pq.ParquetFile(file).read(None if path.startswith(f"{LOG_TABLE}/") else ["name"])

    def __contains__(self, path: object, /) -> bool:
        return os.path.exists(f"{self.root}/{path}")  # noqa: PTH110 - at every step

    def names(self, path: str) -> list[str]:
        """What is directly below a folder."""
        return sorted(os.listdir(self.root / path)) if path in self else []  # noqa: PTH208 - likewise


@dataclass(frozen=True)
class StorageOnDisk(Storage):
    """Every call that others could be faster than is where somebody else may go on, and may go wrong."""

    at: Callable[[str], Fault | None] = field(default=lambda call: None, compare=False)

    def _call(self, name: str, path: str, act: Callable[[], _T]) -> _T:
        return carried_out(self.at(f"{name} {path}"), f"{name} {path}", act)

    def exists(self, path: str) -> bool:
        return self._call("exists", path, lambda: Storage.exists(self, path))

    def files(self, path: str, *, recursive: bool = False) -> list[StoredFile]:
        return self._call("files", path, lambda: Storage.files(self, path, recursive=recursive))

    def folders(self, path: str) -> list[str]:
        return self._call("folders", path, lambda: Storage.folders(self, path))

    def read_bytes(self, path: str) -> bytes:
        return self._call("read", path, lambda: Storage.read_bytes(self, path))

    def write_bytes(self, path: str, data: bytes) -> None:
        self._call("write", path, lambda: Storage.write_bytes(self, path, data))

    def replace_bytes(self, path: str, data: bytes, *, kept: bool = True) -> None:
        self._call("replace", path, lambda: Storage.replace_bytes(self, path, data, kept=kept))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._call("put if absent", path, lambda: Storage.put_if_absent(self, path, data))

    def read_parquet(self, path: str, columns: list[str] | None = None) -> pa.Table:
        return self._call("read", path, lambda: Storage.read_parquet(self, path, columns))

    def write_parquet(self, path: str, table: pa.Table) -> int:
        return self._call("write", path, lambda: Storage.write_parquet(self, path, table))

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: Storage.delete(self, path))


class WorldOnDisk(World):
    """In the folder ``root``; files get their times from the machine, and so its clock begins now."""

    def __init__(self, root: Path, seed: int, actors: Mapping[str, Deed]) -> None:
        self._root = root
        super().__init__(seed, actors)
        self.clock.moment = datetime.now(UTC)

    def lakehouse(self) -> tuple[Held, Storage]:
        return OnDisk(self._root), StorageOnDisk(str(self._root), at=self._at)

    def tables_of_delta(self) -> AbstractContextManager[None]:
        """Those of delta-rs itself."""
        return nullcontext()
