"""Which entry of the catalogue counts on which day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from pyspark.sql import SparkSession

from backfill_assets.examples.datasets.products import LONGEST_CATALOGUE_GAP_DAYS, products_as_of

ENTRIES = [
    ("1", "MEAT", date(2017, 3, 1)),
    ("1", "DELI", date(2017, 3, 4)),
    ("1", "MEAT", date(2017, 4, 1)),
    ("2", "FLORAL", date(2017, 3, 1)),
]


Entries = Sequence[tuple[str, str, date]]


def periods(spark: SparkSession, entries: Entries) -> list[tuple[Any, ...]]:
    catalogue = spark.createDataFrame(entries, "product_id string, department string, valid_from date")
    return sorted(tuple(row) for row in products_as_of(catalogue).collect())


def on(day: date, found: Sequence[tuple[Any, ...]]) -> dict[str, str]:
    """The departments that count on ``day``."""
    return {product: department for product, department, first, last in found if first <= day <= last}


def test_an_entry_counts_until_the_day_before_the_next_and_for_five_weeks(spark: SparkSession) -> None:
    """No day has two departments of a product. One that was not listed for five weeks is unknown."""
    found = periods(spark, ENTRIES)
    assert found == [
        ("1", "DELI", date(2017, 3, 4), date(2017, 3, 31)),
        ("1", "MEAT", date(2017, 3, 1), date(2017, 3, 3)),
        ("1", "MEAT", date(2017, 4, 1), date(2017, 5, 6)),
        ("2", "FLORAL", date(2017, 3, 1), date(2017, 4, 5)),
    ]
    for day in (date(2017, 3, 3), date(2017, 3, 4), date(2017, 4, 1), date(2017, 4, 5)):
        oldest = day - timedelta(days=LONGEST_CATALOGUE_GAP_DAYS)
        alone = [entry for entry in ENTRIES if oldest <= entry[2] <= day]
        assert on(day, periods(spark, alone)) == on(day, found), "a day that is built alone reads fewer days"
