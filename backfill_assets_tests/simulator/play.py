"""Plays a world by a schedule, and says what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random

from backfill_assets_tests.simulator.actors import ACTORS
from backfill_assets_tests.simulator.actors.builder import BUILDERS, first_build
from backfill_assets_tests.simulator.actors.healing import HEALERS
from backfill_assets_tests.simulator.actors.maintenance import MAINTAINERS
from backfill_assets_tests.simulator.actors.reader import look_at_the_end
from backfill_assets_tests.simulator.history import History
from backfill_assets_tests.simulator.rest import come_to_rest
from backfill_assets_tests.simulator.schedule import Schedule, Seeded, Turn, Written
from backfill_assets_tests.simulator.world import Life, World

STEPS = 1_500
_FEWEST, _MOST = 3, 6


@dataclass(frozen=True)
class Played:
    """A world that was played to its end, or to its first failure."""

    seed: int
    actors: tuple[str, ...]
    turns: tuple[Turn, ...]
    history: History
    failure: BaseException | None
    tally: Counter[str] = field(compare=False)
    steps: int = 0

    @property
    def line(self) -> str:
        """What plays it again."""
        turns = " ".join(map(str, self.turns))
        return f'make simulate SEED={self.seed} ACTORS="{" ".join(self.actors)}" TURNS="{turns}"'


def cast_of(seed: int, kinds: Sequence[str] = ()) -> tuple[str, ...]:
    """The names of those who play: of ``kinds``, or of all there are, some of them twice."""
    draw = Random(f"actors {seed}")
    if kinds:
        chosen = list(kinds)
    else:
        chosen = ["publisher", "reader", *draw.choices(list(ACTORS), k=draw.randint(_FEWEST, _MOST))]
    numbers = Counter[str]()
    names = []
    for kind in chosen:
        numbers[kind] += 1
        names.append(kind if "-" in kind else f"{kind}-{numbers[kind]}")
    return tuple(names)


def play(seed: int, actors: Sequence[str], schedule: Schedule) -> Played:
    """The same seed, actors and schedule give the same history, bit for bit."""
    deeds = {name: ACTORS[name.partition("-")[0]] for name in actors}
    kinds = {name.partition("-")[0] for name in actors}
    begins = None if kinds.isdisjoint(BUILDERS | HEALERS | MAINTAINERS) else _built()
    world, turns, failure = World(seed, deeds), list[Turn](), None
    with world.begun():
        try:
            if begins is not None:
                world.begin_as(begins)
            while (turn := schedule.next(list(deeds), world.record.steps)) is not None:
                turns.append(turn)
                world.take(turn)
                world.judge()
            world.close(None if kinds.isdisjoint(HEALERS) else come_to_rest)
            look_at_the_end(Life(world, "end", 2))
        except Exception as error:
            failure = error
        history = world.history()
    return Played(seed, tuple(actors), tuple(turns), history, failure, world.tally, world.record.steps)


@cache
def _built() -> World:
    """What builders begin with: built once, and the same for every seed."""
    world = World(0, {})
    with world.begun():
        first_build(Life(world, "begin", 1))
    return world


def play_seed(seed: int, steps: int = STEPS, kinds: Sequence[str] = ()) -> Played:
    return play(seed, cast_of(seed, kinds), Seeded(seed, steps))


def play_turns(seed: int, actors: Sequence[str], turns: Sequence[Turn]) -> Played:
    return play(seed, actors, Written(turns))
