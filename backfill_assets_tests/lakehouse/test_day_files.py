"""Rows of many days, in any order, become one file a day that holds just them, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import day_files
from backfill_assets.lakehouse.day_files import DayFolders, write_days

FIRST = date(2017, 3, 1)
COLUMNS = pa.schema([("text", pa.string()), ("moment", pa.timestamp("us", tz="UTC"))])
MOMENT = datetime(2017, 3, 1, 10, tzinfo=UTC)


def batches(parts: list[list[int]]) -> Iterator[pa.RecordBatch]:
    """A row for each number: its day, by how long it is after the first."""
    for part in parts:
        yield pa.RecordBatch.from_pydict(
            {
                "day": pa.array([FIRST + timedelta(days=each) for each in part], pa.date32()),
                "moment": pa.array([MOMENT] * len(part), pa.timestamp("us", tz="UTC")),
                "text": pa.array([f"of day {each}" for each in part], pa.string()),
            }
        )


def folders(root: Path) -> DayFolders:
    return DayFolders(str(root), "raw/_timelines/run", "write-id=w1", COLUMNS, ("text",))


@settings(max_examples=30, deadline=None)
@given(parts=st.lists(st.lists(st.integers(0, 4), max_size=40), max_size=6))
def test_each_row_is_in_the_file_of_its_day(tmp_path_factory: pytest.TempPathFactory, parts: list[list[int]]) -> None:
    root = tmp_path_factory.mktemp("lake")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(day_files, "_ROWS_OF_A_GROUP", 5)
        patch.setattr(day_files, "_ROWS_AT_ONCE", 12)
        files = write_days(batches(parts), folders(root), "part-0")
    wanted = Counter(number for part in parts for number in part)
    assert {file.day: file.rows for file in files} == {
        str(FIRST + timedelta(days=each)): count for each, count in wanted.items()
    }
    for file in files:
        assert file.path == f"write-id=w1/day={file.day}/part-0.parquet"
        whole = root / "raw/_timelines/run" / file.path
        assert file.size == whole.stat().st_size
        rows = pq.read_table(whole, partitioning=None, page_checksum_verification=True)
        assert rows.schema.equals(COLUMNS)
        assert set(rows["text"].to_pylist()) == {f"of day {(date.fromisoformat(file.day) - FIRST).days}"}


def test_a_row_without_a_day_is_refused(tmp_path: Path) -> None:
    (batch,) = batches([[0, 1]])
    nowhere = batch.set_column(0, "day", pa.array([FIRST, None], pa.date32()))
    with pytest.raises(PublicationRefused, match="a row without a day was computed"):
        write_days([nowhere], folders(tmp_path), "part-0")
