"""``python -m benchmarks.backfill.long_history write|status|plan|publish FOLDER DAYS``: four tables, without a JVM.

A process of its own each, which imports no more than it needs: its greatest memory is looked at. ``write`` makes the
logs that ``status`` and ``plan`` read; ``publish`` publishes all days at once, and rolls them back.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from backfill_assets.datasets import registry
from backfill_assets.days import DayRange
from backfill_assets.lakehouse.storage import Storage
from benchmarks.generated_history import DAYS, four_tables, write_metadata

COMMANDS = ("status", "plan", "publish")
_ROWS = range(100)


def _status(folder: str, _: DayRange) -> None:
    steps = tuple(four_tables())
    registry.steps = lambda: steps
    registry.tables = lambda: tuple(table for step in steps for table in step.tables)
    from backfill_assets.cli import main as backfill

    backfill(["status"])


def _plan(folder: str, days: DayRange) -> None:
    from backfill_assets.plan.make import make_plan
    from backfill_assets.plan.records import PlanRequest, Scope
    from benchmarks.plan import situation

    asked = PlanRequest(target="sales", days=str(days), scope=Scope.WHOLE)
    plan = make_plan(asked, situation(Storage(folder), four_tables()))
    print(f"{plan.id}: {sum(len(step.days) for step in plan.steps):,} days, {len(plan.to_json()):,} characters")


def _publish(folder: str, days: DayRange) -> None:
    from backfill_assets.publication.rollback import roll_back
    from backfill_assets_tests.small_lakehouse import SmallLakehouse

    lake = SmallLakehouse(Path(folder) / "published")
    content = {table: dict.fromkeys(days, _ROWS) for table in ("raw", "bronze", "fact", "report")}
    lake.publish("p", content)
    roll_back(lake.publisher, "p", id="r")


def main() -> None:
    what, folder, count = sys.argv[1:]
    days = DayRange(DAYS.first, DAYS.first + timedelta(days=int(count) - 1))
    if what == "write":
        write_metadata(Storage(folder), four_tables(), days)
    else:
        dict(zip(COMMANDS, (_status, _plan, _publish), strict=True))[what](folder, days)


if __name__ == "__main__":
    main()
