"""After the last fault: all tables are put right by what runs by itself, but for what a person must decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from datetime import timedelta
from random import Random

from deltalake.exceptions import DeltaError

from backfill_assets.days import TableDay, by_table
from backfill_assets.errors import BackfillError
from backfill_assets.publish.crash_points import nowhere
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.incidents import Incident, IncidentBook
from backfill_assets_tests.simulator.actors.healing import look, run_backfill, watch
from backfill_assets_tests.simulator.chain import COMPUTED, RUN, lake_of
from backfill_assets_tests.simulator.delta import DeltaLog
from backfill_assets_tests.simulator.judges.healing import KEYS, incidents_in, inputs_of, made_of, of_table
from backfill_assets_tests.simulator.process import Undisturbed
from backfill_assets_tests.simulator.world import PlayedLife, World

MOST_LOOKS = 40
"""So many after the last fault, and nothing is open but what waits for a person; as many after their word."""
BETWEEN_LOOKS = timedelta(minutes=10)


def come_to_rest(world: World) -> None:
    """At first one table cannot be read: it and what is made of it wait, the others do not. Then a person decides."""
    life = PlayedLife(world, "rest", 1)
    life.process = Undisturbed()
    with _unreadable(world) as table:
        _rests(life, of_table(table))
        found = [each for each in IncidentBook(life.storage).open() if each.cause is Cause.UNREADABLE]
        assert [each.table for each in found] == [table], f"{table} cannot be read, open are {_named(found)}"
    _rests(life)
    _decide(PlayedLife(world, "ana", 1), IncidentBook(life.storage).open())
    _look_until_rest(life, people=True)
    assert not (left := IncidentBook(life.storage).open()), f"{_named(left)} stay open"
    assert not (wrong := world.healing.wrong()), f"{sorted(wrong)} stay wrong"
    world.healing.judge_incidents(incidents_in(world.files.contents))


@contextmanager
def _unreadable(world: World) -> Iterator[str]:
    """The newest commit of a table is damaged while the block runs, and the checkpoint of the same version."""
    table = Random(f"unreadable {world.seed}").choice([step.name for step in COMPUTED])
    log, version = DeltaLog(world.files, table), world.tables[table].version
    paths = (log.commit_file(version), log.checkpoint_file(version))
    sound = {path: world.files.get(path) for path in paths if path in world.files.contents}
    for path in sound:
        world.files.put(path, b"{")
    yield table
    for path, data in sound.items():
        world.files.put(path, data)


def _rests(life: PlayedLife, beyond: Set[TableDay] = frozenset()) -> None:
    """All but what is ``beyond`` repair."""
    life.world.tally["looks until rest"] += _look_until_rest(life, beyond)
    assert not (left := _going_on(life, beyond)), f"{_named(left)} are open, and wait for nobody"
    assert not (wrong := _untold(life, beyond)), f"{sorted(wrong)} stay wrong, and nobody is told"


def _look_until_rest(life: PlayedLife, beyond: Set[TableDay] = frozenset(), *, people: bool = False) -> int:
    """How many looks it takes; after what ``people`` have done nothing is left to them."""
    world = life.world
    for number in range(MOST_LOOKS):
        watch(life)
        look(life)
        while world.orchestrator.waiting():
            _tried(life)
        while world.orchestrator.proofs:
            watch(life)
        world.judge()
        left = IncidentBook(life.storage).open() if people else _going_on(life, beyond)
        if number and not left and not _untold(life, beyond):
            return number
        world.clock.pass_on(BETWEEN_LOOKS)
    return MOST_LOOKS


def _going_on(life: PlayedLife, beyond: Set[TableDay]) -> list[Incident]:
    """What is open, and is not for a person, nor made of days that are."""
    found = IncidentBook(life.storage).open()
    theirs = _of_people(found) | beyond
    return [
        each
        for each in found
        if each.state != "person" and not theirs.issuperset(TableDay(each.table, day) for day in each.days)
    ]


def _untold(life: PlayedLife, beyond: Set[TableDay]) -> set[TableDay]:
    """What is wrong, and not because it waits for a person."""
    return life.world.healing.wrong() - _of_people(IncidentBook(life.storage).open()) - beyond


def _of_people(found: Iterable[Incident]) -> set[TableDay]:
    return made_of(_days_of(each for each in found if each.state == "person"))


def _tried(life: PlayedLife) -> None:
    try:
        run_backfill(life)
    except (BackfillError, DeltaError, OSError):
        life.world.judge()


def _decide(life: PlayedLife, left: Iterable[Incident]) -> None:
    """A person builds the days again of which it was told that nothing else does, and what they lack."""
    wanted = set(_days_of(left))
    for key in (key for key in reversed(KEYS) if key in wanted):
        wanted |= {each for each in inputs_of(key) if each in KEYS and not life.world.healing.is_there(each)}
    days = by_table(wanted)
    for step in (each for each in COMPUTED if each.name in days):
        Builder(lake_of(life.watched(nowhere))).build(
            step, sorted(days[step.name]), run=RUN, version=AS_PUBLISHED, force=True
        )
        life.world.judge()


def _days_of(found: Iterable[Incident]) -> Iterator[TableDay]:
    for each in found:
        yield from (TableDay(each.table, day) for day in each.days)
        yield from (TableDay(table, day) for table, days in each.follows.items() for day in days)


def _named(found: Sequence[Incident]) -> str:
    return "; ".join(f"{each.id} ({each.state}: {each.words})" for each in found)
