"""What is done with the batches of raw: the days of all tables that follow grow, and small files are put together.

All of it is in one thread. Raw is compacted in raw's turn, as both would move its newest days; and only files that
facts were made of, as those that wait would be new no more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from typing import Protocol

import pyarrow as pa
from deltalake.exceptions import DeltaError

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.lakehouse.delta_log import VersionGone, read_log
from backfill_assets.lakehouse.records import InputRead
from backfill_assets.publish.compact import Choose, compact_small_files, days_with_small_files, made_by
from backfill_assets.publish.fold import gather, trim
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets.publish.small_files import files_to_compact
from backfill_assets.rebuild.decide import EarlierState
from backfill_assets.stream.batches import stream_name
from backfill_assets.stream.follower import Follower
from backfill_assets.stream.gained import Gained

_GATHER_EVERY_BATCHES = 32
_PAUSE = timedelta(hours=1)
"""Pause after a damaged file in a table: each compaction attempt leaves files behind."""
_FILES_UNREADABLE = (LakehouseUnusable, DeltaError, OSError, pa.ArrowException)


class FactsReporter(Protocol):
    def followed(self, gained: Gained, seconds: float) -> None: ...

    def followed_again(self) -> None: ...


@dataclass
class Facts:
    """``follows`` is false for a stream of raw alone: then nothing waits, and all of its files are compacted."""

    follower: Follower
    reporter: FactsReporter
    follows: bool = True
    raw_turn: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever of this process publishes to raw."""

    def follow(self, gained: Gained) -> None:
        if self.follows:
            began = clock.seconds()
            self.follower.follow(gained.days)
            self.reporter.followed(gained, clock.seconds() - began)
        self._put_together(gained.days, len(gained.batches))

    def follow_again(self) -> None:
        self.follower.see_held()
        if pending := sorted(self.follower.pending):
            self.follower.follow(pending)
            self._put_together(pending, 1)
        self.reporter.followed_again()

    def _put_together(self, days: Collection[date], batches: int) -> None:
        follower, raw = self.follower, self.follower.raw.name
        free = set(days) - follower.pending
        if self.follows:
            compact_days(follower, [name for step in follower.steps for name in step.table_names], free)
            _compact(follower, raw, partial(self._compact_followed, raw, free))
        else:
            compact_days(follower, [raw], free)
        before, follower.batches = follower.batches, follower.batches + batches
        if follower.batches // _GATHER_EVERY_BATCHES > before // _GATHER_EVERY_BATCHES:
            self._gather()

    def _gather(self) -> None:
        """In raw's turn, too: it loses to whoever appends to the log meanwhile."""
        log = self.follower.lake.publisher.log
        with self.raw_turn:
            gather(log)
        trim(log, clock.now())

    # ------------------------------------------------------------------ raw, to which rows come meanwhile

    def _compact_followed(self, raw: str, days: Collection[date]) -> Published | Conflict | None:
        publisher, read = self.follower.lake.publisher, self.follower.read
        due = days_with_small_files(publisher, raw, set(days) & read.days.keys()) if read else []
        if read is None or read.version is None or not due:
            return None
        built = _paths(self.follower, raw, read.version, due)
        with self.raw_turn:
            done = _compact_small_files(self.follower, raw, due, among(frozenset().union(*built.values())))
        if isinstance(done, Published):
            with suppress(VersionGone):
                self._remember(raw, read, built, done)
        return done

    def _remember(self, raw: str, read: InputRead, built: dict[date, frozenset[str]], done: Published) -> None:
        """Only of days of which nothing else has taken a file away: of the others, what is new is not known."""
        version = done.versions[raw]
        before, after = (_paths(self.follower, raw, at, built) for at in (version - 1, version))
        for day, files in built.items():
            made = made_by(done.publication, after[day])
            if made and files <= before[day]:
                state = EarlierState(read.days[day], files)
                self.follower.memory.put_together(TableDay(raw, day), state, files - after[day], made)


def among(paths: Collection[str]) -> Choose:
    """Small files, of these alone."""
    return lambda files: files_to_compact([file for file in files if file.path in paths])


def _paths(follower: Follower, table: str, version: int, days: Iterable[date]) -> dict[date, frozenset[str]]:
    found = read_log(follower.lake.storage, table, version).of_days([*days])
    return {day: frozenset(file.path for file in files) for day, files in found.items()}


# ------------------------------------------------------------------ small files


def compact_days(follower: Follower, tables: Iterable[str], days: Collection[date]) -> None:
    for table in tables:
        _compact(follower, table, partial(_compact_small_files, follower, table, days))


def _compact_small_files(
    follower: Follower, table: str, days: Collection[date], choose: Choose = files_to_compact
) -> Published | Conflict | None:
    made_by = follower.run.provenance(reason="small files of a stream")
    publisher, transaction = follower.lake.publisher, stream_name(follower.raw.name)
    return compact_small_files(publisher, table, days, provenance=made_by, transaction=transaction, choose=choose)


def _compact(follower: Follower, table: str, compact: Callable[[], Published | Conflict | None]) -> None:
    """A table that cannot be compacted is reported and paused."""
    now, paused = clock.now(), follower.not_compacted
    if paused.get(table, now) > now:
        return
    try:
        compact()
    except _FILES_UNREADABLE as error:
        paused[table] = now + _PAUSE
        follower.report(f"Warning: {table} is not compacted for an hour: {error}")
    except BackfillError as error:
        follower.report(f"{table} is not compacted now: {error.message}")
