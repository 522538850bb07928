"""A timeline outlives the Delta logs of the versions that it reads through to: the publications name their files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.difference.find import find_state
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.delta_log import VersionGone, read_log
from backfill_assets.lakehouse.named_timelines import create_timeline, delete_timeline
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.state.view import View, find_moment
from backfill_assets.timeline.opened import open_timeline, sql_view
from backfill_assets.timeline.rewind import RewindRequest, new_timeline, rewound_timeline
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)
_A_CENTURY = 60 * 24 * 365 * 100
"""In minutes: the files of these tests are written today, and the clock of the log begins in 2017."""


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[SmallLakehouse]:
    found = SmallLakehouse(tmp_path)
    with clock.use(found.time):
        found.publish("one", {FACT: {FIRST: [1], SECOND: [2]}, REVENUE: {FIRST: [1, 2], SECOND: [3]}})
        found.publish("two", {REVENUE: {SECOND: [4, 5]}}, code="v2")
        yield found


def after_a_century(lakehouse: SmallLakehouse, *tables: str) -> list[str]:
    """All days are published over, old logs are cleaned up, and what is not needed is reclaimed."""
    lakehouse.minutes += _A_CENTURY
    for number in range(2):
        for table in tables:
            lakehouse.publish(
                f"{table.replace('_', '-')}-{number}", {table: {FIRST: [60 + number], SECOND: [70 + number]}}
            )
    lakehouse.minutes += _A_CENTURY
    for table in tables:
        handle = lakehouse.newest(table)
        handle.create_checkpoint()
        for version in range(handle.version()):
            (Path(lakehouse.storage.root) / table / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)
    return [path for table in tables for path in reclaim(lakehouse.publisher, table, clock_checked=True)]


def ids(opened: View, table: str) -> dict[date, list[int]]:
    rows = opened.dataset(table).to_table().sort_by("id").to_pylist()
    return {day: [row["id"] for row in rows if row["day"] == day] for day in (FIRST, SECOND)}


def test_days_that_read_through_are_kept_when_the_log_of_their_version_is_cleaned_up(
    lakehouse: SmallLakehouse,
) -> None:
    made = create_timeline(lakehouse.storage, new_timeline(lakehouse.storage, "old", "ana", lakehouse.now()))
    assert after_a_century(lakehouse, REVENUE) != []
    with pytest.raises(VersionGone):
        read_log(lakehouse.storage, REVENUE, made.base.versions[REVENUE])
    opened = open_timeline(lakehouse.storage, "old")
    assert ids(opened, REVENUE) == {FIRST: [1, 2], SECOND: [4, 5]}
    assert "versionAsOf" not in sql_view(opened, REVENUE) and opened.storage.root in sql_view(opened, REVENUE)
    held = find_state(lakehouse.storage, "old", lakehouse.now()).records([REVENUE])[REVENUE]
    assert {day: each.content.rows for day, each in held.items() if each.content} == {FIRST: 2, SECOND: 2}
    delete_timeline(lakehouse.storage, made, lakehouse.now())
    assert len(reclaim(lakehouse.publisher, REVENUE, clock_checked=True)) >= 2


def test_what_a_rewound_day_was_computed_from_is_kept_too(lakehouse: SmallLakehouse) -> None:
    """Going forward without what arrived since reads it."""
    lakehouse.publish("three", {FACT: {FIRST: [8], SECOND: [9]}})
    asked = RewindRequest("back", (REVENUE,))
    moment = find_moment(lakehouse.storage, "one", REVENUE)
    made = rewound_timeline(lakehouse.storage, CATALOG.steps, asked, moment, lakehouse.now())
    create_timeline(lakehouse.storage, made)
    assert made.moment_base is not None and made.moment_base.versions.keys() == {FACT, REVENUE}
    files = [f"{FACT}/{path}" for path in read_log(lakehouse.storage, FACT, made.moment_base.versions[FACT]).active]
    gone = after_a_century(lakehouse, FACT, REVENUE)
    assert gone and not set(files) & set(gone) and lakehouse.storage.missing(files) == []


def test_what_was_staged_for_a_timeline_goes_with_it_also_if_its_process_died_before_it_was_closed(
    lakehouse: SmallLakehouse,
) -> None:
    made = create_timeline(lakehouse.storage, new_timeline(lakehouse.storage, "old", "ana", lakehouse.now()))
    lakehouse.publish("three", {REVENUE: {FIRST: [8], SECOND: [9]}})
    staged = lakehouse.stage(f"{made.id}-x", REVENUE, {FIRST: [10]})
    staged.open()
    (file,) = [f"{REVENUE}/{each.path}" for each in staged.days()[FIRST].files]
    assert file not in after_a_century(lakehouse, REVENUE)
    delete_timeline(lakehouse.storage, made, lakehouse.now())
    Timeline(lakehouse.storage, REVENUE, staged.name).open()
    assert file in reclaim(lakehouse.publisher, REVENUE, clock_checked=True)
