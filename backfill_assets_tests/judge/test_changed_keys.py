"""Rows of the keys that raw brought are counted by file, and left out where a file is copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge.changed_keys import KeyedFiles, count_rows_of_keys, keys_of_raw, rows_of_other_keys
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.refinement import Refinement

pytestmark = pytest.mark.data
MONDAY, TUESDAY = date(2017, 3, 6), date(2017, 3, 7)
RAW, BRONZE = CATALOG.table("raw_sales"), CATALOG.table("bronze_sales")


@pytest.fixture
def refinement() -> Refinement:
    found = CATALOG.step("bronze_sales").version().transform
    assert isinstance(found, Refinement)
    return found


def written(root: Path, table: str, day: date, name: str, columns: Mapping[str, Sequence[object]]) -> AddedFile:
    """A file with some columns of its table: the others are null."""
    path = root / table / f"day={day}" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(columns)), path)
    return AddedFile(f"day={day}/{name}.parquet", str(day), path.stat().st_size, 0, "{}")


def test_rows_of_changed_keys_are_counted_by_file_and_left_out_of_copies(
    tmp_path: Path, refinement: Refinement
) -> None:
    """A key is that of its day; a part that is missing leaves none, which is a key like any other."""

    def raw(day: date, name: str, *keys: tuple[str, str | None]) -> AddedFile:
        basket, product = zip(*keys, strict=True)
        return written(tmp_path, "raw_sales", day, name, {"basket_id": basket, "product_id": product})

    def bronze(day: date, name: str, *keys: str) -> AddedFile:
        return written(tmp_path, "bronze_sales", day, name, {"transaction_id": keys, "currency": ["EUR"] * len(keys)})

    storage = Storage(str(tmp_path))
    new = [raw(MONDAY, "new", ("1", "7"), ("1", "7"), ("2-3", "7"), ("4", None)), raw(TUESDAY, "new", ("5", "7"))]
    old = [raw(MONDAY, "old", ("1", "7"), ("5", "7"), ("6", "")), raw(TUESDAY, "old", ("1", "7"), ("6", "7"))]
    typed = [bronze(MONDAY, "all", "1-7", "2\\-3-7", "8-7", "5-7"), bronze(TUESDAY, "all", "1-7", "5-7", "9-7")]
    changed = keys_of_raw(storage, KeyedFiles(RAW, new), refinement)
    assert changed.num_rows == 4
    counts = count_rows_of_keys(storage, refinement, changed, KeyedFiles(RAW, old), [KeyedFiles(BRONZE, typed)])
    assert counts == {
        "raw_sales": {f"day={MONDAY}/old.parquet": 2},
        "bronze_sales": {f"day={MONDAY}/all.parquet": 2, f"day={TUESDAY}/all.parquet": 1},
    }
    others = rows_of_other_keys(storage, KeyedFiles(BRONZE, typed), refinement.key, changed)
    names = ("transaction_id", "currency")
    stayed = [(day, *(rows.column(name).to_pylist() for name in names)) for day, rows in others]
    assert [(day, sorted(keys), values) for day, keys, values in stayed] == [
        (MONDAY, ["5-7", "8-7"], ["EUR"] * 2),
        (TUESDAY, ["1-7", "9-7"], ["EUR"] * 2),
    ]
