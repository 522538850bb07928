"""The processes of a storm: each does its deed again and again until the time is over, or until it is killed.

Their clock is :data:`FASTER` than the real one, so that windows close and files are reclaimed meanwhile.
"""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.clock import MachineClock
from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.delta_log import RemovedFile
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    TimelineBase,
    create_timeline,
    delete_timeline,
    kept_timelines,
    new_timeline_id,
    rename_timeline,
)
from backfill_assets.lakehouse.records import Kind, Mode, Position, Publication, Switch
from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets.publish.compact import compact
from backfill_assets.publish.fold import fold, gather, trim
from backfill_assets.publish.log import LOG_TABLE
from backfill_assets.publish.publisher import Conflict, Publisher
from backfill_assets.state.reading import published_versions
from backfill_assets.stream import lease
from backfill_assets.stream.lease import acquire_stream
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.protocol.staging import change, published_rows, rows_table, stage
from backfill_assets_tests.protocol.storm_tally import FOREIGN, OVER, Tally, by_text

FACT, RAW, PAIR = "fact", "raw", ("left", "right")
TABLES = (FACT, RAW, *PAIR)
DAYS = (date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3), date(2017, 3, 4))
FOREIGN_DAY = date(2017, 3, 9)
"""Only the foreign writer writes it."""
SOURCES, STREAMED = ("topic-0", "topic-1"), "topic-2"
"""Appenders read the first ones, and the streams of raw the other: who has the lease."""
FASTER, WINDOW_DAYS = 1800, 1
"""A second of a storm is half an hour; what was replaced is kept for a day."""


@dataclass
class Worker:
    """One process: ``name`` is used by no other, also not by the one that follows it when it is killed."""

    storage: Storage
    tally: Tally
    role: str
    name: str
    until: float
    """Platform maintenance also works on the publication log itself."""
    pace: float = 1.0
    """Those who would starve the others take breaks so many times as long: a slow store."""
    number: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.name)
        self.publisher = Publisher(self.storage, retention_days=WINDOW_DAYS)

    def new_id(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-{self.name}-{self.number}"

    def some_days(self) -> list[date]:
        return sorted(self.random.sample(DAYS, self.random.randint(1, 2)))

    def write(self, what: str, **told: object) -> None:
        self.tally.write(what, role=self.role, **told)

    def run(self) -> None:
        """A refusal is an answer. Anything else that is raised is a finding."""
        deed = DEEDS[self.role]
        over = self.tally.file.with_name(OVER)
        while time.time() < self.until and not over.exists():
            try:
                deed(self)
            except BackfillError as error:
                self.write("refused", why=str(error)[:300])
            except Exception:
                self.write("failed", why=traceback.format_exc()[-1500:])
                return
            time.sleep(self.random.random() / 20)


@dataclass(frozen=True)
class StormClock(MachineClock):
    """The time in a storm that ``began`` at a moment of the real clock (s since 1970). Who waits waits by that one."""

    began: float

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at(time.time()), UTC)

    def at(self, real: float) -> float:
        return self.began + (real - self.began) * FASTER

    @contextmanager
    def ruling(self) -> Iterator[None]:
        """It answers in this process, which does nothing else: also for files, and for commits that remove some."""
        self._rule_files()
        # A lease lasts by the real clock: a process that was stopped for a second is not taken over.
        setattr(lease, "LEASE_SECONDS", lease.LEASE_SECONDS * FASTER)  # noqa: B010 - as below
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


def run(
    root: str,
    tallies: str,
    role: str,
    name: str,
    began: float,
    until: float,
    pace: float,
    variables: Mapping[str, str],
) -> None:
    """The main function of a process; ``variables`` lead to the store."""
    os.environ.update(variables)
    with StormClock(began).ruling():
        Worker(Storage(root), Tally(Path(tallies) / f"{name}.jsonl"), role, name, until, pace).run()


# ------------------------------------------------------------------ publishers


def publish_one(worker: Worker) -> None:
    _replace(worker, (FACT,), "one")


def publish_two(worker: Worker) -> None:
    _replace(worker, PAIR, "two")


def switch(worker: Worker) -> None:
    """The pair, and with it the version that makes it: readers find both, or neither."""
    version, now = worker.random.choice(("v1", "v2")), worker.publisher.log.head().state.current.get(PAIR[0])
    former = {"former": now.version, "former_by": now.publication} if now else {}
    _replace(worker, PAIR, "two", {PAIR[0]: Switch(version=version, **former)})


def _replace(worker: Worker, tables: tuple[str, ...], kind: str, switches: Mapping[str, Switch] | None = None) -> str:
    id, days = worker.new_id(kind), worker.some_days()
    pin = worker.publisher.pin(dict.fromkeys(tables, days), {})
    rows = {day: [f"{id}/{day}/{n}" for n in range(worker.random.randint(1, 3))] for day in days}
    changes = tuple(change(stage(worker.storage, table, id, rows), rows, pin) for table in tables)
    saw = {table: {str(day): pin.expected[TableDay(table, day)].publication for day in days} for table in tables}
    to = {step: each.version for step, each in (switches or {}).items()}
    worker.write("tried", id=id, rows=dict.fromkeys(tables, by_text(rows)), saw=saw, switches=to)
    _publish(worker, Publication(id=id, kind="replace", tables=changes, switches=dict(switches or {})))
    return id


def append(worker: Worker) -> None:
    """The next offsets of a source; an offset is a row."""
    _append(worker, worker.random.choice(SOURCES))


def stream(worker: Worker) -> None:
    """As long as it has the lease. Its lease lasts by the real clock; one that was stopped finds it taken."""
    held = acquire_stream(worker.storage, RAW, STREAMED)
    with held.renewed():
        for _ in range(worker.random.randint(1, 8)):
            _append(worker, STREAMED)
            held.beat(state="live", batches=held.status.batches + 1)


def _append(worker: Worker, source: str) -> None:
    id = worker.new_id("append")
    main = MainTable.open(worker.storage, RAW)
    begin = (main.transaction(source) if main else None) or 0
    end = begin + worker.random.randint(1, 3)
    rows: dict[date, list[str]] = {}
    for offset in range(begin, end):
        rows.setdefault(DAYS[offset % len(DAYS)], []).append(f"{source}:{offset}")
    position = Position(id=source, before=begin or None, after=end)
    mode: Mode = "append"
    changes = (change(stage(worker.storage, RAW, id, rows), rows, mode=mode, positions=(position,)),)
    worker.write("tried", id=id, source=source, to=end)
    kind: Kind = "append"
    _publish(worker, Publication(id=id, kind=kind, tables=changes), source=source, to=end)


def _publish(worker: Worker, publication: Publication, **told: object) -> None:
    result = worker.publisher.publish(publication)
    worker.write("refused" if isinstance(result, Conflict) else "done", id=publication.id, **told)


def roll_back_one(worker: Worker) -> None:
    """What was just published, or what a day of the pair holds now: sometimes that is an undo itself."""
    if worker.random.random() < 0.5:
        undone = _replace(worker, PAIR, "two")
    else:
        log = worker.publisher.log
        states = log.day_states(log.head(), {PAIR[0]}).values()
        known = sorted(each.publication for each in states if each.publication.startswith(("two-", "undo-")))
        undone = worker.random.choice(known) if known else ""
    if undone:
        id = worker.new_id("undo")
        worker.write("tried", id=id, undoes=undone)
        roll_back(worker.publisher, undone, id=id, steps=())
        worker.write("done", id=id)
    time.sleep(0.1 * worker.pace)


def compact_some(worker: Worker) -> None:
    id, table = worker.new_id("compact"), worker.random.choice(TABLES)
    worker.write("tried", id=id)
    result = compact(worker.publisher, table, DAYS, id=id)
    if result is not None:
        worker.write("refused" if isinstance(result, Conflict) else "done", id=id)
    time.sleep(0.1 * worker.pace)


# ------------------------------------------------------------------ timelines


def name_timelines(worker: Worker) -> None:
    """Several processes have three names between them: no name is ever that of two."""
    now, name = clock.now(), worker.random.choice(("one", "two", "three"))
    kept = kept_timelines(worker.storage, now)
    if len({each.name for each in kept}) < len(kept):
        worker.write("torn", why=f"timelines share a name: {[(each.id, each.name) for each in kept]}")
    chosen = worker.random.choice(kept) if kept and worker.random.random() < 0.6 else None
    if chosen is None:
        base = TimelineBase(versions=published_versions(worker.storage))
        made = NamedTimeline(id=new_timeline_id(now), name=name, made_at=now, changed_at=now, base=base)
        _named(worker, made.id, name, lambda: create_timeline(worker.storage, made))
    elif worker.random.random() < 0.6:
        _named(worker, chosen.id, name, lambda: rename_timeline(worker.storage, chosen, name, now))
    else:
        _named(worker, chosen.id, "", lambda: delete_timeline(worker.storage, chosen, now))


def _named(worker: Worker, id: str, name: str, do: Callable[[], object]) -> None:
    """``name`` is empty for a timeline that is deleted. Each line has its moment, as names pass from one to another."""
    worker.write("naming", id=id, name=name, at=time.time())
    do()
    worker.write("named", id=id, name=name, at=time.time())


# ------------------------------------------------------------------ upkeep


def fold_the_log(worker: Worker) -> None:
    log = worker.publisher.log
    worker.write("maintained", folded=gather(log) + fold(log, clock.now()) + trim(log, clock.now()))
    time.sleep(0.2 * worker.pace)


def reclaim_files(worker: Worker) -> None:
    """What no one needs any more: a rollback within the window finds its files, and a reader all that are published."""
    gone = reclaim(worker.publisher, worker.random.choice(TABLES))
    worker.write("maintained", reclaimed=len(gone))
    time.sleep(0.3 * worker.pace)


# ------------------------------------------------------------------ others


def write_past_the_protocol(worker: Worker) -> None:
    """Rows that stay, and rows on days that publications replace."""
    kept = worker.random.random() < 0.5
    name = f"{FOREIGN}-{'kept' if kept else 'any'}-{worker.new_id('row')}"
    rows = {FOREIGN_DAY if kept else worker.random.choice(DAYS): [name]}
    worker.write("foreign tried", names=[name])
    try:
        uri, options = worker.storage.uri(FACT), dict(worker.storage.options)
        write_deltalake(uri, rows_table(rows), mode="append", storage_options=options)
    except CommitFailedError as error:
        worker.write("foreign refused", why=str(error)[:200])
    else:
        worker.write("foreign done", names=[name])
    time.sleep(0.3 * worker.pace)


def maintain_as_a_platform(worker: Worker) -> None:
    """OPTIMIZE and VACUUM with the engine's own defaults, of any table."""
    table = worker.random.choice((*TABLES, LOG_TABLE))
    handle = DeltaTable(worker.storage.uri(table), storage_options=dict(worker.storage.options))
    try:
        if worker.random.random() < 0.7:
            handle.optimize.compact()
        else:
            handle.vacuum(dry_run=False)
    except DeltaError as error:  # it has lost to a publication
        worker.write("maintenance refused", why=str(error)[:200])
    else:
        worker.write("maintained", table=table)
    time.sleep(0.4 * worker.pace)


def read_pinned(worker: Worker) -> None:
    """Both tables of the pair at one map: the same rows."""
    versions = published_versions(worker.storage)
    left, right = (published_rows(worker.storage, table, versions[table]) for table in PAIR)
    if left == right:
        worker.write("read")
    else:
        worker.write("torn", why=f"versions {dict(versions)}: {left} and {right}"[:1000])


DEEDS: Mapping[str, Callable[[Worker], None]] = {
    "publisher of one": publish_one,
    "publisher of two": publish_two,
    "appender": append,
    "compactor": compact_some,
    "rollbacks": roll_back_one,
    "switcher": switch,
    "stream": stream,
    "names": name_timelines,
    "folder": fold_the_log,
    "reclaimer": reclaim_files,
    "foreign writer": write_past_the_protocol,
    "platform": maintain_as_a_platform,
    "pinned reader": read_pinned,
}
