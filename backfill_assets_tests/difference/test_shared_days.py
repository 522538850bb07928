"""Two timelines that share 85 of 90 days: their comparison opens the files of the other five, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.days import DayRange
from backfill_assets.difference.lakehouse_states import StatesRequest, compare_states
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.named_timelines import HeldDay, NamedTimeline, create_timeline
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.rows import published_rows, rows_of_main_files
from backfill_assets.published.moments import find_moment
from backfill_assets.quality import measures
from backfill_assets.rebuild import overlay
from backfill_assets.timeline.rewind import RewindRequest, rewound_timeline
from backfill_assets_tests.small_lakehouse import SmallLakehouse
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REVENUE = "fact_daily_revenue"
FIRST = date(2017, 3, 1)
DAYS = DayRange(FIRST, FIRST + timedelta(days=89))
CHANGED = [FIRST + timedelta(days=number) for number in (3, 20, 41, 62, 88)]
METRICS = dict.fromkeys(measures.compared_metrics(CATALOG.table(REVENUE)), 0)


def test_two_timelines_that_share_85_of_90_days_read_the_other_five_only(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(tmp_path, lambda: spark)
    lakehouse = SmallLakehouse(workshop.settings.lakehouse)
    lakehouse.publish("one", {REVENUE: {day: [day.toordinal()] for day in DAYS}})
    lakehouse.publish("two", {REVENUE: {day: [1, 2] for day in CHANGED}})
    for name in ("one", "two"):
        rewind(lakehouse, name)
    opened: set[tuple[str, str]] = set()

    def counting(session: Any, storage: Any, table: str, files: Sequence[AddedFile], schema: Any) -> Any:
        opened.update((table, file.path) for file in files)
        return rows_of_main_files(session, storage, table, files, schema)

    monkeypatch.setattr(overlay, "rows_of_main_files", counting)
    monkeypatch.setattr(overlay, "published_rows", only_without_version)
    found = compare_states(workshop.builder.lake, CATALOG.steps, StatesRequest("at-one", "at-two"), print)
    (table,) = found.tables
    how = {day.day: day.how for day in table.days}
    assert len(how) == 90 and [day for day in DAYS if how[day] == "compared"] == CHANGED
    assert len(opened) == 10 and {path.split("day=")[1][:10] for _, path in opened} == set(map(str, CHANGED))


def rewind(lakehouse: SmallLakehouse, name: str) -> NamedTimeline:
    """All 90 days as of the publication, with every figure measured."""
    moment = find_moment(lakehouse.storage, name, REVENUE)
    asked = RewindRequest(f"at-{name}", (REVENUE,), DAYS)
    made = rewound_timeline(lakehouse.storage, CATALOG.steps, asked, moment, lakehouse.now())
    return create_timeline(lakehouse.storage, made.with_days({REVENUE: measured(made)}))


def measured(made: NamedTimeline) -> dict[date, HeldDay]:
    held = made.held(REVENUE)
    contents = {day: each.content or DayContent(0, "0") for day, each in held.items()}
    return {
        day: each.model_copy(
            update={"content": DayContent(contents[day].rows, contents[day].checksum, metrics=METRICS)}
        )
        for day, each in held.items()
    }


def only_without_version(session: Any, storage: Any, read: Any, schema: Any) -> Any:
    assert read.version is None or not read.days, "main is read"
    return published_rows(session, storage, read, schema)
