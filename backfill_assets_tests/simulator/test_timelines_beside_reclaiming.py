"""A timeline of an old state is made while what nothing needs of that is deleted: it is whole, or there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import product

import pytest

from backfill_assets import clock
from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.publish.publisher import Publisher
from backfill_assets.state.view import find_moment
from backfill_assets.timeline.rewind import RewindRequest, create_whole, rewound_timeline, timeline_based_on
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.simulator.chain import STEPS
from backfill_assets_tests.simulator.schedule import Turn
from backfill_assets_tests.simulator.world import RETENTION_DAYS, Deed, PlayedLife, World
from backfill_assets_tests.simulator.wrong_days import alone, right_and_wrong, wrong_from_the_second_day

pytestmark = pytest.mark.protocol
Make = Callable[[PlayedLife], NamedTimeline]
MOST, MANY = 10_000, 40


@cache
def long_ago() -> World:
    """The files of what was right first are of no use to main, and old enough to go."""
    with alone(wrong_from_the_second_day()) as (life, _):
        life.world.clock.pass_on(timedelta(days=RETENTION_DAYS, hours=1))
    return life.world


def rewound(life: PlayedLife) -> NamedTimeline:
    moment = find_moment(life.storage, right_and_wrong(long_ago())[0], "")
    return rewound_timeline(life.storage, STEPS, RewindRequest("one", ["sums"]), moment, clock.now())


def based(life: PlayedLife) -> NamedTimeline:
    return timeline_based_on(life.storage, right_and_wrong(long_ago())[0], "one", "ana", clock.now())


@dataclass
class Both:
    """One makes a timeline, the other one reclaims, each of them once."""

    world: World
    passed: dict[str, int]
    """How many steps each that has ended has passed."""

    def play(self, *turns: Turn) -> None:
        for turn in turns:
            self.world.take(turn)
            self.world.log.follow()


@contextmanager
def both(make: Make) -> Iterator[Both]:
    passed: dict[str, int] = {}

    def once(deed: Deed) -> Deed:
        def done(life: PlayedLife) -> None:
            try:
                deed(life)
            finally:
                passed.setdefault(life.name, life.process.passed)
                life.process.rest()

        return done

    def made(life: PlayedLife) -> None:
        line = create_whole(life.storage, lambda: make(life))
        life.world.timelines.answered.add(line.id)

    def swept(life: PlayedLife) -> None:
        publisher = Publisher(life.storage, retention_days=RETENTION_DAYS, reached=life.reached)
        reclaim(publisher, "sums", clock_checked=True)

    world = World(long_ago().seed + 1, {"ana": once(made), "bea": once(swept)})
    with world.begun():
        world.begin_as(long_ago())
        yield Both(world, passed)


def stops(make: Make, name: str, places: int) -> list[int]:
    """Before each step that changes something; and where that is not all, at so many others."""
    found, steps = list[int](), 0
    with both(make) as played:
        while name not in played.passed:
            before = dict(played.world.files.contents)
            played.play(Turn(name, 1))
            found += [steps] if played.world.files.contents != before else []
            steps += 1
    return sorted({*found, *(range(0, steps, max(1, steps // places)) if places else ())})


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("make", [rewound, based], ids=["rewound", "based"])
@pytest.mark.parametrize("places", [0, pytest.param(MANY, marks=pytest.mark.long)], ids=["few", "many"])
def test_neither_takes_a_file_from_the_other(make: Make, places: int) -> None:
    """Each of them stops somewhere while the other one goes on."""
    at = {name: stops(make, name, places) for name in ("ana", "bea")}
    assert len(at["ana"]) >= 1 and len(at["bea"]) >= 3, "they do nothing"
    for ana, bea in product(at["ana"], at["bea"]):
        for first, second in ((Turn("ana", ana), Turn("bea", bea)), (Turn("bea", bea), Turn("ana", ana))):
            with both(make) as played:
                played.play(first, second, Turn(first.actor, MOST), Turn(second.actor, MOST))
                played.world.judge()
