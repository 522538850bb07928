"""What arrives from the sources of sales and prices: late and newer rows, rows taken back, other rates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Literal

from backfill_assets.model.declaration import Step
from backfill_assets.publish.crash_points import nowhere
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.lake import Lake
from backfill_assets_tests.simulator.actors.builder import publish_raw
from backfill_assets_tests.simulator.chain import LANDED, RUN
from backfill_assets_tests.simulator.priced import (
    CLEAN,
    DAILY,
    DAYS,
    FRIDAY,
    LANDED_RATES,
    PRICED,
    RATE_DAYS,
    RATES,
    SUMS,
    WEEKLY,
)
from backfill_assets_tests.simulator.world import PlayedLife

Arrival = Literal["late row", "correction", "deletion", "rate"]
Reach = Literal["raw", "bronze", "reports"]
"""How far what has arrived is built before anything else is done."""
ARRIVALS: tuple[Arrival, ...] = ("late row", "late row", "correction", "deletion", "rate", "rate")
_REACHES: tuple[Reach, ...] = ("raw", "bronze", "bronze", "reports")


def arrive(life: PlayedLife) -> None:
    """Something, on some day; and it is built a part of its way."""
    what, day, reach = life.draw.choice(ARRIVALS), life.draw.choice(DAYS), life.draw.choice(_REACHES)
    bring(life, what, day)
    life.world.tally[f"{what}, built to {reach}"] += 1
    build(life.lake(), [] if reach == "raw" else built_of(what) if reach == "bronze" else list(PRICED.computed))


def bring(life: PlayedLife, what: Arrival, day: date) -> None:
    """Land it. There are no rates at weekends: Friday gets another one."""
    world, table = life.world, LANDED.name
    if what == "rate":
        table, day = LANDED_RATES.name, day if day.weekday() < 5 else FRIDAY
        name = f"rate.{world.count('versions')}={6 + life.draw.randint(1, 9)}"
    else:
        known = world.reports.landed.get(day, [])
        gone = {each[1:] for each in known if each.startswith("-")}
        keys = sorted({each.partition(".")[0] for each in known if not each.startswith("-")} - gone)
        key = life.draw.choice(keys) if keys and what != "late row" else f"{day.day}-late-{world.count('keys')}"
        row = f"{key}.{world.count('versions')}={life.draw.randint(1, 6)}"
        name = f"-{key}" if keys and what == "deletion" else row
    publish_raw(life, life.lake(), {day: (name,)}, table)


def built_of(what: Arrival) -> list[Step]:
    return [RATES if what == "rate" else CLEAN]


def build(lake: Lake, steps: Sequence[Step], version: str = AS_PUBLISHED) -> None:
    for step in steps:
        Builder(lake).build(step, PRICED.starts(step), run=RUN, version=version)


def first_prices(life: PlayedLife) -> None:
    """Two rows of each day, a rate of each working day, and all that is computed by v1; Monday's facts are left."""
    lake = life.lake(nowhere)
    for day in DAYS:
        publish_raw(life, lake, {day: tuple(f"{day.day}-{number}.0={day.day + number}" for number in (0, 1))})
    for number, day in enumerate(RATE_DAYS):
        rows = (f"rate.0={7 + number}",) if day.weekday() < 5 else ()
        publish_raw(life, lake, {day: rows}, LANDED_RATES.name)
    build(lake, [CLEAN, RATES], "v1")
    for step in (SUMS, DAILY, WEEKLY):
        Builder(lake).build(step, step.cadence.starts(DAYS[:-1]), run=RUN, version="v1")
