"""Bronze and the fact follow raw, day by day in one publication; then the report follows them."""

from __future__ import annotations

from backfill_assets.publish.promote import silent
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.follow import FollowBuild
from backfill_assets.rebuild.growing import InputMemory
from backfill_assets_tests.simulator.chain import CLEAN, RUN, SUMS, WEEKLY, lake_of
from backfill_assets_tests.simulator.world import PlayedLife


def follow_raw(life: PlayedLife) -> None:
    """All days that have landed; those that are right are left as they are."""
    lake, days = lake_of(life.watched()), sorted(life.world.reports.landed)
    if not days:
        return
    FollowBuild(lake, (CLEAN, SUMS), RUN, silent, InputMemory()).publish(days)
    Builder(lake).build(WEEKLY, WEEKLY.cadence.starts(days), run=RUN, version=AS_PUBLISHED)
    life.world.tally["followed raw"] += 1
