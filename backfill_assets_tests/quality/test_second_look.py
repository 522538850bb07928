"""How many rows gave way to one of equal key and version, and where two are; how many rejected ones came again."""

from __future__ import annotations

from datetime import date
from typing import Any

from pyspark.sql import SparkSession

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.model.refinement import rejected
from backfill_assets.quality.second_look import measure_corrected, measure_duplicates
from backfill_assets_tests.strategies.raw_sales import DAY, marker, raw_sales

SOURCE = SALES.source
REFINEMENT = SALES.refinement()

NEXT_DAY = date(2017, 3, 2)
FILE = "sales/2017-03-01/a.jsonl.gz"


def test_equal_versions_are_counted_and_newer_ones_are_not(spark: SparkSession) -> None:
    """Lines 1 to 3 are identical, 4 has other content, 5 is newer, 6 is unsound, 7 is another key, 8 a marker."""
    rows: list[dict[str, Any]] = [
        *({}, {"sales_value": "0.5"}, {"source_file": "sales/2017-03-02/b.jsonl.gz"}),
        {"retail_disc": "9.99"},
        {"updated_at": "2017-03-02T00:00:00Z"},
        {"quantity": "many"},
        {"product_id": "7"},
        marker("2017-03-02T00:00:00.000000Z", 5, NEXT_DAY),
        {"day": NEXT_DAY},
    ]
    raw = raw_sales(spark, rows)
    found = measure_duplicates(raw, rejected(raw, REFINEMENT), SOURCE, CATALOG.table("bronze_sales"), [DAY, NEXT_DAY])
    assert found[DAY] == {
        "duplicates": 3,
        "duplicates_identical": 2,
        "duplicates_example": f"{FILE}:1 and sales/2017-03-02/b.jsonl.gz:3",
    }
    assert found[NEXT_DAY] == {"duplicates": 0, "duplicates_identical": 0, "duplicates_example": ""}


def test_rejected_rows_that_came_again_sound_are_counted(spark: SparkSession) -> None:
    """1 came again with a newer version, 2 with an older one, 3 with its version, 4 never, 5 for another product.

    Of 6 the version cannot be read, and it came again on its day; 7 came again, and is rejected again.
    """
    newer, older = {"updated_at": "2017-03-02T00:00:00Z"}, {"updated_at": "2017-02-28T00:00:00Z"}
    broken = {"quantity": "many"}
    rows: list[dict[str, Any]] = [
        *({"basket_id": "1", **broken}, {"basket_id": "1", **newer}),
        *({"basket_id": "2", **broken}, {"basket_id": "2", **older}),
        *({"basket_id": "3", **broken}, {"basket_id": "3"}),
        {"basket_id": "4", **broken},
        *({"basket_id": "5", **broken}, {"basket_id": "5", "product_id": "7"}),
        *({"basket_id": "6", "updated_at": "yesterday"}, {"basket_id": "6"}),
        *({"basket_id": "7", **broken}, {"basket_id": "7", **newer, **broken}),
        *({"basket_id": "8", "day": NEXT_DAY, **broken}, {"basket_id": "8", "day": NEXT_DAY}),
    ]
    raw = raw_sales(spark, rows)
    table, days = CATALOG.table("bronze_sales"), [DAY, NEXT_DAY, date(2017, 3, 3)]
    found = measure_corrected(raw, rejected(raw, REFINEMENT), SOURCE, table, days)
    assert [found[day]["corrected"] for day in days] == [3, 1, 0]
    assert measure_corrected(raw, None, SOURCE, table, [DAY]) == {DAY: {"corrected": 0}}
