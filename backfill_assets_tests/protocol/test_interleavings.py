"""Who reads is overtaken at every step by who takes back what was read: the one schedule that no seed has found yet."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable

import pytest

from backfill_assets_tests.protocol import deeds
from backfill_assets_tests.protocol.actor import Actor
from backfill_assets_tests.protocol.deeds import Work
from backfill_assets_tests.protocol.staging import DAYS
from backfill_assets_tests.protocol.world import RAW, World

pytestmark = pytest.mark.protocol
Pair = Callable[[World], tuple[Work, Work]]
BOTH = {"fact": [DAYS[0]], "report": [DAYS[0]]}
LONGEST = 30


def reader_and_rollback(world: World) -> tuple[Work, Work]:
    reading = deeds.publish(world, {"report": list(DAYS)}, "raw")
    return reading, deeds.rolling_back(world, world.published_so_far()[1])


PAIRS: list[Pair] = [reader_and_rollback]


@functools.cache
def history() -> World:
    """Three days in both raw tables, each in several files, and a publication of both others over another one."""
    world = World()
    for work in (*[deeds.append(world, "topic", RAW, 3)] * 2, deeds.publish(world, BOTH), deeds.publish(world, BOTH)):
        Actor("history", work).run_out()
    world.end()
    atexit.register(world.remove)
    return world


def play(pair: Pair, first_turn: int, second_turn: int, dies: bool) -> bool:
    """One schedule: the first actor's turn, the second's, the first to its end (or its death), the second to its end.

    False when the first actor was through before its turn ended: longer turns are then the same schedule.
    """
    world = history().copy()
    try:
        first, second = (Actor(name, work) for name, work in zip(("first", "second"), pair(world), strict=True))
        world.actors += [first, second]
        for _ in range(first_turn):
            first.advance()
            world.judge()
        more = not first.finished
        for _ in range(second_turn):
            second.advance()
            world.judge()
        if dies:
            first.crash()
        for actor in (first, second):
            actor.run_out()
            world.judge()
        world.end()
    finally:
        world.remove()
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
