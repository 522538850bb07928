"""Which landed files of a batch are read: what is wrong with one is reported, and ends no stream."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.stream.batches import Checkpoint
from backfill_assets.stream.landed import LandingReading
from backfill_assets_tests.played_lake import lake_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse

WHOLE = gzip.compress(b"{}\n" * 1000)


class Landed:
    """A stream from the landing folder below ``home``, and what it has reported."""

    def __init__(self, home: Path) -> None:
        self.folder, self.reports = home / "landing" / "sales", list[str]()
        lake = lake_of(SmallLakehouse(home / "lakehouse"))
        self.reading = LandingReading(lake, CATALOG.step("raw_sales"), RunInfo("", "", ""), self.reports.append)

        self.good = self.land("2017-03-01/good.jsonl.gz")

    def land(self, name: str, content: bytes = WHOLE) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def new(self, *paths: Path) -> list[str]:
        return [file.path for file in self.reading.new_files([*self.reading._landed_again(), *paths])]


@pytest.fixture
def landed(tmp_path: Path) -> Landed:
    return Landed(tmp_path)


GOOD = "sales/2017-03-01/good.jsonl.gz"


@pytest.mark.parametrize("folder", ["latest", "20170301", "2017-02-30"])
def test_a_file_in_a_folder_of_no_day_is_left_out_and_reported(landed: Landed, folder: str) -> None:
    """Spark finds it as it finds all others. A nightly ingest leaves it out, too."""
    astray = landed.land(f"{folder}/a.jsonl.gz")
    assert landed.new(astray, landed.good) == [GOOD]
    (report,) = landed.reports
    assert f"{folder}/a.jsonl.gz is not in the folder of a day of sales. It is left out" in report


@pytest.mark.parametrize("name", ["_archive/a.jsonl.gz", ".new/a.jsonl.gz", "2017-03-01.tmp/a.jsonl.gz"])
def test_what_is_unfinished_or_private_is_ignored(landed: Landed, name: str) -> None:
    assert landed.new(landed.land(name), landed.good) == [GOOD]
    assert landed.reports == []


def test_a_file_that_was_moved_away_is_left_out_and_reported(landed: Landed) -> None:
    """Spark lists files long before their batch when there are many, and a damaged one is to be moved out."""
    assert landed.new(landed.folder / "2017-03-01" / "gone.jsonl.gz", landed.good) == [GOOD]
    (report,) = landed.reports
    assert "gone.jsonl.gz cannot be read: No such file or directory. It is left out" in report


def test_a_file_that_was_left_out_is_read_when_it_has_landed_again(landed: Landed) -> None:
    """Spark names a file once. One that was still being copied then would be missing until the stream starts again."""
    half = landed.land("2017-03-01/half.jsonl.gz", WHOLE[:20])
    assert landed.new(half) == []
    assert landed.new() == []
    assert len(landed.reports) == 1
    landed.land("2017-03-01/half.jsonl.gz")
    assert landed.new(landed.good) == ["sales/2017-03-01/half.jsonl.gz", GOOD]
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


# --------------------------------------------------------------- what Spark has planned is read from its checkpoint


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint")


def write(path: Path, *lines: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *(json.dumps(line) for line in lines)]))


def test_the_end_of_a_batch_is_by_partition(checkpoint: Checkpoint) -> None:
    write(checkpoint.folder / "offsets" / "3", {"batchWatermarkMs": 0}, {"sales": {"0": 12, "10": 7}})
    assert checkpoint.topic_offsets(3, "sales") == {0: 12, 10: 7}


def test_a_batch_of_files_is_what_was_found_since_the_one_before(checkpoint: Checkpoint) -> None:
    """Also where Spark has put ten of its lists into one."""
    for batch, last in ((0, 8), (1, 10)):
        write(checkpoint.folder / "offsets" / str(batch), {}, {"logOffset": last})
    entries = [{"path": f"file:///landing/sales/2026-03-01/a%20{n}.jsonl.gz", "batchId": n} for n in range(11)]
    log = checkpoint.folder / "sources" / "0"
    write(log / "9.compact", *entries[:10])
    write(log / "10", entries[10])
    names = [path.name for path in checkpoint.landed_paths(1)]
    assert names == ["a 9.jsonl.gz", "a 10.jsonl.gz"]


def test_files_that_wait_are_counted_also_in_a_folder_of_which_none_was_read(landed: Landed) -> None:
    landed.land("2017-03-01/late.jsonl.gz")
    landed.land("2017-03-02/new.jsonl.gz")
    landed.reading.look()
    waiting = {each.partition: (each.position, each.end, each.lag) for each in landed.reading.positions}
    assert waiting == {"2017-03-01": (0, 2, 2), "2017-03-02": (0, 1, 1)}
