"""Notes of days whose files are gone: they count as long as a file of the day is missing. No JVM."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from backfill_assets.days import TableDay
from backfill_assets.state.damage import damaged_days, note_damage
from backfill_assets_tests.small_lakehouse import SmallLakehouse

DAY = date(2017, 3, 1)


def test_files_of_file_managers_among_the_notes_are_no_notes(tmp_path: Path) -> None:
    """They lie beside the folders of tables, or in one, and status reads all that is there."""
    small = SmallLakehouse(tmp_path)
    small.publish("first", {"bronze_sales": {DAY: [1]}})
    (path,) = small.newest("bronze_sales").file_uris()
    Path(path).unlink()
    note_damage(small.storage, "bronze_sales", DAY, ["gone"])
    for stray in (".DS_Store", "bronze_sales/.DS_Store", f"bronze_sales/._{DAY}.json"):
        (tmp_path / "_damage" / stray).write_bytes(b"")
    assert list(damaged_days(small.storage, {"bronze_sales": small.newest("bronze_sales").version()})) == [
        TableDay("bronze_sales", DAY)
    ]
