"""Nothing of Python runs in Arrow's threads: an interpreter that ends while they read aborts."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

import backfill_assets
from backfill_assets.lakehouse.arrow_dataset import arrow_dataset, python_rows
from backfill_assets_tests.small_lakehouse import SmallLakehouse

DAY = date(2017, 3, 1)
SOURCES = Path(backfill_assets.__file__).parent


def test_the_files_are_read_by_arrow_itself(tmp_path: Path) -> None:
    """Newest and older versions; the rows are those of the version that is named."""
    lakehouse = SmallLakehouse(tmp_path)
    lakehouse.publish("a", {"fact": {DAY: range(2)}})
    first = lakehouse.newest("fact").version()
    lakehouse.publish("b", {"fact": {DAY: range(5)}})
    newest, older = (arrow_dataset(lakehouse.storage, "fact", version) for version in (None, first))
    assert not isinstance(newest.filesystem, fs.PyFileSystem)
    assert not isinstance(newest.filesystem.base_fs, fs.PyFileSystem)
    assert (newest.count_rows(), older.count_rows()) == (5, 2)


def test_no_other_module_lets_delta_rs_choose_the_file_system() -> None:
    """By itself it would hand Arrow one that is written in Python."""
    found = {path.name for path in SOURCES.rglob("*.py") if "to_pyarrow_" in path.read_text()}
    assert found == {"arrow_dataset.py"}


def test_a_moment_that_python_has_no_value_for_is_shown_as_text() -> None:
    """One such row must not keep the other rows of its day from being shown."""
    moments = pa.array([-62_167_219_200_000_000, 253_402_300_800_000_000, 0, None], pa.int64())
    days = pa.array([-719_528, 2_932_897, 0, None], pa.int32())
    rows = pa.table(
        {"at": moments.cast(pa.timestamp("us", "UTC")), "on": days.cast(pa.date32()), "id": range(4)},
    )
    assert python_rows(rows) == [
        {"at": "0000-01-01 00:00:00.000000Z", "on": "0000-01-01", "id": 0},
        {"at": "10000-01-01 00:00:00.000000Z", "on": "10000-01-01", "id": 1},
        {"at": datetime(1970, 1, 1, tzinfo=UTC), "on": date(1970, 1, 1), "id": 2},
        {"at": None, "on": None, "id": 3},
    ]
    assert python_rows(rows.slice(2)) == rows.slice(2).to_pylist()
    assert python_rows(rows.slice(4)) == []
