"""Nothing of Python runs in Arrow's threads: an interpreter that ends while they read aborts."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from pyarrow import fs

import backfill_assets
from backfill_assets.lakehouse.arrow_dataset import arrow_dataset
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
    found = {path.name for path in SOURCES.rglob("*.py") if "to_pyarrow" in path.read_text()}
    assert found == {"arrow_dataset.py"}
