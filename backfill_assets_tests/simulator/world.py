"""One lakehouse and all who work on it: their lives, what they were answered, and the judges of every step."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from random import Random

import pytest
from deltalake.exceptions import DeltaError

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import Publication
from backfill_assets.publish import compact
from backfill_assets.publish.crash_points import CrashPoint, Reached, nowhere
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.outbox import due_notices
from backfill_assets.publish.publisher import Conflict, Published, Publisher
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.upkeep.reclaim import finish_reclaiming
from backfill_assets_tests.simulator import chain
from backfill_assets_tests.simulator.clock import SimulatedClock
from backfill_assets_tests.simulator.delta import in_memory
from backfill_assets_tests.simulator.history import History, Key, Operation
from backfill_assets_tests.simulator.judges.healing import HealingJudge
from backfill_assets_tests.simulator.judges.log import LogJudge
from backfill_assets_tests.simulator.judges.reports import ReportJudge
from backfill_assets_tests.simulator.judges.sources import judge_positions
from backfill_assets_tests.simulator.judges.tables import TableJudge
from backfill_assets_tests.simulator.model import NOTHING, Names, RowsOfTables, Wish, Wishes
from backfill_assets_tests.simulator.orchestrator import Orchestrator
from backfill_assets_tests.simulator.process import Process, no_lock_is_held
from backfill_assets_tests.simulator.recorder import Recorder
from backfill_assets_tests.simulator.schedule import Turn
from backfill_assets_tests.simulator.staging import DAYS, rewritten, rows_at
from backfill_assets_tests.simulator.store import LAKES, Died, Fault, Files, SimulatedStorage

TABLES = ("fact", "raw", "raw_more", "report")
"""Those that are published to directly; the tables of the chain are built."""
RAW = ("raw", "raw_more")
CHAIN = tuple(chain.STEP_OF)
_DAYS_OF = dict.fromkeys(TABLES, DAYS) | {step.name: tuple(step.cadence.starts(chain.DAYS)) for step in chain.STEPS}
RETENTION_DAYS = 1
REPAIRING = ("daemon", "rest")
"""Who publishes what nobody asked for."""
_NEVER, _NEWEST = 10_000, 6
_ROOTS = itertools.count(1)
Deed = Callable[["Life"], object]
"""What an actor does again and again, each time with other draws."""


class WithoutEnd(AssertionError):
    """Somebody works on and on; no history comes after it, also where nobody asserts anything."""


class Watched(Publisher):
    """Tells the world what is asked for and answered, whoever in the package publishes."""

    life: Life

    def publish(self, publication: Publication) -> Published | Conflict:
        world = self.life.world
        world.asks(self.life, publication, world.rows_of(publication), world.read_by(publication))
        try:
            result = super().publish(publication)
        except BackfillError as error:
            world.told_of(self.life, error)
            raise
        world.told(self.life, publication.id, result)
        return result


@dataclass
class Life:
    """One process of an actor: it begins with nothing in memory but its name, and ends when it dies."""

    world: World
    name: str
    number: int
    deeds: int = 0
    draw: Random = field(default_factory=Random)
    process: Process = field(init=False)

    @property
    def id(self) -> str:
        return f"{self.name}/{self.number}"

    @property
    def storage(self) -> SimulatedStorage:
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
        if self.process.step(str(step)) == "dies in the middle":
            raise Died
        self.world.record.step()
        self.world.tally[str(step)] += 1

    def new_id(self, prefix: str) -> str:
        """The same whoever else works."""
        return f"{prefix}-{self.name}-{self.number}-{self.deeds}-{self.world.count(self.name)}"


class World:
    """Files, a clock, actors and judges. ``actors`` have what each name does."""

    def __init__(self, seed: int, actors: Mapping[str, Deed]) -> None:
        self.seed = seed
        self.actors = actors
        self.held = Files(at=self._at)
        self.storage = SimulatedStorage(f"/simulated/{next(_ROOTS)}")
        LAKES[self.storage.root] = self.held
        self.clock = SimulatedClock(str(seed), self._at)
        self.held.now_ms = self.clock.milliseconds
        self.record = Recorder()
        self.tally = Counter[str]()
        self.wishes: dict[str, Wishes] = {}
        self.requests: list[Publication] = []
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
        self.tables = {table: TableJudge(self.held, table, self.wishes) for table in (*TABLES, *CHAIN)}
        self.reports = ReportJudge(self.tables)
        self.log = LogJudge(self.held, self.wishes, self.tables, self._closed)
        self.orchestrator = Orchestrator.of(seed)
        self.healing = HealingJudge(self.tables, self.log, self.wishes, self.orchestrator, self._asked_for)
        self._lives: dict[str, Life] = {}
        self._numbers = Counter[str]()
        self._running: Process | None = None

    @contextmanager
    def begun(self) -> Iterator[World]:
        """Its clock and its tables are those of the package while the block runs."""
        said = logging.getLogger("backfill_assets.lakehouse")
        before = said.level
        said.setLevel(logging.ERROR)
        try:
            with in_memory(), no_lock_is_held(), clock.use(self.clock), pytest.MonkeyPatch.context() as patch:
                chain.computed_in_memory(patch)
                patch.setattr(compact, "_rewrite", rewritten)
                yield self
        finally:
            said.setLevel(before)
            for life in self._lives.values():
                life.process.take(Turn(life.name, 0, "dies"))
            del LAKES[self.storage.root]

    def begin_as(self, other: World) -> None:
        """With the past of another one, which has ended."""
        self.held.begin_as(other.held)
        self.wishes.update(other.wishes)
        self.done |= other.done
        self.noticed |= other.noticed
        self.clock.moment = other.clock.moment
        self.record = Recorder(other.record.steps, list(other.record.operations))
        self._numbers = Counter(other._numbers)
        self.follow()

    def _closed(self, publication: str, versions: Mapping[TableDay, str | None], shown: Mapping[str, int]) -> None:
        self.reports.closed(publication, versions, shown)
        self.healing.closed(publication, versions)

    def _asked_for(self, publication: str) -> Publication | None:
        return next((each for each in reversed(self.requests) if each.id == publication), None)

    def count(self, what: str) -> int:
        self._numbers[what] += 1
        return self._numbers[what]

    # ------------------------------------------------------------------ lives

    def _at(self, call: str) -> Fault | None:
        """Before each call and each look at the clock: is it somebody's of this world, and how does it go wrong?"""
        running = self._running
        if running is None or threading.current_thread().name != running.name:
            return None
        fault = running.step(call)
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

    def _born(self, name: str) -> Life:
        life = self._lives[name] = Life(self, name, self.count(f"lives of {name}"))
        life.process = Process(f"{self.storage.root} {life.id}", partial(self._live, life))
        return life

    def _live(self, life: Life) -> None:
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
                life.process.rest()  # It found nothing to do, and would look again and again.

    def told_of(self, life: Life, error: BackfillError) -> None:
        """A refusal is an answer: it leaves nothing behind, which the judges see. After a fault it may be none."""
        asked = self.record.asked_for(life.id)
        self.tally[type(error).__name__] += 1
        if asked is not None and not life.process.struck:
            self.refused.add(asked)
        self.record.told(life.id, "unknown" if life.process.struck else "refused")

    def _buried(self, life: Life) -> None:
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
        tables = {}
        for change in publication.tables:
            tables[change.table] = Wish(
                mode=change.mode,
                rows={day.day: rows[change.table][day.day] for day in change.days},
                files={day.day: frozenset(add.path for add in day.adds) for day in change.days},
                expected={} if change.mode == "append" else {d.day: frozenset(d.expected.files) for d in change.days},
                positions={p.id: (p.before or 0, p.after) for p in change.positions},
            )
        exact = any(read.exact for read in publication.inputs)
        switches = {step: (switch.former, switch.version) for step, switch in publication.switches.items()}
        self.requests.append(publication)
        if publication.notice is not None:
            self.noticed.add(publication.id)
        wishes = Wishes(
            publication.kind, tables, inputs=inputs or {}, exact=exact, switches=switches, looked_at=looked_at or {}
        )
        days = {table: wish.rows for table, wish in tables.items()}
        self.intends(life, publication.id, wishes, days, self._decided_on(publication))

    def _decided_on(self, publication: Publication) -> dict[Key, str]:
        """The publication that each of its days showed when it was staged, which compare-and-swap has to find there.

        A day without files is left out: who knows nothing of publications may fill and empty it, and nobody can tell.
        """
        self.follow()
        found: dict[Key, str] = {}
        for change in (each for each in publication.tables if each.mode == "replace"):
            for day in change.days:
                was, files = day.expected.publication, frozenset(day.expected.files)
                seen = (days.get(day.day, NOTHING) for days in self.tables[change.table].days)
                if files and any(image.files == files and image.value == was for image in seen):
                    found[change.table, str(day.day)] = was
        return found

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

    def saw(
        self, life: Life, position: int, versions: Mapping[str, int], values: Mapping[TableDay, str]
    ) -> dict[Key, str | None]:
        """A pinned reader has the log at ``position``: the map and the days that it found are those of the model."""
        self.follow()
        shown, pinned = self.log.shown_at(position)
        assert dict(versions) == dict(pinned), f"{life.id} pins {versions}, at {position} of the log it is {pinned}"
        assert dict(values) == dict(shown), f"{life.id} sees {values} at {position} of the log, shown is {shown}"
        return {
            (table, str(day)): judge.at(versions[table], day).value if table in versions else None
            for table, judge in self.tables.items()
            for day in _DAYS_OF[table]
        }

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
        return [each for each in self.requests if each.id not in self.refused | asked][-_NEWEST:]

    def published_so_far(self, tables: Collection[str] = TABLES) -> list[str]:
        """The publications of ``tables`` alone that are done, in their order."""
        self.follow()
        done = [publication for publication, outcome in self.log.outcomes.items() if outcome == "done"]
        return [each for each in done if self.wishes[each].tables.keys() <= set(tables)]

    def history(self) -> History:
        """What was asked and answered; what each publication replaced, as far as it came, is read from its commits."""
        told = self.record.history()
        return History(tuple(replace(each, replaced={**each.replaced, **self._before(each)}) for each in told))

    def _before(self, each: Operation) -> dict[Key, str | None]:
        commits = [(name, judge.commits.get(each.publication or "")) for name, judge in self.tables.items()]
        return {
            (table, str(day)): image.value
            for table, commit in commits
            for day, image in (commit.before if commit else {}).items()
        }

    # ------------------------------------------------------------------ judgement

    def follow(self) -> bool:
        """Look at all that was committed since the last time; whether there was anything."""
        moved = [table for table in self.tables.values() if table.follow()]
        for table in moved:
            assert not table.missing_files(table.version), f"{table.table}: files are missing"
            if table.table in RAW:
                judge_positions(table)
        before = self.log.version
        self.log.follow()
        if has_moved := bool(moved) or self.log.version > before:
            self.healing.moved()
        return has_moved

    def judge(self) -> None:
        """Every promise, at this very moment, while actors are in the middle of anything."""
        if not self.follow():
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
        publisher = Publisher(self.storage, retention_days=RETENTION_DAYS)
        publisher.recover()
        finish_reclaiming(publisher)
        self.judge()
        assert not self.log.open, f"{self.log.open} are left open"
        if come_to_rest is not None:
            come_to_rest(self)
        self._all_from_raw()
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
        publisher = Life(self, "end", 1).watched(nowhere)
        for step in chain.COMPUTED if self.reports.version_of else ():
            days = step.cadence.starts(sorted(self.reports.landed))
            Builder(chain.lake_of(publisher)).build(step, days, run=chain.RUN, version=AS_PUBLISHED)
            self.follow()
        self.reports.all_from_raw(self.log.map)

    def alive(self) -> Sequence[str]:
        return list(self.actors)
