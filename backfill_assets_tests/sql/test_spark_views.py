"""``backfill_assets.read``: all tables of one publication as temporary views of Spark SQL, also through Connect."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import backfill_assets
from backfill_assets import clock
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.named_timelines import create_timeline
from backfill_assets.state.view import find_moment
from backfill_assets.timeline.rewind import RewindRequest, rewound_timeline
from backfill_assets_tests.small_lakehouse import SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REVENUE, OTHER = "fact_daily_revenue", "others"
DAY, NEXT = date(2017, 3, 1), date(2017, 3, 2)


def ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.collect())


def test_views_are_of_one_publication_and_stay_so(each_spark: SparkSession, tmp_path: Path) -> None:
    lakehouse = SmallLakehouse(tmp_path / "lakehouse")
    root = str(tmp_path / "lakehouse")
    with clock.use(lakehouse.time):
        lakehouse.publish("one", {REVENUE: {DAY: [1], NEXT: [2]}, OTHER: {DAY: [10]}})
        lakehouse.publish("two", {REVENUE: {NEXT: [3]}}, code="v2")
        moment = find_moment(lakehouse.storage, "one", REVENUE)
        asked = RewindRequest("back", (REVENUE,))
        rewound = rewound_timeline(lakehouse.storage, CATALOG.steps, asked, moment, lakehouse.now())
        create_timeline(lakehouse.storage, rewound)
        now = backfill_assets.read(each_spark, lakehouse=root)
        lakehouse.publish("three", {REVENUE: {DAY: [7]}, OTHER: {DAY: [70]}})
        both = each_spark.sql(f"SELECT r.id + o.id AS id FROM {REVENUE} r JOIN {OTHER} o USING (day)")  # noqa: S608
        assert ids(both) == [11], "as it was when it was read"
        then = backfill_assets.read(each_spark, as_of="one", lakehouse=root)
        back = backfill_assets.read(each_spark, on="back", tables=[REVENUE], lakehouse=root)
        assert ids(now[REVENUE]) == [1, 3] and ids(then[REVENUE]) == ids(back[REVENUE]) == [1, 2]
        assert set(now) == set(then) == {REVENUE, OTHER} and set(back) == {REVENUE}
        with pytest.raises(InvalidRequest, match="has no table 'nothing'"):
            backfill_assets.read(each_spark, tables=["nothing"], lakehouse=root)
