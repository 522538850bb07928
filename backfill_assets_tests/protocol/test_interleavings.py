"""Every schedule of two actors with two changes of turn, and a death at every step: small, complete, reproducible.

The state machine looks widely and by chance; this looks at little, and at all of it.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from backfill_assets import clock
from backfill_assets_tests.protocol import deeds
from backfill_assets_tests.protocol.actor import Actor
from backfill_assets_tests.protocol.deeds import Work
from backfill_assets_tests.protocol.staging import DAYS
from backfill_assets_tests.protocol.world import RAW, World

pytestmark = pytest.mark.protocol
Pair = Callable[[World], tuple[Work, Work]]
BOTH = {"fact": [DAYS[0]], "report": [DAYS[0]]}
LONGEST = 30


def publishers(world: World) -> tuple[Work, Work]:
    return deeds.publish(world, BOTH), deeds.publish(world, BOTH)


def appenders(world: World) -> tuple[Work, Work]:
    return deeds.append(world, "topic", RAW, 2), deeds.append(world, "topic", RAW, 3)


def compactor_and_publisher(world: World) -> tuple[Work, Work]:
    return deeds.compacting(world, "raw"), deeds.append(world, "topic", RAW, 1)


def rollback_and_publisher(world: World) -> tuple[Work, Work]:
    return deeds.rolling_back(world, world.published_so_far()[-1]), deeds.publish(world, BOTH)


def reader_and_rollback(world: World) -> tuple[Work, Work]:
    reading = deeds.publish(world, {"report": list(DAYS)}, "raw")
    return reading, deeds.rolling_back(world, world.published_so_far()[1])


def switchers(world: World) -> tuple[Work, Work]:
    return deeds.publish(world, BOTH, switches="fact"), deeds.publish(world, {}, switches="fact")


def publisher_and_recoverer(world: World) -> tuple[Work, Work]:
    return deeds.publish(world, BOTH), deeds.recovering(world)


def reclaimer_and_publisher(world: World) -> tuple[Work, Work]:
    return deeds.reclaiming(world, "fact"), deeds.publish(world, BOTH)


PAIRS: list[Pair] = [
    publishers,
    appenders,
    compactor_and_publisher,
    rollback_and_publisher,
    reader_and_rollback,
    reclaimer_and_publisher,
    switchers,
]


@functools.cache
def history() -> World:
    """Three days in both raw tables, each in several files, and a publication of both others over another one."""
    world = World()
    works = (*[deeds.append(world, "topic", RAW, 3)] * 2, deeds.publish(world, BOTH), deeds.publish(world, BOTH))
    with clock.use(world.time):
        for work in works:
            Actor("history", work).run_out()
        world.end()
    atexit.register(world.remove)
    return world


def play(pair: Pair, first_turn: int, second_turn: int, dies: bool, ambushed: str = "") -> bool:
    """One schedule: the first actor's turn, the second's, the first to its end (or its death), the second to its end.

    False when the first actor was through before its turn ended: longer turns are then the same schedule.
    """
    world = history().copy()
    if pair is reclaimer_and_publisher:
        world.days_pass()
    with ExitStack() as at_end:
        at_end.callback(world.remove)
        at_end.enter_context(clock.use(world.time))
        first, second = (Actor(name, work) for name, work in zip(("first", "second"), pair(world), strict=True))
        world.actors += [first, second]
        for _ in range(first_turn):
            first.advance()
            world.judge()
        more = not first.finished
        if ambushed:
            world.write_past_the_protocol(ambushed, DAYS[0], "add")
        for _ in range(second_turn):
            second.advance()
            world.judge()
        if dies:
            first.crash()
        for actor in (first, second):
            actor.run_out()
            world.judge()
        world.end()
    return more


@pytest.mark.parametrize("dies", [False, True], ids=["wakes_up_late", "dies"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair.__name__))
def test_two_actors_overtake_each_other_at_every_step(pair: Pair, dies: bool) -> None:
    """The first is overtaken at every one of its steps, by all of the second; then it goes on, or is dead.

    A slow writer that wakes up late is where a publication is most easily undone or done twice.
    """
    turns = 0
    while play(pair, turns, LONGEST, dies) and turns < LONGEST:
        turns += 1
    assert turns > 2, "the actor must have steps to be overtaken at"


@pytest.mark.parametrize("second_turn", [7, *(pytest.param(turn, marks=pytest.mark.long) for turn in (4, 10))])
def test_two_publishers_of_two_tables_take_turns(second_turn: int) -> None:
    """Both stop in the middle: an entry is finished by the process that meets it, and the one that wakes up sees it."""
    turns = 0
    while play(publishers, turns, second_turn, dies=False) and turns < LONGEST:
        turns += 1


@pytest.mark.long
@pytest.mark.parametrize("ambushed", ["fact", "report"])
def test_a_foreign_write_at_every_step_of_a_publication_of_two_tables(ambushed: str) -> None:
    """It aborts both tables or neither, and the foreign rows stay, whether the publisher or the next one notices."""
    turns = 0
    while play(publishers, turns, 0, dies=False, ambushed=ambushed) and turns < LONGEST:
        play(publishers, turns, LONGEST, dies=True, ambushed=ambushed)
        turns += 1


@pytest.mark.parametrize("ambushed", [pytest.param("fact", marks=pytest.mark.long), "report"])
def test_a_slow_publisher_wakes_up_after_its_publication_was_finished(ambushed: str) -> None:
    """It finds its transaction or the fence, with any earlier reads: an aborted publication stays aborted."""
    turns = 0
    while play(publisher_and_recoverer, turns, LONGEST, dies=False, ambushed=ambushed) and turns < LONGEST:
        turns += 1


@pytest.mark.parametrize("ambushed", [pytest.param(RAW[0], marks=pytest.mark.long), RAW[1]])
def test_a_foreign_write_at_every_step_of_an_append_to_two_tables(ambushed: str) -> None:
    """Positions go back with the rows or stay with them: else a landed file counts twice, or never."""
    turns = 0
    while play(appenders, turns, LONGEST, dies=True, ambushed=ambushed) and turns < LONGEST:
        turns += 1
