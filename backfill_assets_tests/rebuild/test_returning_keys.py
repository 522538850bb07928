"""Which keys are on several days, beside a model that keeps them all in sets."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Source
from backfill_assets.rebuild import returning_keys as module
from backfill_assets.rebuild.returning_keys import KeyFiles, returning_keys
from backfill_assets_tests.quality.kernels_in_use import hashed_by
from backfill_assets_tests.strategies.xxh64 import chained

SOURCE = Source("till", "sold", ("till", "receipt"), "sent", ("till", "receipt", "sold", "sent"))
DAYS = [date(2017, 3, day) for day in (1, 2, 3)]
Row = tuple[str | None, str | None, bool]
"""Till, receipt, and whether the row is on the day it arrived."""
ROW: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from(["a", "b", "", None]),
    st.sampled_from(["1", "2", "3", "", None]),
    st.sampled_from([False] * 5 + [True]),
)
TABLE = st.lists(st.tuples(st.sampled_from(DAYS), st.lists(ROW, max_size=4)), max_size=5)
"""Files with their days; a day may have several, or none."""
Files = list[tuple[date, list[Row]]]


def write(root: Path, folder: str, files: Files) -> KeyFiles:
    by_day: dict[date, list[AddedFile]] = {}
    for (day, rows), number in zip(files, count(), strict=False):
        tills, receipts, astray = ([row[n] for row in rows] for n in range(3))
        columns = {
            "till": pa.array(tills, pa.string()),
            "receipt": pa.array(receipts, pa.string()),
            "day_is_arrival": pa.array(astray, pa.bool_()),
        }
        path = root / folder / f"{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path)
        by_day.setdefault(day, []).append(AddedFile(path.name, str(day), path.stat().st_size, 0, "{}"))
    return KeyFiles(folder, by_day)


def days_of_keys(files: Files) -> dict[tuple[str, str], set[date]]:
    days: dict[tuple[str, str], set[date]] = {}
    for day, rows in files:
        for till, receipt, astray in rows:
            if till and receipt and not astray:
                days.setdefault((till, receipt), set()).add(day)
    return days


def expected(arrived: Files, existing: Files) -> tuple[set[int], set[date]]:
    new, old = days_of_keys(arrived), days_of_keys(existing)
    again = {key for key, days in new.items() if len(days | old.get(key, set())) > 1}
    hashes = {chained(key) for key in again}
    return hashes, {day for key in again for day in old.get(key, ())}


@given(TABLE, TABLE)
@example([(DAYS[0], [("a", "1", False)]), (DAYS[1], [("a", "1", False)])], [])
@example([(DAYS[0], [("a", "1", False)])], [(DAYS[0], [("a", "1", False)]), (DAYS[2], [("a", "1", False)])])
@example([], [(DAYS[0], [("a", "1", False)])])
def test_keys_on_several_days_are_found_and_no_others(arrived: Files, existing: Files) -> None:
    """One that arrived twice on one day does not return; nor does one that only was there on several days."""
    with TemporaryDirectory() as folder, hashed_by("numpy"):
        files = [write(Path(folder), name, rows) for name, rows in (("new", arrived), ("raw", existing))]
        found = returning_keys(Storage(folder), SOURCE, *files)
    assert found is not None
    assert (set(found.hashes), set(found.days)) == expected(arrived, existing)


def test_more_than_fits_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path, "new", [(DAYS[0], [("a", "1", False)])])
    size = sum(file.size for file in files.files())
    monkeypatch.setattr(module, "MOST_BYTES", size)
    assert returning_keys(Storage(str(tmp_path)), SOURCE, files, KeyFiles("raw", {})) is not None
    monkeypatch.setattr(module, "MOST_BYTES", size - 1)
    assert returning_keys(Storage(str(tmp_path)), SOURCE, files, KeyFiles("raw", {})) is None


def test_a_file_without_the_column_has_its_rows_on_their_days(tmp_path: Path) -> None:
    """Files from before there was one."""
    (tmp_path / "raw").mkdir()
    pq.write_table(pa.table({"till": ["a"], "receipt": ["1"]}), tmp_path / "raw" / "old.parquet")
    there = KeyFiles("raw", {DAYS[0]: [AddedFile("old.parquet", str(DAYS[0]), 1, 0, "{}")]})
    arrived = write(tmp_path, "new", [(DAYS[1], [("a", "1", False)])])
    found = returning_keys(Storage(str(tmp_path)), SOURCE, arrived, there)
    assert found is not None and found.days == {DAYS[0]} and len(found.hashes) == 1


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("bigint", ("7", "07")),
        ("decimal(9,2)", ("7", "7.0")),
        ("date", ("2017-03-01", "2017-03-01")),
        ("timestamp", ("2017-03-01T10:00:00Z", "2017-03-01T10:00:00.0Z")),
    ],
)
def test_keys_of_equal_values_are_one_here_and_in_spark(
    spark: SparkSession, tmp_path: Path, kind: str, texts: tuple[str, str]
) -> None:
    """Both renderings find the rows of a key that is written otherwise on each day; what is no value stands as is."""
    source = replace(SOURCE, types={"receipt": kind})
    arrived = write(tmp_path, "new", [(DAYS[0], [("a", texts[0], False), ("a", "x", False), ("b", texts[0], False)])])
    there = write(tmp_path, "raw", [(DAYS[1], [("a", texts[1], False), ("c", texts[1], False)])])
    found = returning_keys(Storage(str(tmp_path)), source, arrived, there)
    assert found is not None and found.days == {DAYS[1]} and len(found.hashes) == 1
    chosen = [found.rows(spark.read.parquet(str(tmp_path / name)), source).collect() for name in ("new", "raw")]
    assert [[(row["till"], row["receipt"]) for row in rows] for rows in chosen] == [[("a", text)] for text in texts]


def test_a_value_that_only_spark_reads_is_left_to_it(tmp_path: Path) -> None:
    """Of a decimal with many places, Spark and Arrow write small values in different ways."""
    files = write(tmp_path, "new", [(DAYS[0], [("a", "7", False)])])
    source = replace(SOURCE, types={"receipt": "decimal(18,9)"})
    assert returning_keys(Storage(str(tmp_path)), source, files, KeyFiles("raw", {})) is None


def test_spark_chooses_the_rows_of_the_keys_that_were_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hashes them alike, in the order of the key; of very many keys it looks at all rows."""
    arrived = write(tmp_path, "new", [(DAYS[0], [("a", "1", False), ("b", "2", False), ("1", "a", False)])])
    there = write(tmp_path, "raw", [(DAYS[1], [("a", "1", False), ("é", "3", False)])])
    found = returning_keys(Storage(str(tmp_path)), SOURCE, arrived, there)
    assert found is not None
    rows = spark.read.parquet(str(tmp_path / "new"))
    assert [(row["till"], row["receipt"]) for row in found.rows(rows, SOURCE).collect()] == [("a", "1")]
    monkeypatch.setattr(module, "MOST_NAMED", 0)
    assert found.rows(rows, SOURCE).count() == 3
