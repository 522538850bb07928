"""Maintenance of a lakehouse: looks, plans, and carries the plan out.

It publishes and deletes by the rules that everybody else keeps: compaction is a publication that preserves content, and
files go by an intent on the publication log. What a rollback window, an open plan or a pinned version needs stays.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from backfill_assets.build.maintenance_plan import (
    Chore,
    DayFiles,
    OpenTimeline,
    Task,
    days_to_compact,
    timelines_to_close,
)
from backfill_assets.lakehouse.compact import compact
from backfill_assets.lakehouse.holds import all_holds, drop_expired, expired
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.plans import open_plan_ids, under_way
from backfill_assets.lakehouse.publication import Provenance
from backfill_assets.lakehouse.publish import Moved, Publisher
from backfill_assets.lakehouse.published import anything_published
from backfill_assets.lakehouse.reclaim import reclaim, reclaimable
from backfill_assets.lakehouse.timelines import TIMELINES, Timeline

Progress = Callable[[str], None]
_PROVENANCE = Provenance(launched_by="maintenance", reason="small files")


@dataclass(frozen=True)
class Done:
    """What became of a task."""

    task: Task
    outcome: str


@dataclass(frozen=True)
class Maintenance:
    """Works on ``tables``; timelines that nobody wants are closed after ``timeline_days``."""

    publisher: Publisher
    tables: Sequence[str]
    timeline_days: int

    def plan(self) -> tuple[Task, ...]:
        """What there is to do now; writes nothing."""
        if not anything_published(self.publisher.storage):
            return ()
        closing = {task.table: task for table in self.tables if (task := self._closing(table)) is not None}
        return (
            *closing.values(),
            *self._releasing(),
            *(task for table in self.tables if (task := self._compacting(table)) is not None),
            *(
                task
                for table in self.tables
                if (task := self._reclaiming(table, closing[table].items if table in closing else ())) is not None
            ),
        )

    def carry_out(self, tasks: Iterable[Task], progress: Progress) -> tuple[Done, ...]:
        """Do ``tasks`` in their order. Whatever moved since they were planned is looked at again and left alone."""
        done = []
        for task in tasks:
            found = Done(task, self._do(task))
            progress(f"{task.chore.value} {task.table}: {found.outcome}")
            done.append(found)
        return tuple(done)

    # ------------------------------------------------------------------ look

    def _closing(self, table: str) -> Task | None:
        storage = self.publisher.storage
        markers = storage.files(f"{table}/{TIMELINES}/_open")
        found = [
            OpenTimeline(file.path.rsplit("/", 1)[1], datetime.fromtimestamp(file.modified_ms / 1000, UTC))
            for file in markers
        ]
        return timelines_to_close(table, found, open_plan_ids(storage), self.publisher.now(), self.timeline_days)

    def _releasing(self) -> Iterable[Task]:
        gone = expired(all_holds(self.publisher.storage), self.publisher.now())
        if gone:
            yield Task(Chore.RELEASE, "", tuple(hold.name for hold in gone), why="their holders died")

    def _compacting(self, table: str) -> Task | None:
        main = MainTable.open(self.publisher.storage, table)
        if main is None:
            return None
        days: dict[str, DayFiles] = {}
        for file in main.state().active.values():
            found = days.get(file.day, DayFiles(0, 0))
            days[file.day] = DayFiles(found.files + 1, found.bytes + file.size)
        return days_to_compact(table, days, self._changing())

    def _changing(self) -> set[str]:
        return {table for each in under_way(self.publisher.storage) for table in each.tables}

    def _reclaiming(self, table: str, closing: Sequence[str]) -> Task | None:
        paths = reclaimable(self.publisher, table, closing)
        if not paths:
            return None
        sizes = {file.path: file.size for file in self.publisher.storage.files(table, recursive=True)}
        window = self.publisher.retention_days
        why = f"older than {window} days; no rollback, open plan, open timeline or pinned version needs them"
        return Task(Chore.RECLAIM, table, tuple(paths), sum(sizes.get(path, 0) for path in paths), why)

    # ------------------------------------------------------------------ do

    def _do(self, task: Task) -> str:
        match task.chore:
            case Chore.CLOSE:
                return self._close(task)
            case Chore.RELEASE:
                return f"{len(drop_expired(self.publisher.storage, self.publisher.now()))} hold(s) dropped"
            case Chore.COMPACT:
                return self._compact(task)
            case Chore.RECLAIM:
                return f"{len(reclaim(self.publisher, task.table))} file(s) deleted"

    def _close(self, task: Task) -> str:
        for name in task.items:
            Timeline(self.publisher.storage, task.table, name).close()
        return f"{len(task.items)} timeline(s) closed"

    def _compact(self, task: Task) -> str:
        id = f"{self.publisher.now():%Y%m%dt%H%M%S}-{task.table.replace('_', '-')}-{secrets.token_hex(4)}"
        found = compact(self.publisher, task.table, task.items, id=id, provenance=_PROVENANCE)
        if isinstance(found, Moved):
            return f"left for the next time: {found.reasons[0]}"
        return f"{len(task.items)} day(s) compacted" if found else "nothing left to compact"
