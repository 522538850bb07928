"""Spark reads the tables that seeded histories of the protocol leave, and sees the rows that delta-rs sees."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date
from typing import TYPE_CHECKING

import pytest

from backfill_assets import clock
from backfill_assets_tests.protocol import deeds
from backfill_assets_tests.protocol.actor import Actor
from backfill_assets_tests.protocol.staging import DAYS, published_rows
from backfill_assets_tests.protocol.world import RAW, TABLES, World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def wander(world: World, seed: int) -> None:
    """A history by chance: an actor begins, goes on, dies, or writes past the protocol, again and again."""
    chance = random.Random(seed)
    for _ in range(25):
        alive = world.alive()
        if alive and chance.random() < 0.5:
            actor = chance.choice(alive)
            actor.crash() if chance.random() < 0.15 else actor.advance_to(chance.choice(["closed", "table committed"]))
        else:
            world.actors.append(Actor("by chance", _deed(world, chance)))
        if chance.random() < 0.1:
            world.write_past_the_protocol(chance.choice(TABLES), chance.choice(DAYS), "add")
        world.judge()
    world.end()


def _deed(world: World, chance: random.Random) -> deeds.Work:
    published = world.published_so_far()
    choices = [
        lambda: deeds.publish(world, {"fact": [DAYS[0], DAYS[1]], "report": [DAYS[1]]}),
        lambda: deeds.publish(world, {"report": list(DAYS)}, "raw"),
        lambda: deeds.append(world, "topic", RAW, 3),
        lambda: deeds.compacting(world, "raw"),
    ]
    if published:
        choices.append(lambda: deeds.rolling_back(world, published[-1]))
    world.columns["fact"] = max(world.columns["fact"], int(chance.random() < 0.1))
    return chance.choice(choices)()


def _by_day(rows: DataFrame) -> dict[date, Counter[str]]:
    found: dict[date, Counter[str]] = {}
    for row in rows.select("day", "name").collect():
        found.setdefault(row["day"], Counter())[row["name"]] += 1
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_spark_sees_what_delta_rs_sees(spark: SparkSession, seed: int) -> None:
    """Every table, newest and as readers of the last closed map pin it; by day as well, which prunes by statistics.

    Delta-rs shows days that Spark loses when a commit both adds and removes a path: one reader is not enough.
    """
    world = World()
    try:
        with clock.use(world.time):
            wander(world, seed)
        assert world.log.map, "the history must have published something"
        for table, version in world.log.map.items():
            uri = world.storage.uri(table)
            newest = published_rows(world.storage, table)
            pinned = spark.read.format("delta").option("versionAsOf", version).load(uri)
            assert _by_day(pinned) == published_rows(world.storage, table, version)
            assert _by_day(spark.read.format("delta").load(uri)) == newest
            for day in DAYS:
                of_day = spark.read.format("delta").load(uri).where(f"day = '{day}'")
                assert of_day.count() == sum(newest.get(day, Counter()).values())
    finally:
        world.remove()
