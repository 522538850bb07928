"""Time passes: minutes between most deeds, and now and then more than a rollback window."""

from __future__ import annotations

from datetime import timedelta

from backfill_assets_tests.simulator.world import RETENTION_DAYS, Life

_PASSES = (timedelta(minutes=1), timedelta(minutes=10), timedelta(hours=7), timedelta(days=RETENTION_DAYS, hours=1))


def let_time_pass(life: Life) -> None:
    passed = life.draw.choice(_PASSES)
    life.world.clock.pass_on(passed)
    life.world.tally[f"passed {passed}"] += 1
    life.rest()
