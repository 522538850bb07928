from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from backfill_assets.days import TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.landing.deletions import (
    as_deletions,
    days_with_deletions,
    deletions_by,
    key_line,
    rows_that_stand,
    standing_rows,
    tombstones,
    unreadable,
)
from backfill_assets.landing.raw_rows import rows_of_lines
from backfill_assets_tests.strategies.raw_sales import DAY, marker, raw_sales

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OTHER = date(2017, 3, 2)
UNSOUND = {"quantity": "many"}


def lines(rows: DataFrame) -> Counter[Any]:
    return Counter((row["day"], row["record_kind"], row["source_line"], row["rescued"]) for row in rows.collect())


def received(*found: tuple[int, str | None]) -> Counter[Any]:
    return Counter((DAY, "received", line, rescued) for line, rescued in found)


def test_each_deletion_cancels_one_equal_row(spark: SparkSession) -> None:
    """Sound or not; a row that came back stands, and so does one that differs in an undeclared field alone."""
    first = raw_sales(spark, [{}, {"source_line": 2, "sales_value": "2.00"}, {"source_line": 3, **UNSOUND}])
    back = raw_sales(spark, [{"source_line": 1}, {"source_line": 1, "rescued": '{"a":"1"}'}])
    raw = first.unionByName(as_deletions(first)).unionByName(back)
    assert lines(standing_rows(raw)) == received((1, None), (1, '{"a":"1"}'))


def test_a_deleted_event_does_not_stand(spark: SparkSession) -> None:
    """Its deletion does not say when it arrived, and neither does its place, as the path of a landed file does."""
    event = {"source_file": "kafka:sales/0", "arrival_day": OTHER}
    rows = raw_sales(spark, [{**event, "source_line": 1}, {**event, "source_line": 2}, {"source_line": 3}])
    raw = rows.unionByName(as_deletions(rows.where("source_line <> 2")))
    assert [(row["source_line"], row["arrival_day"]) for row in standing_rows(raw).collect()] == [(2, OTHER)]


def test_a_deleted_marker_is_no_marker(spark: SparkSession) -> None:
    """It says that a newer version is on another day, which the source has taken back."""
    raw = raw_sales(spark, [{}, marker("2017-03-20T00:00:00.000000Z", 7, OTHER)])
    deleted = as_deletions(raw.where("record_kind = 'supersession'"))
    assert lines(standing_rows(raw.unionByName(deleted))) == received((1, None))


def test_only_days_that_may_have_deletions_are_looked_through(spark: SparkSession) -> None:
    """What a day holds says it. A foreign write does not say, and neither does an earlier state of the lakehouse."""
    clean, deleted = (DayContent(1, "1", metrics=each) for each in ({"received": 1}, {"received": 1, "deleted": 1}))
    states = {
        TableDay("raw_sales", day): DayState("raw_sales", day, "p", 1, "", content)
        for day, content in ((DAY, deleted), (OTHER, clean))
    }
    assert days_with_deletions(states, CATALOG.table("raw_sales"), [DAY, OTHER, date(2017, 3, 3)]) == [DAY]
    assert days_with_deletions({}, CATALOG.table("raw_sales"), [OTHER]) == [OTHER]
    assert days_with_deletions({}, CATALOG.table("bronze_sales"), [OTHER]) == []

    row = raw_sales(spark, [{}])
    raw = row.unionByName(as_deletions(row)).unionByName(raw_sales(spark, [{"day": OTHER}]))
    read: list[Sequence[date]] = []

    def rows(days: Iterable[date]) -> DataFrame:
        read.append(list(days))
        return raw.where(raw["day"].isin(list(days)))

    found = rows_that_stand(states, CATALOG.table("raw_sales"), [DAY, OTHER], rows)
    assert [row["day"] for row in found.collect()] == [OTHER]
    assert read == [[DAY], [OTHER]]


@pytest.mark.parametrize(
    ("key", "days"),
    [
        ("EUR", [DAY, OTHER]),
        ('{"currency": "EUR"}', [DAY, OTHER]),
        ('{"currency": "EUR", "rate_day": "2017-03-02"}', [OTHER]),
        ('{"rate_day": "2017-03-02"}', []),
        ("CHF", []),
    ],
)
def test_a_key_is_one_text_or_an_object_and_may_name_a_day(
    spark: SparkSession, tmp_path: Path, key: str, days: list[date]
) -> None:
    """Of a source whose rows have their day as a part of what they are, a key alone deletes all of its days."""
    source = CATALOG.step("raw_fx_rates").source
    assert source is not None
    shape = "value string, source_file string, source_line bigint, arrival_day date"
    rates = [json.dumps({"currency": "EUR", "rate_day": str(day), "rate": "1.1"}) for day in (DAY, OTHER)]
    landed = [(rate, "kafka:rates/0", number, OTHER) for number, rate in enumerate(rates)]
    raw = rows_of_lines(spark, source, spark.createDataFrame(landed, shape), str(tmp_path / "key"))
    events = spark.createDataFrame([(key, "kafka:rates/0", 9, OTHER)], shape)
    lines_of_keys = events.withColumn("value", key_line(source, F.col("value")))
    tombs = tombstones(spark, source, lines_of_keys, str(tmp_path / "key"))
    found = deletions_by(source, raw, tombs).collect()
    assert sorted(row["day"] for row in found) == days
    assert {row["record_kind"] for row in found} <= {"deletion"}
    assert tombs.where(unreadable(tombs)).count() == ("currency" not in key and "rate_day" in key)
