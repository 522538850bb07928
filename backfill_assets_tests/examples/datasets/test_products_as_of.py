"""Which entry of the catalogue counts on which day."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill_assets.examples.datasets.products import LONGEST_CATALOGUE_GAP_DAYS, products_as_of

ENTRIES = [
    ("1", "MEAT", date(2017, 3, 1)),
    ("1", "DELI", date(2017, 3, 4)),
    ("1", "MEAT", date(2017, 4, 1)),
    ("2", "FLORAL", date(2017, 3, 1)),
]


def catalogue(spark: SparkSession, entries: list[tuple[str, str, date]]) -> DataFrame:
    return spark.createDataFrame(entries, "product_id string, department string, valid_from date")


def on(day: date, spark: SparkSession, entries: list[tuple[str, str, date]]) -> dict[str, str]:
    """The departments that count on ``day``."""
    rows = products_as_of(catalogue(spark, entries)).collect()
    return {row.product_id: row.department for row in rows if row.valid_from <= day <= row.valid_until}


def test_an_entry_counts_until_the_day_before_the_next(spark: SparkSession) -> None:
    """No day has two departments of a product, and none between two entries has none."""
    rows = products_as_of(catalogue(spark, ENTRIES)).orderBy("product_id", "valid_from").collect()
    assert [tuple(row) for row in rows] == [
        ("1", "MEAT", date(2017, 3, 1), date(2017, 3, 3)),
        ("1", "DELI", date(2017, 3, 4), date(2017, 3, 31)),
        ("1", "MEAT", date(2017, 4, 1), date(2017, 5, 6)),
        ("2", "FLORAL", date(2017, 3, 1), date(2017, 4, 5)),
    ]


@pytest.mark.parametrize("day", [date(2017, 3, 3), date(2017, 3, 4), date(2017, 4, 1), date(2017, 4, 5)])
def test_what_counts_on_a_day_does_not_depend_on_how_much_is_read(day: date, spark: SparkSession) -> None:
    """A day that is built alone reads fewer days than one that is built in a range."""
    oldest = day - timedelta(days=LONGEST_CATALOGUE_GAP_DAYS)
    alone = [entry for entry in ENTRIES if oldest <= entry[2] <= day]
    assert on(day, spark, alone) == on(day, spark, ENTRIES)


def test_a_catalogue_that_is_too_old_is_not_used(spark: SparkSession) -> None:
    """A product that was not listed for five weeks is unknown, in any range that the day is built in."""
    assert on(date(2017, 4, 5), spark, ENTRIES)["2"] == "FLORAL"
    assert "2" not in on(date(2017, 4, 6), spark, ENTRIES)
