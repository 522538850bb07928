"""Which landed files of a batch are read: what is wrong with one is reported, and ends no stream."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.zone import LandingZone
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.stream.landed import LandingReading
from backfill_assets_tests.small_lakehouse import SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHOLE = gzip.compress(b"{}\n" * 1000)


def no_spark() -> SparkSession:
    raise AssertionError("Which files are new is known without Spark.")


class Landed:
    """A stream from the landing folder below ``home``, and what it has reported."""

    def __init__(self, home: Path) -> None:
        self.folder, self.reports = home / "landing" / "sales", list[str]()
        small = SmallLakehouse(home / "lakehouse")
        lake = Lake(CATALOG, small.storage, small.publisher, LandingZone(home / "landing"), no_spark, "")
        self.reading = LandingReading(lake, CATALOG.step("raw_sales"), RunInfo("", "", ""), self.reports.append)

    def land(self, name: str, content: bytes = WHOLE) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def new(self, *paths: Path) -> list[str]:
        return [file.path for file in self.reading.new_files([*self.reading._landed_again(), *paths])]


@pytest.fixture
def landed(tmp_path: Path) -> Landed:
    found = Landed(tmp_path)
    found.land("2017-03-01/good.jsonl.gz")
    return found


GOOD = "sales/2017-03-01/good.jsonl.gz"


@pytest.mark.parametrize("folder", ["latest", "20170301", "2017-02-30"])
def test_a_file_in_a_folder_of_no_day_is_left_out_and_reported(landed: Landed, folder: str) -> None:
    """Spark finds it as it finds all others. A nightly ingest leaves it out, too."""
    astray, good = landed.land(f"{folder}/a.jsonl.gz"), landed.folder / "2017-03-01" / "good.jsonl.gz"
    assert landed.new(astray, good) == [GOOD]
    (report,) = landed.reports
    assert f"{folder}/a.jsonl.gz is not in the folder of a day of sales. It is left out" in report


@pytest.mark.parametrize("name", ["_archive/a.jsonl.gz", ".new/a.jsonl.gz", "2017-03-01.tmp/a.jsonl.gz"])
def test_what_is_unfinished_or_private_is_ignored(landed: Landed, name: str) -> None:
    assert landed.new(landed.land(name), landed.folder / "2017-03-01" / "good.jsonl.gz") == [GOOD]
    assert landed.reports == []


def test_a_file_that_was_moved_away_is_left_out_and_reported(landed: Landed) -> None:
    """Spark lists files long before their batch when there are many, and a damaged one is to be moved out."""
    gone, good = landed.folder / "2017-03-01" / "gone.jsonl.gz", landed.folder / "2017-03-01" / "good.jsonl.gz"
    assert landed.new(gone, good) == [GOOD]
    (report,) = landed.reports
    assert "gone.jsonl.gz cannot be read: No such file or directory. It is left out" in report


def test_a_file_that_was_left_out_is_read_when_it_has_landed_again(landed: Landed) -> None:
    """Spark names a file once. One that was still being copied then would be missing until the stream starts again."""
    half = landed.land("2017-03-01/half.jsonl.gz", WHOLE[:20])
    assert landed.new(half) == []
    assert landed.new() == []
    assert len(landed.reports) == 1
    landed.land("2017-03-01/half.jsonl.gz")
    assert landed.new(landed.folder / "2017-03-01" / "good.jsonl.gz") == ["sales/2017-03-01/half.jsonl.gz", GOOD]
    assert landed.new() == [] and len(landed.reports) == 1 and landed.reading.left_out == {}


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "has no bytes yet"), (None, "cannot be read")], ids=["no bytes", "gone"]
)
def test_a_file_that_has_not_landed_yet_is_not_taken_for_read(landed: Landed, content: bytes | None, why: str) -> None:
    """A copy begins with no bytes. Read then, the file would count as read, and its rows would never come."""
    name = "2017-03-01/copied.jsonl.gz"
    assert landed.new(landed.folder / name if content is None else landed.land(name, content)) == []
    (report,) = landed.reports
    assert f"sales/{name} {why}" in report and "It is left out" in report
    landed.land(name)
    assert landed.new() == [f"sales/{name}"]


def test_a_file_that_is_removed_while_its_batch_is_published_ends_no_stream(
    landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any moment: it was there when it was looked for, and is gone when its size is asked."""
    gone = landed.folder / "2017-03-01" / "gone.jsonl.gz"
    monkeypatch.setattr(Path, "exists", lambda _: True)
    read = landed.reading.take_in([gone])
    assert (read.events, read.publication, read.bytes) == (0, "", 0)
    assert "gone.jsonl.gz cannot be read" in landed.reports[0]
