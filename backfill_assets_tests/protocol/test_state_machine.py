"""Hypothesis plays everybody who may work on a lakehouse, interleaved step by step, dying anywhere.

The real code runs; tables and log are judged after every step against a sequential model in plain Python.
``PROTOCOL_SEED`` and ``PROTOCOL_EXAMPLES`` ask for another or a longer run than the default of `make test-long`, and
`make test` plays the first histories; ``PROTOCOL_SHRINK=1`` looks for the shortest history that fails, which takes
minutes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import date

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from backfill_assets import clock
from backfill_assets.lakehouse.delta_log import newest_version, read_transactions
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Position, Publication
from backfill_assets.publish import fold as log_fold
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Conflict, Publisher
from backfill_assets.state.stream_positions import TopicIds, TopicPositions, begun_id, offset_id, parse_positions
from backfill_assets.stream.sources import OffsetRange, TopicOffsets, new_ranges, planned_ranges, start_of
from backfill_assets_tests.protocol import deeds
from backfill_assets_tests.protocol.actor import HITS, Actor, never_hit, report
from backfill_assets_tests.protocol.deeds import ATTEMPTS, Work, publish, refusable
from backfill_assets_tests.protocol.staging import DAYS, change, published_rows, stage
from backfill_assets_tests.protocol.world import RAW, SALES, TABLES, TOPIC, World, merged, rows_of_offset
from backfill_assets_tests.simulator.judges.tables import SHARED

PARTITIONS = (0, 1)
_RAW, _FACT = "raw", "fact"


def positions_in_log(world: World) -> TopicPositions:
    """How far raw has read the topic, by its Delta log: all that a start knows."""
    version = newest_version(world.storage, _RAW)
    found = {} if version is None else parse_positions(SALES, read_transactions(world.storage, _RAW, version))
    return found.get(TOPIC, TopicPositions(TOPIC))


def stream_life(world: World, batches: int) -> Work:
    """Start where raw ends, read ``batches`` micro-batches of both partitions, and let facts follow each."""

    def work(actor: Actor) -> None:
        publisher = world.publisher(actor.reached)
        ids = TopicIds("cluster", "topic")
        kept = TopicOffsets(dict.fromkeys(PARTITIONS, 0), dict.fromkeys(PARTITIONS, 1_000_000), ids)
        start = start_of(positions_in_log(world), kept, history={})
        if start.new:
            begun = Position(id=begun_id(SALES, TOPIC), before=None, after=1)
            if not _append(world, actor, publisher, (), (begun,)):
                return  # another stream has just begun
        read = dict(start.offsets)
        for number in range(batches):
            end = {partition: offset + 1 + (partition + number) % 2 for partition, offset in read.items()}
            days = _publish_batch(world, actor, publisher, planned_ranges(read, end))
            if days:
                publish(world, {_FACT: days}, _RAW, transaction=SHARED)(actor)
            read = end

    return refusable(work)


def _publish_batch(world: World, actor: Actor, publisher: Publisher, planned: Sequence[OffsetRange]) -> list[date]:
    """The days that gained rows; what another stream has read meanwhile is left out."""
    for _ in range(ATTEMPTS):
        main = MainTable.open(publisher.storage, _RAW)
        ids = {partition: offset_id(SALES, TOPIC, partition) for partition in PARTITIONS}
        known = {partition: (main.transaction(id) if main else None) or 0 for partition, id in ids.items()}
        ranges = new_ranges(planned, known)
        positions = tuple(
            Position(id=ids[each.partition], before=each.first or None, after=each.end) for each in ranges
        )
        if not ranges or _append(world, actor, publisher, ranges, positions):
            offsets = [(ids[each.partition], offset) for each in ranges for offset in range(each.first, each.end)]
            return sorted(merged(rows_of_offset(id, _RAW, offset) for id, offset in offsets))
    return []


def _append(
    world: World,
    actor: Actor,
    publisher: Publisher,
    ranges: Sequence[OffsetRange],
    positions: tuple[Position, ...],
) -> bool:
    """Publish the rows of ``ranges`` with ``positions``; False if others were faster."""
    id = world.name("s")
    offsets = [(each.partition, offset) for each in ranges for offset in range(each.first, each.end)]
    rows = merged(rows_of_offset(offset_id(SALES, TOPIC, partition), _RAW, offset) for partition, offset in offsets)
    rows = rows or {DAYS[0]: ()}
    timeline = stage(world.storage, _RAW, id, rows, world.columns[_RAW])
    actor.reached("staged")
    appended = change(timeline, rows, mode="append", positions=positions)
    wanted = Publication(id=id, kind="append", tables=(appended,), transaction=SHARED)
    world.asked(wanted, {}, {_RAW: rows})
    result = publisher.publish(wanted)
    world.told(id, result)
    return not isinstance(result, Conflict)


SEED = int(os.environ.get("PROTOCOL_SEED", "20170302"))
EXAMPLES = int(os.environ.get("PROTOCOL_EXAMPLES", "60"))
SHRINK = "PROTOCOL_SHRINK" in os.environ
_ANY = st.integers(0, 2**16)
_STEPS = [step.value for step in CrashPoint]
_SOME_DIE = st.sampled_from([False, False, True])


class Lakehouse(RuleBasedStateMachine):
    """Everybody who may work on one lakehouse."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self._at_end = ExitStack()
        self._at_end.callback(self.world.remove)
        self._at_end.enter_context(clock.use(self.world.time))

    # ---------------------------------------------------------------- actors

    def _start(self, work: deeds.Work) -> Actor:
        actor = Actor(f"actor {len(self.world.actors)}", work)
        self.world.actors.append(actor)
        return actor

    def _start_until(self, work: deeds.Work, stop: str, dies: bool) -> None:
        actor = self._start(work)
        actor.advance_to(stop)
        if dies:
            actor.crash()

    def _someone(self, number: int) -> Actor:
        alive = self.world.alive()
        return alive[number % len(alive)]

    def _room(self) -> bool:
        return len(self.world.alive()) < 4

    def _alive(self) -> bool:
        return bool(self.world.alive())

    def _published(self) -> bool:
        return self._room() and bool(self.world.published_so_far())

    @precondition(_room)
    @rule(
        tables=st.sampled_from([["fact"], ["report"], ["fact", "report"]]),
        days=_ANY,
        stop=st.sampled_from(_STEPS),
        dies=_SOME_DIE,
    )
    def publisher(self, tables: list[str], days: int, stop: str, dies: bool) -> None:
        work = deeds.publish(self.world, {table: _days(days + n) for n, table in enumerate(tables)})
        self._start_until(work, stop, dies)

    @precondition(_room)
    @rule(
        tables=st.sampled_from([[], ["fact"], ["fact", "report"]]),
        days=_ANY,
        stop=st.sampled_from(_STEPS),
        dies=_SOME_DIE,
    )
    def switcher(self, tables: list[str], days: int, stop: str, dies: bool) -> None:
        """Another version of the fact becomes current, with days of one or two tables, or for new days alone."""
        wanted = {table: _days(days + n) for n, table in enumerate(tables)}
        self._start_until(deeds.publish(self.world, wanted, switches="fact"), stop, dies)

    @precondition(_room)
    @rule(table=st.sampled_from(["fact", "report"]), raw=st.sampled_from(RAW), days=_ANY, exact=st.booleans())
    def derived(self, table: str, raw: str, days: int, exact: bool) -> None:
        self._start(deeds.publish(self.world, {table: _days(days)}, raw, exact)).advance_to("staged")

    @precondition(_room)
    @rule(
        source=st.sampled_from(["topic", "landed:x", "landed:y"]),
        tables=st.sampled_from([("raw",), ("raw_more",), RAW, RAW]),
        count=st.integers(1, 3),
        stop=st.sampled_from(_STEPS),
        dies=_SOME_DIE,
    )
    def appender(self, source: str, tables: tuple[str, ...], count: int, stop: str, dies: bool) -> None:
        self._start_until(deeds.append(self.world, source, tables, count), stop, dies)

    @precondition(_room)
    @rule(batches=st.integers(1, 3), stop=st.sampled_from(_STEPS), dies=_SOME_DIE)
    def stream(self, batches: int, stop: str, dies: bool) -> None:
        """There may be two at once: the lease spares work, and what is read twice must not count twice without it."""
        self._start_until(stream_life(self.world, batches), stop, dies)

    @precondition(_room)
    @rule(table=st.sampled_from(TABLES), stop=st.sampled_from(_STEPS))
    def compactor(self, table: str, stop: str) -> None:
        self._start(deeds.compacting(self.world, table)).advance_to(stop)

    @precondition(_published)
    @rule(which=_ANY, stop=st.sampled_from(_STEPS))
    def roll_back(self, which: int, stop: str) -> None:
        newest = self.world.published_so_far()[-4:]
        self._start(deeds.rolling_back(self.world, newest[-1 - which % len(newest)])).advance_to(stop)

    @precondition(lambda self: self._room() and bool(self.world.requests))
    @rule(which=_ANY)
    def try_again(self, which: int) -> None:
        requests = self.world.requests
        self._start(deeds.trying_again(self.world, requests[-1 - which % len(requests)])).advance()

    @precondition(_room)
    @rule(
        table=st.sampled_from(TABLES), stop=st.sampled_from(["reclaim intended", "reclaim deleted"]), dies=st.booleans()
    )
    def reclaimer(self, table: str, stop: str, dies: bool) -> None:
        self.world.days_pass()
        actor = self._start(deeds.reclaiming(self.world, table))
        actor.advance_to(stop)
        if dies:
            actor.crash()

    @precondition(_room)
    @rule(stop=st.sampled_from(_STEPS))
    def recoverer(self, stop: str) -> None:
        self._start(deeds.recovering(self.world)).advance_to(stop)

    @precondition(_room)
    @rule(stop=st.sampled_from(["notice read", "notice sent", "notice marked"]), dies=_SOME_DIE)
    def deliverer(self, stop: str, dies: bool) -> None:
        self._start_until(deeds.delivering(self.world), stop, dies)

    @precondition(_alive)
    @rule(who=_ANY, steps=st.integers(1, 4))
    def step(self, who: int, steps: int) -> None:
        actor = self._someone(who)
        for _ in range(steps):
            actor.advance()

    @precondition(_alive)
    @rule(who=_ANY, stop=st.sampled_from(_STEPS))
    def go_on_until(self, who: int, stop: str) -> None:
        self._someone(who).advance_to(stop)

    @precondition(_alive)
    @rule(who=_ANY, stop=st.sampled_from(_STEPS))
    def die_at(self, who: int, stop: str) -> None:
        actor = self._someone(who)
        actor.advance_to(stop)
        actor.crash()

    @precondition(_room)
    @rule(
        appends=st.booleans(),
        how=st.sampled_from(["add", "add", "optimise"]),
        first=st.booleans(),
        stop=st.sampled_from(["abort decided", "restored", "restored", "fenced", "closing", "closed"]),
        dies=st.booleans(),
    )
    def caught_half_way(self, appends: bool, how: str, first: bool, stop: str, dies: bool) -> None:
        """An actor publishes two tables; when the first is committed, others write to the second (and the first)."""
        both = {"fact": list(DAYS), "report": list(DAYS)}
        work = deeds.append(self.world, "topic", RAW, 3) if appends else deeds.publish(self.world, both)
        tables = RAW if appends else tuple(both)
        actor = self._start(work)
        actor.advance_to("table committed")
        for table in tables if first else tables[1:]:
            for day in DAYS[:2]:
                self.world.write_past_the_protocol(table, day, how)
        actor.advance_to(stop)
        if dies:
            actor.crash()

    @precondition(_alive)
    @rule(who=_ANY)
    def run_out(self, who: int) -> None:
        self._someone(who).run_out()

    @precondition(_alive)
    @rule(who=_ANY)
    def crash(self, who: int) -> None:
        self._someone(who).crash()

    # ------------------------------------------------------ foreign writers, time

    @rule(table=st.sampled_from(TABLES), day=st.sampled_from(DAYS), how=st.sampled_from(["add", "delete", "optimise"]))
    def foreign_write(self, table: str, day: date, how: str) -> None:
        self.world.write_past_the_protocol(table, day, how)

    @rule(
        table=st.sampled_from(TABLES),
        how=st.sampled_from(["rowTracking", "delta.appendOnly", "delta.constraints.c", "back", "back", "back"]),
    )
    def alter(self, table: str, how: str) -> None:
        """A property or a feature with which a publication cannot be written comes, and goes again."""
        self.world.alter(table, how)

    def _entries_with_days(self) -> list[str]:
        return sorted(entry for entry in self.world.log.open if self.world.wishes[entry].tables)

    @precondition(lambda self: bool(self._entries_with_days()))
    @rule(which=_ANY, how=st.sampled_from(["rowTracking", "delta.appendOnly"]), stop=st.sampled_from(_STEPS))
    def alter_and_give_up(self, which: int, how: str, stop: str) -> None:
        """A table of an entry that is under way cannot be written any more, and a person gives the entry up."""
        entries = self._entries_with_days()
        publication = entries[which % len(entries)]
        tables = sorted(self.world.wishes[publication].tables)
        self.world.alter(tables[which % len(tables)], how)
        if self._room():
            self._start(deeds.giving_up(self.world, publication)).advance_to(stop)

    @precondition(lambda self: bool(self.world.log.open))
    @rule()
    def overwrite(self) -> None:
        """A commit of an entry that is under way is lost to a writer without put-if-absent."""
        self.world.overwrite()

    @precondition(lambda self: self.world.log.version > 0)
    @rule(how=st.sampled_from(["optimise", "optimise", "vacuum", "vacuum lite", "fold"]))
    def maintenance_of_the_log(self, how: str) -> None:
        self.world.maintain_log(how)

    @precondition(lambda self: self.world.log.version > 0 and not self._alive())
    @rule(tables=st.sets(st.sampled_from(TABLES)), pinned_again=st.booleans())
    def weeks_at_rest(self, tables: set[str], pinned_again: bool) -> None:
        self.world.weeks_at_rest(sorted(tables), pinned_again=pinned_again)

    @precondition(lambda self: bool(self._entries_with_days()))
    @rule(which=_ANY, how=st.sampled_from(["add", "add", "optimise"]), first=st.booleans())
    def ambush(self, which: int, how: str, first: bool) -> None:
        """A foreign write to a day of an entry that is under way: to its last table, or (rarely) its first."""
        entries = self._entries_with_days()
        tables = sorted(self.world.wishes[entries[which % len(entries)]].tables.items())
        table, wish = tables[0] if first and which % 3 == 0 else tables[-1]
        days = sorted(wish.rows) or list(DAYS)
        self.world.write_past_the_protocol(table, days[which % len(days)], how)

    @precondition(lambda self: sum(self.world.columns.values()) < 2)
    @rule(table=st.sampled_from(["fact", "raw"]))
    def new_column(self, table: str) -> None:
        """A process that stages from now on has one column more; those who staged before do not."""
        self.world.columns[table] += 1

    # -------------------------------------------------------------- judgement

    @invariant()
    def all_promises_hold(self) -> None:
        self.world.judge()

    def teardown(self) -> None:
        with self._at_end:
            self.world.end()


def _days(number: int) -> list[date]:
    """One day, or two that follow each other."""
    first = number % len(DAYS)
    return [DAYS[first]] if number % 2 else sorted({DAYS[first], DAYS[(first + 1) % len(DAYS)]})


def _die_while_publishing() -> None:
    """At each step of a publication of two tables once: which of them the histories reach is left to chance."""
    history = Lakehouse()
    try:
        for stop in ("log read", "tables read", "prepared", "table loaded", "table committed", "closing", "closed"):
            history.publisher(tables=["fact", "report"], days=0, stop=stop, dies=True)
            history.all_promises_hold()
    finally:
        history.teardown()


def _die_while_streaming() -> None:
    """At each step of a batch and of what follows it once; then a stream reads on, and facts equal raw."""
    history = Lakehouse()
    try:
        for stop in ("log read", "tables read", "prepared", "table loaded", "table committed", "closing", "closed"):
            for steps_before in (0, 1):
                actor = history._start(stream_life(history.world, 2))
                for _ in range(steps_before):
                    actor.advance_to("closed")
                actor.advance_to(stop)
                actor.crash()
                history.all_promises_hold()
        one, other = (history._start(stream_life(history.world, 2)) for _ in range(2))
        for actor in (one, other):
            actor.advance_to("staged")
        for actor in (one, other):
            actor.run_out()
        history.all_promises_hold()
        history._start(stream_life(history.world, 3)).run_out()
        history.all_promises_hold()
        read = positions_in_log(history.world)
        assert read.begun and min(read.next_offsets[partition] for partition in PARTITIONS) > 3
        assert published_rows(history.world.storage, "fact") == published_rows(history.world.storage, "raw")
    finally:
        history.teardown()


def _die_while_aborting(step: str, first: bool) -> None:
    """Too rare to be left to chance: both tables are written to from outside, or only the second one."""
    history = Lakehouse()
    try:
        for _ in range(2):
            history.publisher(tables=["fact", "report"], days=0, stop="closed", dies=False)
        for actor in history.world.alive():
            actor.run_out()
        history.caught_half_way(appends=False, how="add", first=first, stop=step, dies=True)
        history.all_promises_hold()
    finally:
        history.teardown()


def _die_while_maintaining() -> None:
    """Too rare as well: around a deletion and its note, and around a notice and its note."""
    history = Lakehouse()
    try:
        for _ in range(3):
            history.publisher(tables=["fact"], days=1, stop="closed", dies=False)
            for actor in history.world.alive():
                actor.run_out()
        for stop in ("notice read", "notice sent", "notice marked"):
            history.deliverer(stop=stop, dies=True)
        for stop in ("reclaim intended", "reclaim deleted"):
            history.reclaimer(table="fact", stop=stop, dies=True)
        history.all_promises_hold()
    finally:
        history.teardown()


@pytest.mark.protocol
@pytest.mark.parametrize("examples", [8, pytest.param(EXAMPLES, marks=pytest.mark.long)])
def test_every_promise_holds_while_processes_work_and_die(monkeypatch: pytest.MonkeyPatch, examples: int) -> None:
    """All invariants of the publication protocol, at every moment of many histories, and after recovery.

    A protocol that was only tried in the order that everybody has in mind fails in the others.
    """
    HITS.clear()
    monkeypatch.setattr(log_fold, "FOLD_FROM_FILES", 3)
    machine = hypothesis.seed(SEED)(Lakehouse)
    chosen = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        database=None,
        print_blob=True,
        phases=(Phase.generate, Phase.shrink) if SHRINK else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(machine, settings=chosen)
        for step, first in (("abort decided", False), ("restored", False), ("fenced", True)):
            _die_while_aborting(step, first)
        _die_while_publishing()
        _die_while_streaming()
        _die_while_maintaining()
    finally:
        print(f"seed {SEED}, {examples} histories\n{report()}")
    assert not never_hit(), "steps that no history reached"
    assert not never_hit("died at "), "steps at which no actor died"
