"""``python -m benchmarks.backfill.long_history write|status|plan|publish FOLDER DAYS``: four tables, without a JVM.

A process of its own each, which imports no more than it needs: its greatest memory is looked at. ``write`` makes the
logs that ``status`` and ``plan`` read, and stages what ``publish`` publishes, all days at once, and rolls back.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets_tests.declared import catalog_of, declare_only
from benchmarks.generated_history import DAYS, four_tables, write_metadata

COMMANDS = ("status", "plan", "publish")
_PUBLISHED = "published"
_PUBLICATION = "p"
_TABLES = ("raw", "bronze", "fact", "report")
_ROWS = range(100)


def _status(folder: str, _: DayRange) -> None:
    declare_only(catalog_of(four_tables()))
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
    from backfill_assets.campaign.rollback import roll_back
    from backfill_assets.lakehouse.timelines import Timeline
    from backfill_assets_tests.small_lakehouse import SmallLakehouse

    class StagedBefore(SmallLakehouse):
        """Its days were staged by another process."""

        def stage(self, name: str, table: str, *_: object) -> Timeline:
            return Timeline(self.storage, table, name)

    lake = StagedBefore(Path(folder) / _PUBLISHED)
    lake.publish(_PUBLICATION, {table: dict.fromkeys(days, _ROWS) for table in _TABLES})
    roll_back(lake.publisher, _PUBLICATION, id="r", steps=four_tables())


def _stage(folder: str, days: DayRange) -> None:
    from backfill_assets.lakehouse.timelines import StagedAs, Timeline
    from backfill_assets_tests.small_lakehouse import staged_rows

    for table in _TABLES:
        timeline = Timeline(Storage(str(Path(folder) / _PUBLISHED)), table, f"run-{_PUBLICATION}")
        files, schema = staged_rows(timeline, dict.fromkeys(days, _ROWS))
        timeline.add(files, schema, {day: StagedAs(input_fingerprint="x") for day in days})


def main() -> None:
    what, folder, count = sys.argv[1:]
    days = DayRange(DAYS.first, DAYS.first + timedelta(days=int(count) - 1))
    if what == "write":
        write_metadata(Storage(folder), four_tables(), days)
        _stage(folder, days)
    else:
        dict(zip(COMMANDS, (_status, _plan, _publish), strict=True))[what](folder, days)


if __name__ == "__main__":
    main()
