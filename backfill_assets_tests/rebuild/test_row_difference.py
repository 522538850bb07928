"""Any order of deliveries, corrections and refreshes ends as one delivery of what the source has in the end.

``REFRESH_SEED`` draws the deliveries of a run again.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import date, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame

from backfill_assets.landing.deletions import standing_rows
from backfill_assets.model.deletion import DELETION
from backfill_assets.rebuild.refresh import count_rows, row_difference
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.raw_sales import raw_sales

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = date(2017, 3, 1)
Delivery = list[tuple[int, int, str | None]]
"""The lines of an arrival day: the number of the file, what is in the line, and an undeclared field."""
ARRIVAL_DAYS, REFRESHES = 12, 3


def drawn_delivery(chance: random.Random) -> Delivery:
    lines = range(chance.randint(0, 6))
    return [(chance.randint(1, 2), chance.randint(1, 4), chance.choice([None, None, '{"a":"1"}'])) for _ in lines]


def rows_of(spark: SparkSession, states: list[Delivery]) -> DataFrame:
    """The files of each arrival day as they are read; every second line is of the day before, as late rows are."""
    found: list[dict[str, Any]] = []
    for number, delivery in enumerate(states):
        arrival = FIRST + timedelta(days=number * 2)
        for place, (file, content, rescued) in enumerate(delivery, start=1):
            day = arrival - timedelta(days=content % 2)
            path = f"sales/{arrival}/{file}.jsonl.gz"
            row = {"day": day, "arrival_day": arrival, "source_file": path, "source_line": place}
            found.append({**row, "sales_value": f"{content}.00", "rescued": rescued})
    return raw_sales(spark, found)


def contents(rows: DataFrame) -> Counter[Any]:
    names = ("arrival_day", "day", "sales_value", "rescued")
    return Counter(tuple(row[name] for name in names) for row in rows.collect())


@pytest.mark.hypothesis
def test_refreshes_end_as_the_source_does(spark: SparkSession) -> None:
    """`make generated` draws more. Hypothesis would begin with empty deliveries, at full price."""
    for _ in range(drawn(1)):
        seed = int(os.environ.get("REFRESH_SEED") or random.randrange(2**32))
        print(f"REFRESH_SEED={seed}")
        chance = random.Random(seed)
        assert_end_as_the_source_does(
            spark, [[drawn_delivery(chance) for _ in range(ARRIVAL_DAYS)] for _ in range(REFRESHES)]
        )


def assert_end_as_the_source_does(spark: SparkSession, history: list[list[Delivery]]) -> None:
    """Raw only grows. After each refresh, what is left of it is the source, and a second look finds nothing."""
    raw = [raw_sales(spark, []).localCheckpoint()]
    for states in history:
        source = rows_of(spark, states)
        difference = row_difference(source, standing_rows(_all(raw))).localCheckpoint()
        counted = Counter((row["record_kind"]) for row in difference.collect())
        sums = [sum(each[at] for each in count_rows(difference, ())[0].values()) for at in (0, 1)]
        assert sums == [counted["received"], counted[DELETION]]
        raw.append(difference)
        assert contents(standing_rows(_all(raw))) == contents(source)
        assert row_difference(source, standing_rows(_all(raw))).count() == 0


def _all(parts: list[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, parts)


def test_a_row_that_moved_stays_and_the_copy_that_is_gone_is_deleted(spark: SparkSession) -> None:
    """Of three equal rows the source has two: the one that is where it was, and one that took another line."""
    held = rows_of(spark, [[(1, 1, None), (1, 1, None), (1, 1, None), (1, 2, None)]])
    source = rows_of(spark, [[(1, 2, None), (1, 1, None), (2, 1, None)]])
    (row,) = row_difference(source, held).collect()
    assert (row["record_kind"], row["source_line"], row["arrival_day"]) == (DELETION, 3, None)
    assert row["source_file"] == f"sales/{FIRST}/1.jsonl.gz"
