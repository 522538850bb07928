"""The judges of the simulator on a lakehouse on a disk, which delta-rs and other writers commit to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from backfill_assets.publish.files import LOG_TABLE
from backfill_assets_tests.simulator.judges.tables import Actions, TableJudge
from backfill_assets_tests.simulator.model import Wishes
from backfill_assets_tests.simulator.store import Content


@dataclass
class OnDisk:
    """The files below ``root``."""

    root: Path

    @property
    def contents(self) -> OnDisk:
        return self

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


class TableOnDisk(TableJudge):
    """``foreign`` has the versions that were committed past the protocol, which do not say so themselves."""

    def __init__(self, held: OnDisk, table: str, wishes: Mapping[str, Wishes], foreign: Mapping[int, str]) -> None:
        super().__init__(held, table, wishes)
        self._foreign = foreign

    def is_foreign(self, actions: Actions) -> bool:
        return self.version in self._foreign

    def step_back(self) -> None:
        """Forget the newest version, which was overwritten: it is read again."""
        for made in (self.fenced, self.withdrawn):
            for id in [id for id, version in made.items() if version == self.version]:
                del made[id]
        for id in [id for id, commit in self.commits.items() if commit.version == self.version]:
            del self.commits[id]
        for versions in self.touched.values():
            versions[:] = [version for version in versions if version != self.version]
        self.days.pop()
        self.positions.pop()
        self.version -= 1
        self._newest = {day: set(image.files) for day, image in self.days[-1].items()}
        self._day_of = {path: day for day, paths in self._newest.items() for path in paths}
