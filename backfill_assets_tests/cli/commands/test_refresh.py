"""What a refresh refuses and reports without Spark; stories/test_refresh.py carries it out."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.cli.commands import refresh as command
from backfill_assets.landing.zone import LandedFile
from backfill_assets.rebuild.changed_files import ArrivalFiles
from backfill_assets_tests.cli.command import Backfill

DAY, LATE = date(2017, 3, 1), date(2017, 2, 28)


def landed(name: str) -> LandedFile:
    return LandedFile("sales", DAY, f"sales/{DAY}/{name}.jsonl.gz", 1, "00")


def test_only_a_raw_table_is_read_from_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which tables are."""
    backfill = Backfill(tmp_path, monkeypatch)
    failed = backfill("refresh", "bronze_sales", "--days", DAY, exit_code=1)
    assert "bronze_sales is not read from a source." in failed.stderr and "raw_sales" in failed.stderr


def test_the_preview_counts_by_arrival_day_and_by_event_day(capsys: pytest.CaptureFixture[str]) -> None:
    """Files and rows of an arrival day; then the days whose rows change, which is what has to be built again."""
    files = ArrivalFiles(DAY, unchanged=(landed("a"),), changed=(landed("b"),), gone=("sales/x",))
    counts = {(DAY, DAY): (3, 4), (DAY, LATE): (0, 1)}
    command._report_preview([files], counts, False)
    shown = capsys.readouterr().out
    assert "3" in shown and "5" in shown.split("2017-03-01", 2)[1]
    assert "2017-02-28: 0 rows would be added, 1 deleted" in shown
    assert "2017-03-01: 3 rows would be added, 4 deleted" in shown
    assert "--dry-run" in shown
    command._report_preview([ArrivalFiles(DAY, unchanged=(landed("a"),))], {}, False)
    assert "Raw has just what the source has" in capsys.readouterr().out
