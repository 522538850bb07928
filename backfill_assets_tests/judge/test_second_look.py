"""How many rows gave way to one of equal key and version, and where two are; how many rejected ones came again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.judge.second_look import measure_corrected, measure_duplicates
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.deletions import as_deletions
from backfill_assets.model.declaration import OCCURRENCE, Metrics
from backfill_assets_tests.judge.written_rows import written
from backfill_assets_tests.strategies.by_the_query import rejected
from backfill_assets_tests.strategies.raw_sales import DAY, marker, raw_sales

SOURCE = SALES.source
REFINEMENT = SALES.refinement()

NEXT_DAY = date(2017, 3, 2)
FILE = "sales/2017-03-01/a.jsonl.gz"
BRONZE = CATALOG.table("bronze_sales")


def _looked_at(
    folder: Path, measure: Callable[..., dict[date, Metrics]], raw: DataFrame, rejects: DataFrame | None = None
) -> dict[date, Metrics]:
    """``raw`` rows and those of them that are ``rejects``, in files."""
    storage = Storage(str(folder))
    received = written(storage, raw, CATALOG.table("raw_sales"))
    broken = rejected(raw, REFINEMENT) if rejects is None else rejects
    return measure(storage, SOURCE, BRONZE, received, written(storage, broken, CATALOG.table("quarantine_sales")))


def test_equal_versions_are_counted_and_newer_ones_are_not(spark: SparkSession, tmp_path: Path) -> None:
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
    assert _looked_at(tmp_path, measure_duplicates, raw) == {
        DAY: {
            "duplicates": 3,
            "duplicates_identical": 2,
            "duplicates_example": f"{FILE}:1 and sales/2017-03-02/b.jsonl.gz:3",
        }
    }


def test_what_the_source_took_back_is_no_duplicate(spark: SparkSession, tmp_path: Path) -> None:
    """Line 2 is taken back: a refresh, say, found another one in its place. A marker that is taken back is no row."""
    newer = marker("2017-03-02T00:00:00.000000Z", 5, NEXT_DAY)
    raw = raw_sales(spark, [{}, {}, {"retail_disc": "9.99"}, newer])
    again = raw_sales(spark, [{"retail_disc": "1.00", "source_line": 2}])
    taken_back = as_deletions(raw.where("source_line = 2 or record_kind = 'supersession'"))
    rows = raw.unionByName(taken_back)
    counted = {"duplicates": 1, "duplicates_identical": 0, "duplicates_example": f"{FILE}:1 and {FILE}:3"}
    assert _looked_at(tmp_path / "one", measure_duplicates, rows) == {DAY: counted}
    found = _looked_at(tmp_path / "two", measure_duplicates, rows.unionByName(again))
    assert found == {DAY: counted | {"duplicates": 2}}


def test_identical_lines_are_rows_of_their_own_where_they_are_numbered(spark: SparkSession, tmp_path: Path) -> None:
    raw = raw_sales(spark, [{}, {}, {"retail_disc": "9.99"}])
    numbered = replace(BRONZE, key=(*BRONZE.key, OCCURRENCE))
    storage = Storage(str(tmp_path))
    files = written(storage, raw, CATALOG.table("raw_sales"))
    assert measure_duplicates(storage, SOURCE, numbered, files, {})[DAY]["duplicates"] == 1


def test_rejected_rows_that_came_again_sound_are_counted(spark: SparkSession, tmp_path: Path) -> None:
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
    found = _looked_at(tmp_path / "some", measure_corrected, raw)
    assert found == {DAY: {"corrected": 3}, NEXT_DAY: {"corrected": 1}}
    nothing = rejected(raw, REFINEMENT).limit(0)
    assert _looked_at(tmp_path / "none", measure_corrected, raw, nothing) == {}
