"""Maintenance of a lakehouse: looks, plans, carries out.

Compaction is a publication of the same content; files are deleted by an intent on the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake.exceptions import DeltaError

from backfill_assets import clock
from backfill_assets.days import parse_day
from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.named_timelines import kept_timelines
from backfill_assets.lakehouse.records import Provenance
from backfill_assets.lakehouse.timelines import Timeline, open_since
from backfill_assets.publish.compact import compact
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets.publish.fold import fold, foldable, gather, gatherable
from backfill_assets.publish.holds import all_holds, drop_expired, expired_holds
from backfill_assets.publish.log import Head, anything_published
from backfill_assets.publish.pinned import moved_pins, pin_again
from backfill_assets.publish.publisher import Conflict, Publisher
from backfill_assets.publish.unreadable import mend_command
from backfill_assets.rebuild.environment import git_commit
from backfill_assets.rebuild.lake import waiting
from backfill_assets.state.campaigns import plans_under_way, under_way
from backfill_assets.text import format_count
from backfill_assets.upkeep.maintenance_plan import (
    Chore,
    DayFiles,
    Task,
    days_to_compact,
    timelines_to_close,
)
from backfill_assets.upkeep.reclaim import believed_now, reclaim, reclaimable

Progress = Callable[[str], None]
_PROVENANCE = Provenance(launched_by="maintenance", reason="small files")


@dataclass(frozen=True)
class Done:
    task: Task
    outcome: str


@dataclass(frozen=True)
class Maintenance:
    """Unwanted timelines are closed after ``timeline_days``."""

    publisher: Publisher
    tables: Sequence[str]
    timeline_days: int
    clock_checked: bool = False
    """Long pauses of the log count as age then."""

    def plan(self) -> tuple[Task, ...]:
        if not anything_published(self.publisher.storage):
            return ()
        given_back = self.publisher.log.head().state.released
        looked = (task for table in self.tables if table not in given_back for task in self._look(table))
        tasks = [*looked, *self._releasing(), *self._tidying()]
        return tuple(sorted(tasks, key=lambda task: list(Chore).index(task.chore)))

    def carry_out(self, tasks: Iterable[Task], progress: Progress) -> tuple[Done, ...]:
        """Leaves days alone that moved since. Reports refused and failed tasks; raises the first error after all."""
        done: list[Done] = []
        refused: list[BackfillError] = []
        for task in tasks:
            try:
                with waiting(progress, f"{task.chore.value} {task.table}"):
                    outcome = Done(task, self._do(task))
            except BackfillError as error:
                refused.append(error)
                outcome = Done(task, f"refused: {error.message}")
            except (DeltaError, OSError, pa.ArrowException) as error:
                refused.append(LakehouseUnusable(f"{task.chore.value} {task.table} failed: {error}"))
                outcome = Done(task, f"failed: {error}")
            progress(f"{task.chore.value} {task.table}: {outcome.outcome}")
            done.append(outcome)
        if refused:
            raise refused[0]
        return tuple(done)

    # ------------------------------------------------------------------ look

    def _now(self) -> datetime:
        return believed_now(self.publisher, clock_checked=self.clock_checked)

    def _look(self, table: str) -> Iterable[Task]:
        try:
            closing = self._closing(table)
            main, head = MainTable.open(self.publisher.storage, table), self.publisher.log.head()
            compacting = self._compacting(main) if main is not None else None
            reclaiming = self._reclaiming(table, closing.items if closing is not None else (), head)
            found = (closing, self._keeping(main, head), self._pinning(table, head), compacting, reclaiming)
        except (BackfillError, DeltaError, OSError, pa.ArrowException, ValueError) as error:
            why = (error.message if isinstance(error, BackfillError) else str(error)).partition("\n")[0]
            return [Task(Chore.LOOK, table, (), why=why)]
        return [task for task in found if task is not None]

    def _closing(self, table: str) -> Task | None:
        storage = self.publisher.storage
        begun = {name: datetime.fromtimestamp(ms / 1000, UTC) for name, ms in open_since(storage, table).items()}
        now = self._now()
        kept = [each.id for each in kept_timelines(storage, now)]
        return timelines_to_close(table, begun, plans_under_way(self.publisher.log), now, self.timeline_days, kept)

    def _releasing(self) -> Iterable[Task]:
        gone = expired_holds(all_holds(self.publisher.storage), clock.now())
        if gone:
            yield Task(Chore.RELEASE, "", tuple(hold.name for hold in gone), why="their holders died")

    def _window(self, head: Head) -> int:
        return head.state.window_days(self.publisher.retention_days, clock.now())

    def _keeping(self, main: MainTable | None, head: Head) -> Task | None:
        days = self._window(head)
        if main is None or main.is_kept_for(days):
            return None
        return Task(Chore.KEEP, main.name, (str(days),), why="the rollback window was changed")

    def _pinning(self, table: str, head: Head) -> Task | None:
        version = moved_pins(self.publisher.log, head, [table]).get(table)
        if version is None:
            return None
        why = "newer versions changed no file, and old ones are cleaned up"
        return Task(Chore.PIN, table, (str(version),), why=why)

    def _compacting(self, main: MainTable) -> Task | None:
        state = main.state()
        days = {
            day: DayFiles(len(paths), sum(state.active[path].size for path in paths))
            for day, paths in state.by_day().items()
        }
        return days_to_compact(main.name, days, self._changing())

    def _changing(self) -> set[str]:
        return {table for each in under_way(self.publisher.log) for table in each.tables}

    def _reclaiming(self, table: str, closing: Sequence[str], head: Head) -> Task | None:
        paths = reclaimable(self.publisher, table, closing, clock_checked=self.clock_checked)
        if not paths:
            return None
        why = (
            f"older than {self._window(head)} days; no rollback, open plan, open timeline or pinned version needs them"
        )
        if pauses := round((clock.now() - self._now()) / timedelta(days=1)):
            why = f"{why}. {format_count(pauses, 'day')} of pauses are not counted: a clock may have been ahead"
        return self._of_files(Chore.RECLAIM, table, paths, why)

    def _tidying(self) -> Iterable[Task]:
        log = self.publisher.log
        behind = reclaimable(self.publisher, LOG_TABLE, clock_checked=self.clock_checked)
        found = (
            (Chore.FOLD, foldable(log, clock.now()), "settled entries have a file each"),
            (Chore.GATHER, gatherable(log), "entries of streams have a file each"),
            (Chore.RECLAIM, behind, "their entries lie with their month, or newer files"),
        )
        tasks = (self._of_files(chore, LOG_TABLE, paths, why) for chore, paths, why in found)
        return [task for task in tasks if task is not None]

    def _of_files(self, chore: Chore, table: str, paths: Sequence[str], why: str) -> Task | None:
        if not paths:
            return None
        sizes = {file.path: file.size for file in self.publisher.storage.files(table, recursive=True)}
        return Task(chore, table, tuple(paths), len(paths), sum(sizes.get(path, 0) for path in paths), why)

    # ------------------------------------------------------------------ do

    def _do(self, task: Task) -> str:
        doing: dict[Chore, Callable[[Task], str]] = {
            Chore.CLOSE: self._close,
            Chore.RELEASE: self._release,
            Chore.KEEP: self._keep,
            Chore.PIN: self._pin,
            Chore.COMPACT: self._compact,
            Chore.FOLD: self._fold,
            Chore.GATHER: self._gather,
            Chore.RECLAIM: self._reclaim,
            Chore.LOOK: self._unreadable,
        }
        return doing[task.chore](task)

    def _unreadable(self, task: Task) -> str:
        raise LakehouseUnusable(
            f"{task.table} was left alone, since what it needs cannot be read: {task.why}",
            hint=f"If its Delta log has lost files: {mend_command(task.table)}. Other files come back from a copy.",
        )

    def _release(self, task: Task) -> str:
        return f"{format_count(len(drop_expired(self.publisher.storage, clock.now())), 'hold')} dropped"

    def _reclaim(self, task: Task) -> str:
        deleted = reclaim(self.publisher, task.table, clock_checked=self.clock_checked)
        return f"{format_count(len(deleted), 'file')} deleted"

    def _fold(self, task: Task) -> str:
        return _entries("folded", fold(self.publisher.log, clock.now()))

    def _gather(self, task: Task) -> str:
        return _entries("gathered", gather(self.publisher.log))

    def _keep(self, task: Task) -> str:
        main, days = MainTable.open(self.publisher.storage, task.table), self._window(self.publisher.log.head())
        return f"{days} days" if main is not None and main.keep_for(days) else "left for the next time"

    def _pin(self, task: Task) -> str:
        moved = pin_again(self.publisher.log, [task.table])
        return f"version {moved[task.table]}" if moved else "nothing left to pin"

    def _close(self, task: Task) -> str:
        for name in task.items:
            Timeline(self.publisher.storage, task.table, name).close()
        return f"{format_count(len(task.items), 'timeline')} closed"

    def _compact(self, task: Task) -> str:
        id = f"{clock.now():%Y%m%dt%H%M%S}-{task.table.replace('_', '-')}-{clock.token(4)}"
        made = _PROVENANCE.model_copy(update={"git_commit": git_commit()})
        compacted = compact(self.publisher, task.table, map(parse_day, task.items), id=id, provenance=made)
        if isinstance(compacted, Conflict):
            return f"left for the next time: {compacted.reasons[0]}"
        return f"{format_count(len(task.items), 'day')} compacted" if compacted else "nothing left to compact"


def _entries(done: str, count: int) -> str:
    return f"{format_count(count, 'file')} {done}" if count else "left for the next time: others appended meanwhile"
