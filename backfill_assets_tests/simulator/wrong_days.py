"""What fixed histories of timelines begin with: a fact that is right, and then wrong from its second day on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import cache

from backfill_assets.model.declaration import Step
from backfill_assets.publish.crash_points import nowhere
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.lake import Lake
from backfill_assets_tests.simulator.actors.builder import publish_raw
from backfill_assets_tests.simulator.chain import CLEAN, DAYS, RUN, SUMS, WEEKLY, lake_of
from backfill_assets_tests.simulator.play import built
from backfill_assets_tests.simulator.world import CHAIN, PlayedLife, World

WEEKS = tuple(WEEKLY.cadence.starts(DAYS))


@contextmanager
def alone(before: World) -> Iterator[tuple[PlayedLife, Lake]]:
    """One person in a lakehouse with the past of ``before``, without anybody beside."""
    world = World(before.seed + 1, {})
    with world.begun():
        world.begin_as(before)
        life = PlayedLife(world, "ana", world.count("people"))
        yield life, lake_of(life.watched(nowhere))
        world.judge()


def built_by(lake: Lake, step: Step, days: Sequence[date], version: str) -> None:
    Builder(lake).build(step, days, run=RUN, version=version)


@cache
def wrong_from_the_second_day() -> World:
    """Odd amounts on each day, for these show the version; all by v2, and then the last three days again by v1."""
    with alone(built()) as (life, lake):
        publish_raw(life, lake, {day: (f"odd {day.day}.0=3",) for day in DAYS})
        built_by(lake, CLEAN, DAYS, "v1")
        for days, version in ((DAYS, "v2"), (DAYS[1:], "v1")):
            built_by(lake, SUMS, days, version)
            built_by(lake, WEEKLY, WEEKS, "v1")
    return life.world


def right_and_wrong(world: World) -> tuple[str, str]:
    """The publication after which everything was right, and the one that made days wrong."""
    *_, right, wrong, _ = world.published_so_far(CHAIN)
    return right, wrong
