"""Two timelines that share 85 of 90 days: their comparison opens the files of the other five, and no others."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.days import DayRange
from backfill_assets.difference import compare
from backfill_assets.difference.difference import RowCounts
from backfill_assets.difference.find import StatesRequest, compare_states
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge.engine import DayFiles, rows_of_files
from backfill_assets.lakehouse.named_timelines import NamedTimeline, create_timeline
from backfill_assets.lakehouse.records import DayContent, DayRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import Contract
from backfill_assets.quality import measures
from backfill_assets.state.view import find_moment
from backfill_assets.timeline.rewind import RewindRequest, rewound_timeline
from backfill_assets_tests.small_lakehouse import SmallLakehouse
from backfill_assets_tests.workshop import Workshop

REVENUE = "fact_daily_revenue"
FIRST = date(2017, 3, 1)
DAYS = DayRange(FIRST, FIRST + timedelta(days=89))
CHANGED = [FIRST + timedelta(days=number) for number in (3, 20, 41, 62, 88)]
METRICS = dict.fromkeys(measures.compared_metrics(CATALOG.table(REVENUE)), 0)


def test_two_timelines_that_share_85_of_90_days_read_the_other_five_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(tmp_path, lambda: pytest.fail("Spark is asked for rows"))
    lakehouse = SmallLakehouse(workshop.settings.lakehouse)
    lakehouse.publish("one", {REVENUE: {day: [day.toordinal()] for day in DAYS}})
    lakehouse.publish("two", {REVENUE: {day: [1, 2] for day in CHANGED}})
    for name in ("one", "two"):
        rewind(lakehouse, name)
    opened: set[str] = set()

    def counting(duckdb: Any, storage: Storage, contract: type[Contract], files: DayFiles, *hashes: Any) -> Any:
        opened.update(file.path for some in files.values() for file in some)
        return rows_of_files(duckdb, storage, contract, files, *hashes)

    monkeypatch.setattr(compare, "rows_of_files", counting)
    found = compare_states(workshop.builder.lake, CATALOG.steps, StatesRequest("at-one", "at-two"), print)
    (table,) = found.tables
    how = {day.day: day.how for day in table.days}
    assert len(how) == 90 and [day for day in DAYS if how[day] == "compared"] == CHANGED
    assert len(opened) == 10 and {path.split("day=")[1][:10] for path in opened} == set(map(str, CHANGED))
    assert table.rows == RowCounts(added=5, unchanged=90)


def rewind(lakehouse: SmallLakehouse, name: str) -> NamedTimeline:
    """All 90 days as of the publication, with every figure measured."""
    moment = find_moment(lakehouse.storage, name, REVENUE)
    asked = RewindRequest(f"at-{name}", (REVENUE,), DAYS)
    made = rewound_timeline(lakehouse.storage, CATALOG.steps, asked, moment, lakehouse.now())
    return create_timeline(lakehouse.storage, made.with_days({REVENUE: measured(made)}))


def measured(made: NamedTimeline) -> dict[date, DayRecord]:
    held = made.held(REVENUE)
    contents = {day: each.content or DayContent(0, "0") for day, each in held.items()}
    return {
        day: each.model_copy(
            update={"content": DayContent(contents[day].rows, contents[day].checksum, metrics=METRICS)}
        )
        for day, each in held.items()
    }
