"""Plays a world by a schedule, and says what became of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random

from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets_tests.simulator.actors import ACTORS
from backfill_assets_tests.simulator.actors.builder import BUILDERS, first_build
from backfill_assets_tests.simulator.actors.campaigns import CAMPAIGNERS, under_way
from backfill_assets_tests.simulator.actors.healing import HEALERS
from backfill_assets_tests.simulator.actors.maintenance import MAINTAINERS
from backfill_assets_tests.simulator.actors.reader import look_at_the_end
from backfill_assets_tests.simulator.actors.stream import LOOPS
from backfill_assets_tests.simulator.chain import CHAIN, Chain
from backfill_assets_tests.simulator.history import History
from backfill_assets_tests.simulator.priced import PRICED
from backfill_assets_tests.simulator.rest import come_to_rest
from backfill_assets_tests.simulator.schedule import Schedule, Seeded, Turn, Written
from backfill_assets_tests.simulator.world import Deed, Life, World

STEPS = 1_500
_FEWEST, _MOST = 3, 6
_NAMED = ("overwriter", "bookkeeper", *LOOPS, *CAMPAIGNERS)
_DRAWN = [kind for kind in ACTORS if kind not in _NAMED]
"""Who loses what the protocol cannot know of plays where it is named, and so do those on a chain of their own, the two
loops of a stream, which is one actor among all others, and who closes days, on which others would have nothing to do.
"""


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

    @property
    def digest(self) -> str:
        """The same for the same history, bit for bit."""
        return f"{hashlib.sha256((self.line + self.history.to_json()).encode()).hexdigest()} {self.steps}"


def cast_of(seed: int, kinds: Sequence[str] = ()) -> tuple[str, ...]:
    """The names of those who play: of ``kinds``, or of all there are, some of them twice."""
    draw = Random(f"actors {seed}")
    chosen = list(kinds) or ["publisher", "reader", *draw.choices(_DRAWN, k=draw.randint(_FEWEST, _MOST))]
    numbers = Counter[str]()
    names = []
    for kind in chosen:
        numbers[kind] += 1
        names.append(kind if "-" in kind else f"{kind}-{numbers[kind]}")
    return tuple(names)


def play(seed: int, actors: Sequence[str], schedule: Schedule) -> Played:
    """The same seed, actors and schedule give the same history, bit for bit."""
    deeds, kinds = {name: ACTORS[kind_of(name)] for name in actors}, {kind_of(name) for name in actors}
    chain = PRICED if kinds & CAMPAIGNERS.keys() else CHAIN
    builds = kinds & (BUILDERS | HEALERS | MAINTAINERS).keys()
    first = under_way if kinds & CAMPAIGNERS.keys() else first_build if builds else None
    return play_in(World(seed, deeds, chain), schedule, built(chain, first) if first is not None else None)


def play_in(world: World, schedule: Schedule, begins: World | None = None) -> Played:
    """Its actors, until there are no more turns; it begins with the past of another one, or with nothing."""
    turns, failure = list[Turn](), None
    with world.begun():
        try:
            if begins is not None:
                world.begin_as(begins)
            while (turn := schedule.next(world.alive(), world.record.steps)) is not None:
                turns.append(turn)
                world.take(turn)
                world.judge()
            world.close(come_to_rest if any(kind_of(name) in HEALERS for name in world.actors) else None)
            look_at_the_end(Life(world, "end", 2))
        except Exception as error:
            failure = error
        history = world.history()
    return Played(world.seed, tuple(world.actors), tuple(turns), history, failure, world.tally, world.record.steps)


def kind_of(name: str) -> str:
    return name.partition("-")[0]


class Alone(Life):
    """One whom nobody overtakes."""

    def reached(self, step: CrashPoint | str, about: str = "") -> None:
        """It goes on."""


@cache
def built(chain: Chain = CHAIN, first: Deed = first_build) -> World:
    """What those who build begin with: built once, and the same for every seed."""
    world = World(0, {}, chain)
    with world.begun():
        first(Alone(world, "begin", 1))
    return world


def play_seed(seed: int, steps: int = STEPS, kinds: Sequence[str] = ()) -> Played:
    return play(seed, cast_of(seed, kinds), Seeded(seed, steps))


def play_turns(seed: int, actors: Sequence[str], turns: Sequence[Turn]) -> Played:
    return play(seed, actors, Written(turns))
