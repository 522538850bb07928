"""A clock that runs fast: windows close and files are reclaimed while a storm lasts some minutes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from backfill_assets import clock
from backfill_assets.clock import MachineClock
from backfill_assets.lakehouse.delta_log import RemovedFile
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets.publish import fold
from backfill_assets.stream import lease

FASTER = 1800
"""A second of a storm is half an hour."""
COMMITS_KEPT, SETTLED = timedelta(hours=4), timedelta(days=1)
"""Of the log: 8 s of a storm, in which those read a commit who judge it, and 48 s, after which entries are folded."""


@dataclass(frozen=True)
class StormClock(MachineClock):
    """The time in a storm that ``began`` at a moment of the real clock (s since 1970). Who waits waits by that one."""

    began: float

    @property
    def moment(self) -> datetime:
        return self.now()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at(time.time()), UTC)

    def at(self, real: float) -> float:
        return self.began + (real - self.began) * FASTER

    def stamp(self) -> int:
        """Other engines know nothing of this clock."""
        return round(time.time() * 1000)

    def pass_on(self, time: timedelta) -> None:
        """It passes by itself."""

    @contextmanager
    def ruling(self) -> Iterator[None]:
        """It answers in this process, which does nothing else: also for files, and for commits that remove some."""
        self._rule_files()
        # A lease lasts by the real clock: a process that was stopped for a second is not taken over.
        setattr(lease, "LEASE_SECONDS", lease.LEASE_SECONDS * FASTER)  # noqa: B010 - as below
        setattr(fold, "COMMITS_KEPT", COMMITS_KEPT)  # noqa: B010
        setattr(fold, "SETTLED", SETTLED)  # noqa: B010
        with clock.use(self):
            yield

    def _rule_files(self) -> None:
        listed, removed = Storage.files, MainTable.removed_files

        def files(storage: Storage, path: str, *, recursive: bool = False) -> list[StoredFile]:
            found = listed(storage, path, recursive=recursive)
            return [replace(each, modified_ms=round(self.at(each.modified_ms / 1000) * 1000)) for each in found]

        def removed_files(main: MainTable) -> Mapping[str, RemovedFile]:
            found = {path: self.at(each.removed_ms / 1000) for path, each in removed(main).items()}
            return {path: replace(each, removed_ms=round(1000 * found[path])) for path, each in removed(main).items()}

        setattr(Storage, "files", files)  # noqa: B010 - mypy forbids what a process of its own may do
        setattr(MainTable, "removed_files", removed_files)  # noqa: B010
