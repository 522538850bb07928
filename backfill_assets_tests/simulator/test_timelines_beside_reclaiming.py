"""A timeline of an old state is made while what nothing needs of that is deleted: it is whole, or there is none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache

import pytest

from backfill_assets import clock
from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.publish.publisher import Publisher
from backfill_assets.state.view import find_moment
from backfill_assets.timeline.rewind import RewindRequest, create_whole, rewound_timeline, timeline_based_on
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.simulator.chain import STEPS
from backfill_assets_tests.simulator.schedule import Turn
from backfill_assets_tests.simulator.world import RETENTION_DAYS, Deed, Life, World
from backfill_assets_tests.simulator.wrong_days import alone, right_and_wrong, wrong_from_the_second_day

pytestmark = pytest.mark.protocol
Make = Callable[[Life], NamedTimeline]
MOST, FEW, MANY = 10_000, 5, 40


@cache
def long_ago() -> World:
    """The files of what was right first are of no use to main, and old enough to go."""
    with alone(wrong_from_the_second_day()) as (life, _):
        life.world.clock.pass_on(timedelta(days=RETENTION_DAYS, hours=1))
    return life.world


def rewound(life: Life) -> NamedTimeline:
    moment = find_moment(life.storage, right_and_wrong(long_ago())[0], "")
    return rewound_timeline(life.storage, STEPS, RewindRequest("one", ["sums"]), moment, clock.now())


def based(life: Life) -> NamedTimeline:
    return timeline_based_on(life.storage, right_and_wrong(long_ago())[0], "one", "ana", clock.now())


def played(make: Make, *turns: Turn) -> tuple[int, int]:
    """How many steps each passes."""
    steps = {"ana": 0, "bea": 0}

    def once(life: Life, deed: Deed) -> None:
        try:
            deed(life)
        finally:
            steps[life.name] = life.process.passed
            life.process.rest()

    def swept(life: Life) -> None:
        reclaim(
            Publisher(life.storage, retention_days=RETENTION_DAYS, reached=life.reached), "sums", clock_checked=True
        )

    def made(life: Life) -> None:
        line = create_whole(life.storage, lambda: make(life))
        life.world.timelines.answered.add(line.id)

    world = World(
        long_ago().seed + 1,
        {
            "ana": lambda life: once(life, made),
            "bea": lambda life: once(life, swept),
        },
    )
    with world.begun():
        world.begin_as(long_ago())
        for turn in turns:
            world.take(turn)
            world.log.follow()
        world.judge()
    return steps["ana"], steps["bea"]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("make", [rewound, based], ids=["rewound", "based"])
@pytest.mark.parametrize("places", [FEW, pytest.param(MANY, marks=pytest.mark.long)], ids=["few", "many"])
def test_neither_takes_a_file_from_the_other(make: Make, places: int) -> None:
    """Each of them stops somewhere while the other one goes on."""
    first, second = (
        max(each) for each in zip(played(make, Turn("ana", MOST)), played(make, Turn("bea", MOST)), strict=True)
    )
    for at in range(0, first, max(1, first // places)):
        for then in range(0, second, max(1, second // places)):
            for names in (("ana", "bea"), ("bea", "ana")):
                stops = dict(zip(("ana", "bea"), (at, then), strict=True))
                played(make, *(Turn(name, stops[name]) for name in names), *(Turn(name, MOST) for name in names))
