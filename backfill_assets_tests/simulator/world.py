"""One lakehouse and all who work on it: their lives, what they were answered, and the judges of every step."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from deltalake.exceptions import DeltaError

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError, CommitRefused
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish import compact
from backfill_assets.publish.crash_points import CrashPoint, Reached, nowhere
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.log import LOG_TABLE
from backfill_assets.publish.outbox import due_notices
from backfill_assets.publish.publisher import NO_READERS, Conflict, Published, Publisher, Readers
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.lake import Lake
from backfill_assets.settings import ApprovalRule
from backfill_assets.upkeep.reclaim import finish_reclaiming
from backfill_assets_tests.death import Died
from backfill_assets_tests.simulator import chain
from backfill_assets_tests.simulator.clock import SimulatedClock
from backfill_assets_tests.simulator.compared import compared_in_memory
from backfill_assets_tests.simulator.delta import in_memory
from backfill_assets_tests.simulator.history import History, Key, Operation
from backfill_assets_tests.simulator.judges.agreement import AgreementJudge
from backfill_assets_tests.simulator.judges.approvals import ApprovalJudge
from backfill_assets_tests.simulator.judges.healing import HealingJudge
from backfill_assets_tests.simulator.judges.leases import LeaseJudge
from backfill_assets_tests.simulator.judges.log import LogJudge
from backfill_assets_tests.simulator.judges.reports import ReportJudge
from backfill_assets_tests.simulator.judges.sources import judge_positions
from backfill_assets_tests.simulator.judges.tables import Held, TableJudge
from backfill_assets_tests.simulator.judges.timeline_names import NameJudge
from backfill_assets_tests.simulator.judges.timelines import TimelineJudge
from backfill_assets_tests.simulator.model import Names, Rows, RowsOfTables, Wish, Wishes
from backfill_assets_tests.simulator.orchestrator import Orchestrator
from backfill_assets_tests.simulator.process import Process, no_lock_is_held
from backfill_assets_tests.simulator.recorder import Recorder
from backfill_assets_tests.simulator.schedule import Turn
from backfill_assets_tests.simulator.staging import DAYS, rewritten, rows_at
from backfill_assets_tests.simulator.store import LAKES, Fault, Files, SimulatedStorage
from backfill_assets_tests.simulator.surroundings import Surroundings
from backfill_assets_tests.simulator.told import decided_on, wished, with_replaced

TABLES = ("fact", "raw", "raw_more", "report")
"""Those that are published to directly; the tables of the chain are built."""
RAW = ("raw", "raw_more")
CHAIN = tuple(chain.STEP_OF)
DAYS_OF: Mapping[str, Sequence[date]] = dict.fromkeys(TABLES, DAYS) | {
    step.name: tuple(step.cadence.starts(chain.DAYS)) for step in chain.STEPS
}
RETENTION_DAYS = 1
REPAIRING = ("daemon", "rest")
"""Who publishes what nobody asked for."""
_TRIMS = f"delete {LOG_TABLE}/_delta_log/"
_NEVER, _NEWEST = 10_000, 6
_HOLDS_NOTHING = ("begins", "pinned", "staged")
_RULES = (ApprovalRule.ANYONE, ApprovalRule.ANOTHER_PERSON)
_ROOTS = itertools.count(1)
Deed = Callable[[Any], object]
"""What an actor does again and again, each time with other draws; some live in the simulated world alone."""


class WithoutEnd(AssertionError):
    """Somebody works on and on; no history comes after it, also where nobody asserts anything."""


class Watched(Publisher):
    """Tells the world what is asked for and answered, whoever in the package publishes."""

    life: Life

    def publish(self, publication: Publication, readers: Readers = NO_READERS) -> Published | Conflict:
        world = self.life.world

        def completed(request: Publication) -> Publication:
            world.completes(self.life, found := readers.completed(request))
            return found

        world.asks(self.life, publication, world.rows_of(publication), world.read_by(publication))
        try:
            result = super().publish(publication, replace(readers, completed=completed))
        except BackfillError as error:
            world.told_of(self.life, error)
            raise
        world.told(self.life, publication.id, result)
        return result


@dataclass
class Life:
    """One process of an actor: it begins with nothing in memory but its name, and ends when it dies."""

    world: Surroundings
    name: str
    number: int
    deeds: int = 0
    draw: Random = field(default_factory=Random)

    @property
    def id(self) -> str:
        return f"{self.name}/{self.number}"

    @property
    def storage(self) -> Storage:
        return self.world.storage

    def publisher(self) -> Publisher:
        return Publisher(self.storage, retention_days=RETENTION_DAYS, reached=self.reached)

    def watched(self, reached: Reached | None = None) -> Watched:
        """For those who do not publish themselves."""
        found = Watched(self.storage, retention_days=RETENTION_DAYS, reached=reached or self.reached)
        found.life = self
        return found

    def reached(self, step: CrashPoint | str, about: str = "") -> None:
        """A place in the code at which somebody else may go on, or this one dies."""
        self.world.reached(self, str(step))

    def rest(self) -> None:
        """It found nothing to do at the moment."""
        self.world.rest(self)

    def lake(self, reached: Reached | None = None) -> Lake:
        """For all that the package computes itself."""
        return self.world.chain.lake_of(self.watched(reached))

    def new_id(self, prefix: str) -> str:
        """The same whoever else works."""
        return f"{prefix}-{self.name}-{self.number}-{self.deeds}-{self.world.count(self.name)}"


@dataclass
class PlayedLife(Life):
    """A life in the simulated world, which goes on when it has the baton."""

    world: World
    process: Process = field(init=False)


class World:
    """Files, a clock, actors and judges. ``actors`` have what each name does, on the tables of ``computed``."""

    def __init__(self, seed: int, actors: Mapping[str, Deed], computed: chain.Chain = chain.CHAIN) -> None:
        self.seed = seed
        self.actors = actors
        self.chain = computed
        self.days_of = dict.fromkeys(TABLES, DAYS) | {
            each.name: tuple(computed.starts(each)) for each in computed.steps
        }
        self.clock = SimulatedClock(str(seed), self._at)
        self.held: Held
        self.storage: Storage
        self.held, self.storage = self.lakehouse()
        self.record = Recorder()
        self.tally = Counter[str]()
        self.wishes: dict[str, Wishes] = {}
        self.optimised = set[str]()
        """Files that an engine has written and its commit does not name yet."""
        self.requests: dict[str, Publication] = {}
        self.asked_after_a_fault: set[str] = set()
        """A table that could not be read when it was asked is not named as one that becomes stale."""
        self.done: set[str] = set()
        self.refused: set[str] = set()
        self.noticed: set[str] = set()
        self.heard: list[str] = []
        self.closing = False
        self.planned_with: dict[str, frozenset[str]] = {}
        """The files that each open plan was made from."""
        self.cleaned: set[str] = set()
        """Tables of which an engine has deleted old versions."""
        self.columns = dict.fromkeys(TABLES, 0)
        """Columns that a table has gained, of those who stage from now on."""
        self.put_right: dict[str, Callable[[], None]] = {}
        """What was done to tables that is taken back before the end, when nobody works any more."""
        self.tables = {table: TableJudge(self.held, table, self.wishes) for table in self.days_of}
        self.reports = ReportJudge(self.tables, computed)
        self.agreement = AgreementJudge(self.tables, computed)
        self.approvals = ApprovalJudge(self.tables, Random(f"rule {seed}").choice(_RULES), self.tally)
        self.log = LogJudge(self.held, self.wishes, self.tables, self._closed)
        self.timelines = TimelineJudge(self.storage, self.held, self.tables, self.log, lambda: self.clock.moment)
        self.names, self.leases = NameJudge(self.held), LeaseJudge()
        self.orchestrator = Orchestrator.of(seed)
        self.healing = HealingJudge(self.tables, self.log, self.wishes, self.orchestrator, self._asked_for)
        self._lives: dict[str, PlayedLife] = {}
        self._seen: dict[str, dict[Key, str | None]] = {}
        """What each life has read so far, of what it is reading."""
        self._numbers = Counter[str]()
        self._running: Process | None = None
        self._followed: object = None

    def lakehouse(self) -> tuple[Held, Storage]:
        """Its files, and the storage by which processes reach them."""
        held, storage = (
            Files(at=self._at, now_ms=self.clock.milliseconds),
            SimulatedStorage(f"/simulated/{next(_ROOTS)}"),
        )
        LAKES[storage.root] = held
        return held, storage

    @property
    def files(self) -> Files:
        """Those in memory; on a disk there are none."""
        assert isinstance(self.held, Files)
        return self.held

    def tables_of_delta(self) -> AbstractContextManager[None]:
        """While it is entered, the package opens these, and commits to them."""
        return in_memory()

    @contextmanager
    def begun(self) -> Iterator[World]:
        """Its clock and its tables are those of the package while the block runs."""
        said = logging.getLogger("backfill_assets.lakehouse")
        before = said.level
        said.setLevel(logging.ERROR)
        try:
            with (
                self.tables_of_delta(),
                no_lock_is_held(),
                clock.use(self.clock),
                pytest.MonkeyPatch.context() as patch,
            ):
                chain.computed_in_memory(patch)
                compared_in_memory(patch)
                patch.setattr(compact, "_rewrite", rewritten)
                yield self
        finally:
            said.setLevel(before)
            for life in self._lives.values():
                life.process.take(Turn(life.name, 0, "dies"))
            LAKES.pop(self.storage.root, None)

    def begin_as(self, other: World) -> None:
        """With the past of another one, which has ended."""
        self.files.begin_as(other.files)
        self.wishes.update(other.wishes)
        self.requests.update(other.requests)
        self.approvals.begin_as(other.approvals)
        self.done |= other.done
        self.noticed |= other.noticed
        self.heard += other.heard
        self.clock.moment = other.clock.moment
        self.record = Recorder(other.record.steps, list(other.record.operations))
        self._numbers = Counter(other._numbers)
        self.follow()
        self.timelines.follow()

    def _asked_for(self, publication: str) -> Publication | None:
        return self.requests.get(publication)

    def count(self, what: str) -> int:
        self._numbers[what] += 1
        return self._numbers[what]

    # ------------------------------------------------------------------ lives

    def _at(self, call: str) -> Fault | None:
        """Before each call and each look at the clock: is it somebody's of this world, and how does it go wrong?"""
        if (running := self.running) is None:
            return None
        fault = running.step(call)
        if call.startswith(_TRIMS):  # The judges look before what they have not seen yet is gone.
            self.follow()
        self.record.step()
        if fault is not None:
            self.tally[fault] += 1
        return fault

    def take(self, turn: Turn) -> None:
        """Let an actor go on; one that has died comes again as a new process."""
        life = self._lives.get(turn.actor)
        if life is None or life.process.finished:
            life = self._born(turn.actor)
        self._running = life.process
        try:
            life.process.take(turn)
        finally:
            self._running = None
        if life.process.finished:
            self._buried(life)

    @property
    def running(self) -> Process | None:
        """The process whose call this is; None for what the world does by itself."""
        running = self._running
        return running if running is not None and threading.current_thread().name == running.name else None

    def has_ended(self, name: str) -> bool:
        """Is the process of an actor that began over, or dead? Its next turn is that of a new one."""
        return name in self._lives and self._lives[name].process.finished

    def _born(self, name: str) -> PlayedLife:
        life = self._lives[name] = PlayedLife(self, name, self.count(f"lives of {name}"))
        life.process = Process(f"{self.storage.root} {life.id}", partial(self._live, life))
        return life

    def reached(self, life: Life, step: str) -> None:
        if isinstance(life, PlayedLife) and life.process.step(step) == "dies in the middle":
            raise Died
        self.record.step()
        self.tally[step] += 1

    def rest(self, life: Life) -> None:
        if isinstance(life, PlayedLife):
            life.process.rest()

    def _live(self, life: PlayedLife) -> None:
        deed = self.actors[life.name]
        while not self.closing:
            life.deeds += 1
            life.draw = Random(f"{self.seed} {life.id} {life.deeds}")
            life.reached("begins")
            passed, began = life.process.passed, self.clock.moment
            try:
                deed(life)
            except BackfillError as error:
                self.told_of(life, error)
            except (OSError, DeltaError):
                slept = self.clock.moment - began > timedelta(days=RETENTION_DAYS)
                if not life.process.struck and not slept and not any(judge.lost for judge in self.tables.values()):
                    raise
                return  # it met a storage that fails or has lost files, or what it had staged was old enough to go
            if life.process.passed == passed:
                life.rest()  # It found nothing to do, and would look again and again.

    def _is_struck(self, life: Life) -> bool:
        """Has a fault met it?"""
        known = self._lives.get(life.name)
        return known is not None and known is life and known.process.struck

    def told_of(self, life: Life, error: BackfillError) -> None:
        """A refusal is an answer: it leaves nothing behind, which the judges see. After a fault it may be none.

        Neither is what a table cannot take: its publication is under way until that is put right, or given up.
        """
        asked = self.record.asked_for(life.id)
        self.tally[type(error).__name__] += 1
        open_still = self._is_struck(life) or isinstance(error, CommitRefused)
        if asked is not None and not open_still:
            self.refused.add(asked)
        self._seen.pop(life.id, None)
        self.record.told(life.id, "unknown" if open_still else "refused")

    def _buried(self, life: PlayedLife) -> None:
        self.record.told(life.id, "unknown")
        if life.process.error is not None:
            raise life.process.error
        if life.process.died_at:
            self.tally[f"died at {life.process.died_at.partition(' /')[0]}"] += 1
            self.tally["deaths"] += 1

    # ------------------------------------------------------------------ what is asked and answered

    def asks(
        self,
        life: Life,
        publication: Publication,
        rows: RowsOfTables,
        inputs: RowsOfTables | None = None,
        looked_at: Mapping[str, int] | None = None,
    ) -> None:
        """A process is about to publish: what it would mean, were it done."""
        wishes = wished(publication, rows, inputs, looked_at)
        self.approvals.covers(publication, rows)
        self.completes(life, publication)
        if self._is_struck(life):
            self.asked_after_a_fault.add(publication.id)
        days = {table: wish.rows for table, wish in wishes.tables.items()}
        self.intends(life, publication.id, wishes, days, self._decided_on(publication))

    def completes(self, life: Life, publication: Publication) -> None:
        self.requests[publication.id] = publication
        if publication.notice is not None:
            self.noticed.add(publication.id)

    def _decided_on(self, publication: Publication) -> dict[Key, str]:
        self.follow()
        return decided_on(self.tables, publication)

    def rows_of(self, publication: Publication) -> RowsOfTables:
        """The rows that a publication brings, by the files that it names."""
        return {
            change.table: {day.day: self._names_in(change.table, day.adds) for day in change.days}
            for change in publication.tables
        }

    def _names_in(self, table: str, files: Iterable[AddedFile]) -> Names:
        """A file that is gone has none: such a publication is refused."""
        found = [self.held.contents.get(f"{table}/{file.path}") for file in files]
        return tuple(name for rows in found if rows is not None for name in rows.column("name").to_pylist())

    def read_by(self, publication: Publication) -> RowsOfTables:
        """What it was made of, as its inputs were at their versions."""
        self.follow()
        found: dict[str, dict[date, Names]] = {}
        for read in publication.inputs:
            days = found.setdefault(read.table, {})
            for day in read.days:
                rows = self.tables[read.table].at(read.version, day).rows if read.version is not None else Counter()
                days[day] = tuple(rows.elements())
        return found

    def intends(
        self,
        life: Life,
        id: str,
        wishes: Wishes,
        days: Mapping[str, Iterable[date]],
        decided_on: Mapping[Key, str] | None = None,
    ) -> None:
        self.wishes[id] = wishes
        if life.name.startswith(REPAIRING):
            self.healing.repairs.add(id)
        written = [(table, str(day)) for table, listed in days.items() for day in listed]
        self.record.asks(life.id, "publish", id, writes=dict.fromkeys(written, id), reads=decided_on)

    def told(self, life: Life, id: str, result: Published | Conflict | None) -> None:
        """What the caller was answered must be so: done is done for good, and refused had no effect."""
        if isinstance(result, Published):
            self.done.add(id)
            self.follow()
            self.record.told(life.id, "ok", position=self.log.closed_at.get(id))
            self.tally["published"] += 1
        else:
            if result is not None:
                self.refused.add(id)
            self.record.told(life.id, "refused")
            self.tally["refused"] += 1

    def told_again(self, publication: Publication, result: Published | Conflict) -> None:
        (self.done if isinstance(result, Published) else self.refused).add(publication.id)

    def wrote(self, life: Life, table: str, version: int, day: date) -> None:
        self.follow()
        before = self.tables[table].at(version, day).value
        self.record.told(life.id, "ok", replaced={(table, str(day)): before})

    def pins(self, life: Life, position: int, versions: Mapping[str, int], values: Mapping[TableDay, str]) -> None:
        """The map and the days that it found are those of the model."""
        self.follow()
        shown, pinned = self.log.shown_at(position)
        assert dict(versions) == dict(pinned), f"{life.id} pins {versions}, at {position} of the log it is {pinned}"
        assert dict(values) == dict(shown), f"{life.id} sees {values} at {position} of the log, shown is {shown}"
        self._seen[life.id] = {
            key: value for table in self.tables for key, value in self._values(table, versions.get(table))
        }

    def sees(self, life: Life, table: str, version: int | None, rows: Mapping[date, Rows]) -> None:
        """They are those of the model."""
        if version is not None and version > self.tables[table].version:
            self.follow()
        images = self.tables[table].days[version] if version is not None else {}
        wanted = {day: image.rows for day, image in images.items() if image.rows}
        assert {day: each for day, each in rows.items() if each} == wanted, f"{life.id}: {table} reads {rows}"
        self._seen.setdefault(life.id, {}).update(self._values(table, version))

    def has_read(self, life: Life, position: int | None = None) -> None:
        self.record.told(life.id, "ok", reads=self._seen.pop(life.id, {}), position=position)

    def _values(self, table: str, version: int | None) -> Iterator[tuple[Key, str | None]]:
        for day in self.days_of[table]:
            yield (table, str(day)), None if version is None else self.tables[table].at(version, day).value

    def was_taken_away(self, table: str) -> bool:
        return bool(self.tables[table].lost) or table in self.cleaned

    def is_lost(self, path: str) -> bool:
        return path in self.tables[path.partition("/")[0]].lost

    def has_several_files(self, table: str, day: date) -> bool:
        self.follow()
        judge = self.tables[table]
        return judge.version >= 0 and len(judge.at(judge.version, day).files) > 1

    def send(self, due: DueNotice) -> None:
        """The world receives notices itself: what was said cannot be unsaid by an actor that dies next."""
        if due.with_publication:
            self.heard.append(due.key)

    def unanswered(self) -> list[Publication]:
        """The newest publications of which nobody who lives waits for an answer, and none was refused."""
        asked = {self.record.asked_for(life.id) for life in self._lives.values() if not life.process.finished}
        return [each for id, each in self.requests.items() if id not in self.refused | asked][-_NEWEST:]

    def published_so_far(self, tables: Collection[str] = TABLES) -> list[str]:
        """The publications of ``tables`` alone that are done, in their order."""
        self.follow()
        done = [publication for publication, outcome in self.log.outcomes.items() if outcome == "done"]
        return [each for each in done if self.wishes[each].tables.keys() <= set(tables)]

    def undoing(self, publication: str) -> tuple[Wishes, Mapping[str, Sequence[date]]]:
        wanted = self.wishes[publication].tables
        positions = {table: {s: (b, a) for s, (a, b) in wish.positions.items()} for table, wish in wanted.items()}
        tables = {table: Wish("replace", {}, {}, positions=positions[table]) for table in wanted}
        days = {table: list(self.tables[table].commits[publication].after) for table in wanted}
        return Wishes("rollback", tables, undoes=publication), days

    def under_way(self) -> list[str]:
        self.follow()
        return sorted(self.log.open)

    def landed(self) -> Mapping[date, Sequence[str]]:
        return self.reports.landed

    def history(self) -> History:
        """What was asked and answered; what each publication replaced, as far as it came, is read from its commits."""
        told = map(self._as_left, self.record.history())
        return History(tuple(with_replaced(each, self.tables) for each in told))

    def _as_left(self, each: Operation) -> Operation:
        """What was given up and stays in some of its tables is in those what someone wrote past the protocol."""
        if (tables := self.log.left.get(each.publication or "")) is None:
            return each
        writes = {key: value for key, value in each.writes.items() if key[0] in tables}
        return replace(each, writes=writes, outcome="unknown", end=None, publication=None, pinned=False)

    # ------------------------------------------------------------------ judgement

    def _closed(self, id: str, versions: Mapping[TableDay, str | None], shown: Mapping[str, int]) -> None:
        self.reports.closed(id, versions, shown)
        if id in self.requests and id not in self.asked_after_a_fault:
            self.agreement.closed(self.requests[id], versions, shown)
        self.healing.closed(id, versions)

    def follow(self) -> bool:
        """Look at all that was committed since the last time; whether there was anything."""
        if self._state() == self._followed:
            return False
        moved = [table for table in self.tables.values() if table.follow()]
        for table in moved:
            assert not table.missing_files(table.version), f"{table.table}: files are missing"
            if table.table in RAW:
                judge_positions(table)
        before = self.log.version
        self.log.follow()
        if has_moved := bool(moved) or self.log.version > before:
            self.healing.moved()
        self._followed = self._state()
        return has_moved

    def _state(self) -> object:
        """What has come about, and how much of it was looked at."""
        return self.held.changes, [table.version for table in self.tables.values()]

    def judge(self) -> None:
        """Every promise, at this very moment, while actors are in the middle of anything."""
        moved = self.follow()
        self.names.follow()
        self.timelines.follow()
        if not moved:
            return
        for publication in self.done:
            assert self.log.outcomes.get(publication) == "done", f"{publication} was acknowledged, and is not done"
        for publication in self.refused:
            assert publication not in self.log.open, f"{publication} was refused, and is under way"
            assert self.log.outcomes.get(publication) != "done", f"{publication} was refused, and is done"
        for publication in self.heard:
            assert self.log.outcomes.get(publication) == "done", f"{publication} was announced, and is not done"

    def close(self, come_to_rest: Callable[[World], object] | None = None) -> None:
        """Everybody ends what they have begun; then a new process recovers, and nothing is left half done.

        After it, what runs by itself has its time to ``come_to_rest``.
        """
        self.closing = True
        for name in sorted(self._lives):
            if not self._lives[name].process.finished:
                self.take(Turn(name, _NEVER))
                if not self._lives[name].process.finished:
                    raise WithoutEnd(f"{name} goes on without end: {self._lives[name].process.at}")
                self.judge()
        for take_back in self.put_right.values():
            take_back()
        publisher = Publisher(self.storage, retention_days=RETENTION_DAYS)
        publisher.recover()
        finish_reclaiming(publisher)
        self.judge()
        assert not self.log.open, f"{self.log.open} are left open"
        self.timelines.end()
        if come_to_rest is not None:
            come_to_rest(self)
        self._all_from_raw()
        self.names.check_answers(self.storage, self.clock.now())
        deliver(publisher, self)
        assert set(self.heard) == {id for id in self.noticed if self.log.outcomes.get(id) == "done"}, "notices"
        assert not due_notices(publisher), "everything was sent, and is due again"
        self.log.check_states(publisher.log.day_states(publisher.log.head()))
        for table, judge in self.tables.items():
            if judge.version >= 0:
                found = {day: rows for day, rows in rows_at(self.storage, table, judge.version).items() if rows}
                wanted = {day: image.rows for day, image in judge.days[-1].items() if image.rows}
                assert found == wanted, f"{table} reads {found}, committed was {wanted}"

    def _all_from_raw(self) -> None:
        """Built once more, everything is what raw alone makes of it."""
        lake = Life(self, "end", 1).lake(nowhere)
        for step in self.chain.computed if self.reports.version_of else ():
            days = self.chain.starts(step, self.reports.landed)
            Builder(lake).build(step, days, run=chain.RUN, version=AS_PUBLISHED)
            self.follow()
        self.reports.all_from_raw(self.log.map)

    def all_rest_but(self, life: Life) -> bool:
        """Whether all others are dead, or have not begun to publish what they stand before."""
        others = (each.process for each in self._lives.values() if each is not life)
        return all(process.finished or process.at in _HOLDS_NOTHING for process in others)

    def at(self, name: str) -> str:
        """What an actor stands before."""
        return self._lives[name].process.at

    def alive(self) -> Sequence[str]:
        return list(self.actors)


def simulated(life: Life) -> World | None:
    """The simulated world, whose judges look at each step; None among real processes, which are judged afterwards."""
    return life.world if isinstance(life.world, World) else None
