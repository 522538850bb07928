"""A lakehouse of small tables in a folder, with the two or three calls that most tests make."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable, write_deltalake

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.delta_log import LogState, read_log
from backfill_assets.lakehouse.records import DayState, InputRead, Kind, Mode, Position, Publication, TableChange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.publish.crash_points import CrashPoint, Reached, nowhere
from backfill_assets.publish.head import HeadState
from backfill_assets.publish.pinned import Pin
from backfill_assets.publish.publisher import Conflict, Published, Publisher
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.staging import DAYS, RowsByDay, change, published_rows, rows_table, stage

D1, D2, D3 = DAYS
RowsOfTables = Mapping[str, RowsByDay]


def dying_at(step: CrashPoint, after: int = 0) -> Reached:
    """For :class:`Publisher`: die when ``step`` is reached for the time after ``after`` times."""
    left = [after]

    def reached(at: CrashPoint, about: str) -> None:
        if at == step:
            left[0] -= 1
            if left[0] < 0:
                raise Died

    return reached


@dataclass
class Lake:
    """While its ``time`` is in use, ``clock`` is what all take for now; set it to let days pass."""

    root: Path
    time: FakeClock = field(default_factory=lambda: FakeClock(datetime.now(UTC)))
    retention_days: int = 30

    @property
    def clock(self) -> datetime:
        return self.time.moment

    @clock.setter
    def clock(self, moment: datetime) -> None:
        self.time.moment = moment

    @property
    def storage(self) -> Storage:
        return Storage(str(self.root))

    def publisher(self, reached: Reached = nowhere) -> Publisher:
        return Publisher(self.storage, retention_days=self.retention_days, reached=reached)

    @property
    def head(self) -> HeadState:
        """What the newest entry of the log says."""
        return self.publisher().log.head().state

    def copy(self, root: Path) -> Lake:
        """Another lakehouse with the same past."""
        shutil.copytree(self.root, root)
        return Lake(root, FakeClock(self.clock), self.retention_days)

    def day(self, table: str, day: date) -> DayState:
        """As the log has it."""
        log = self.publisher().log
        return log.day_states(log.head())[TableDay(table, day)]

    def die(self, step: CrashPoint, request: Publication) -> None:
        """A process that publishes ``request`` ends at ``step``."""
        try:
            self.publisher(dying_at(step)).publish(request)
        except Died:
            return
        raise AssertionError(f"the step {step} was not reached")

    def publish_daily(self, table: str, days: int, every: int = 1) -> None:
        """Each one (or one ``every`` so many days) replaces the day, and is named after its own."""
        publisher = self.publisher()
        for _ in range(0, days, every):
            self.clock += timedelta(days=every)
            rows = {table: {D1: [f"{self.clock:%m%d}"]}}
            publisher.publish(self.request(f"p{self.clock:%Y%m%d}", rows, pinned_by(publisher, rows)))

    def pin(self, rows: RowsOfTables, reads: Mapping[str, list[date]] | None = None, exact: bool = False) -> Pin:
        return pinned_by(self.publisher(), rows, reads, exact)

    def request(
        self,
        id: str,
        rows: RowsOfTables,
        pin: Pin | None = None,
        *,
        kind: Kind = "replace",
        positions: tuple[Position, ...] = (),
        inputs: tuple[InputRead, ...] = (),
        extra: int = 0,
    ) -> Publication:
        """Rows staged into timelines of their own, named after the publication, against what is published now."""
        found = pin or self.pin(rows)
        mode: Mode = "append" if kind == "append" else "replace"
        changes = tuple(self.staged(table, id, days, found, mode, positions, extra) for table, days in rows.items())
        return Publication(id=id, kind=kind, tables=changes, inputs=inputs)

    def staged(
        self,
        table: str,
        name: str,
        rows: RowsByDay,
        pin: Pin,
        mode: Mode = "replace",
        positions: tuple[Position, ...] = (),
        extra: int = 0,
    ) -> TableChange:
        numbered = (f"{name}-{number}" for number in itertools.count())
        free = next(each for each in numbered if not self.storage.exists(Timeline(self.storage, table, each).path))
        return change(stage(self.storage, table, free, rows, extra), rows, pin, mode, positions)

    def publish(self, id: str, rows: RowsOfTables, pin: Pin | None = None, extra: int = 0) -> Published | Conflict:
        publisher = self.publisher()
        return publisher.publish(self.request(id, rows, pin or pinned_by(publisher, rows), extra=extra))

    def append(self, id: str, table: str, rows: RowsByDay, *positions: Position) -> Published | Conflict:
        publisher, tables = self.publisher(), {table: rows}
        pin = pinned_by(publisher, tables)
        return publisher.publish(self.request(id, tables, pin, kind="append", positions=positions))

    def rows(self, table: str, version: int | None = None) -> dict[date, list[str]]:
        """The rows of every day, sorted, as a reader sees them."""
        found = published_rows(self.storage, table, version)
        return {day: sorted(names.elements()) for day, names in sorted(found.items())}

    def state(self, table: str) -> LogState:
        return read_log(self.storage, table, self.table(table).version())

    def table(self, table: str) -> DeltaTable:
        return DeltaTable(self.storage.uri(table), storage_options=dict(self.storage.options))

    def foreign_rows(self, table: str, rows: RowsByDay, extra: int = 0) -> None:
        """A foreign writer commits to main past the protocol."""
        write_deltalake(self.storage.uri(table), rows_table(rows, extra), mode="append")


def pinned_by(
    publisher: Publisher, rows: RowsOfTables, reads: Mapping[str, list[date]] | None = None, exact: bool = False
) -> Pin:
    """What a process that publishes ``rows`` has pinned before."""
    reads = reads or {}
    return publisher.pin({table: list(days) for table, days in rows.items()}, reads, reads if exact else ())
