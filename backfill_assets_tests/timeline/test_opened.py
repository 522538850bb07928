"""A timeline is read by any engine: its own days, and all others as of its base."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.named_timelines import create_timeline, delete_timeline
from backfill_assets.state.view import View, find_moment
from backfill_assets.timeline.opened import open_timeline, plain_table, sql_view
from backfill_assets.timeline.rewind import RewindRequest, rewound_timeline
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
REVENUE, OTHER = "fact_daily_revenue", "others"
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[SmallLakehouse]:
    """In a folder with a space and a percent sign in its name."""
    found = SmallLakehouse(tmp_path / "the 10% lake")
    with clock.use(found.time):
        found.publish("one", {REVENUE: {FIRST: [1, 2], SECOND: [3]}, OTHER: {FIRST: [7]}})
        found.publish("two", {REVENUE: {SECOND: [4, 5]}}, code="v2")
        yield found


@pytest.fixture
def opened(lakehouse: SmallLakehouse) -> View:
    """The second day as it was before its second publication."""
    moment = find_moment(lakehouse.storage, "one", REVENUE)
    asked = RewindRequest("back", (REVENUE,))
    create_timeline(
        lakehouse.storage, rewound_timeline(lakehouse.storage, CATALOG.steps, asked, moment, lakehouse.now())
    )
    lakehouse.publish("three", {REVENUE: {FIRST: [8], SECOND: [9]}})
    return open_timeline(lakehouse.storage, "back")


def ids_by_day(opened: View, table: str) -> dict[date, list[int]]:
    rows = opened.dataset(table).to_table().sort_by("id").to_pylist()
    return {day: [row["id"] for row in rows if row["day"] == day] for day in (FIRST, SECOND)}


def test_own_days_and_those_of_the_base_are_read(opened: View) -> None:
    assert opened.tables == [REVENUE, OTHER]
    assert ids_by_day(opened, REVENUE) == {FIRST: [1, 2], SECOND: [3]}
    assert ids_by_day(opened, OTHER) == {FIRST: [7], SECOND: []}
    one_day = opened.dataset(REVENUE).to_table(filter=pc.field("day") == SECOND)
    assert one_day.column("id").to_pylist() == [3]
    with pytest.raises(InvalidRequest, match="no days of nothing"):
        opened.dataset("nothing")


def test_a_plain_table_names_the_files_by_their_addresses(opened: View, lakehouse: SmallLakehouse) -> None:
    address = plain_table(opened, REVENUE)
    assert plain_table(opened, REVENUE) == address
    (log,) = (Path(address) / "_delta_log").glob("*.json")
    adds = [found["add"] for line in log.read_text().splitlines() if "add" in (found := json.loads(line))]
    paths = {add["partitionValues"]["day"]: Path(unquote(urlparse(add["path"]).path)) for add in adds}
    assert {day: pq.read_table(path, partitioning=None).num_rows for day, path in paths.items()} == {
        str(FIRST): 2,
        str(SECOND): 1,
    }
    own = f"CREATE OR REPLACE TEMPORARY VIEW {REVENUE} USING delta OPTIONS (path '"
    assert sql_view(opened, REVENUE).startswith(own)
    assert "versionAsOf '" in sql_view(opened, OTHER)
    assert opened.timeline is not None
    delete_timeline(lakehouse.storage, opened.timeline, lakehouse.now())
    assert not log.exists() and all(path.exists() for path in paths.values())
