"""Builds days of bronze, facts and daily revenue whole, today too: ``whole_rebuild 2026-03-01..2026-03-02``.

``backfill run`` refuses a day that is not over. This plays tomorrow, to compare a day that a stream has just filled.
"""

from __future__ import annotations

import sys
from datetime import timedelta

from backfill_assets import clock
from backfill_assets.cli.foreground import foreground_lake
from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.stream.tally_checks import BRONZE, FACT, REVENUE


def main(days: str) -> None:
    with foreground_lake() as lake:
        builder = Builder(lake)
        with clock.use(FakeClock(clock.now() + timedelta(days=1))):
            for table in (BRONZE, FACT, REVENUE):
                step, run = CATALOG.step(table), RunInfo("whole rebuild")
                builder.build(step, list(DayRange.parse(days)), run=run, version=AS_PUBLISHED, force=True)


if __name__ == "__main__":
    main(sys.argv[1])
