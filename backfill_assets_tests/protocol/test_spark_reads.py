"""Spark reads the tables that schedules of the simulator leave on a disk, and sees the rows that delta-rs sees."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets_tests.protocol.staging import published_rows
from backfill_assets_tests.simulator.actors import ACTORS
from backfill_assets_tests.simulator.on_disk import WorldOnDisk
from backfill_assets_tests.simulator.schedule import Seeded, Turn
from backfill_assets_tests.simulator.staging import DAYS
from backfill_assets_tests.simulator.world import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CAST = ("publisher-1", "appender-1", "undo-1", "foreign-1", "compactor-1", "widener-1")
STEPS, LONGEST = 350, 400


def play_half(world: WorldOnDisk) -> None:
    """Everybody works, dies and is overtaken; then one stops after its commit to the first of two tables."""
    with world.begun():
        schedule = Seeded(world.seed, STEPS)
        while (turn := schedule.next(CAST, world.record.steps)) is not None:
            world.take(turn)
            world.judge()
        for _ in range(LONGEST):
            world.take(Turn("publisher-1", 1))
            world.judge()
            if world.at("publisher-1") == CrashPoint.TABLE_COMMITTED and world.log.open:
                return
    raise AssertionError("nobody was in the middle of a publication")


def _by_day(rows: DataFrame) -> dict[date, Counter[str]]:
    found: dict[date, Counter[str]] = {}
    for row in rows.select("day", "name").collect():
        found.setdefault(row["day"], Counter())[row["name"]] += 1
    return found


@pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_spark_sees_what_delta_rs_sees(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Every table in the middle of a publication, newest and as readers of the last closed map pin it; by day as well.

    Delta-rs shows days that Spark loses when a commit both adds and removes a path: one reader is not enough.
    """
    world = WorldOnDisk(tmp_path, seed, {name: ACTORS[name.partition("-")[0]] for name in CAST})
    play_half(world)
    published = [table for table in TABLES if world.tables[table].version >= 0]
    assert world.log.map and published, "the history must have published something"
    for table in published:
        judge, uri = world.tables[table], world.storage.uri(table)
        newest = published_rows(world.storage, table)
        assert newest == {day: image.rows for day, image in judge.days[-1].items() if image.rows}
        assert _by_day(spark.read.format("delta").load(uri)) == newest
        for day in DAYS:
            of_day = spark.read.format("delta").load(uri).where(f"day = '{day}'")
            assert of_day.count() == sum(newest.get(day, Counter()).values())
    for table, version in world.log.map.items():
        pinned = spark.read.format("delta").option("versionAsOf", version).load(world.storage.uri(table))
        shown = {day: image.rows for day, image in world.tables[table].days[version].items() if image.rows}
        assert _by_day(pinned) == published_rows(world.storage, table, version) == shown
