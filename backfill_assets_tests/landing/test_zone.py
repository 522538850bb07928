"""The landing zone loses nothing silently: every file is listed once, or refused by name."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.landing.csv_files import Csv
from backfill_assets.landing.zone import LandedFile, LandingZone, no_file_of
from backfill_assets.model.landed_format import Format, SourceOfFiles
from backfill_assets_tests.declared import source_named

DAY = date(2017, 3, 1)
SALES = source_named("sales")
WEEK = DayRange(DAY, date(2017, 3, 7))


def land(root: Path, name: str, content: bytes, day: str = "2017-03-01") -> Path:
    path = root / "sales" / day / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def only_file(root: Path) -> LandedFile:
    (file,) = LandingZone(root).files(SALES, [DAY])
    return file


def test_files_come_in_order_of_day_and_path_and_only_for_the_days_asked_for(tmp_path: Path) -> None:
    """Row positions and source lines depend on a listing that is the same on every machine."""
    for day, name in (("2017-03-02", "a"), ("2017-03-01", "b"), ("2017-03-01", "a"), ("2017-04-01", "a")):
        land(tmp_path, f"{name}.jsonl.gz", gzip.compress(name.encode()), day)
    listed = [file.path for file in LandingZone(tmp_path).files(SALES, WEEK)]
    assert listed == [
        "sales/2017-03-01/a.jsonl.gz", "sales/2017-03-01/b.jsonl.gz", "sales/2017-03-02/a.jsonl.gz",
    ]  # fmt: skip


def test_position_names_the_file_and_follows_its_content(tmp_path: Path) -> None:
    """A landed file counts once: the same content gives the same position, other content another one."""
    path = land(tmp_path, "a.jsonl.gz", b"")
    empty = only_file(tmp_path)
    assert empty.position == ("landed:sales:sales/2017-03-01/a.jsonl.gz", int(empty.content_hash[:16], 16) >> 1)
    assert empty.size == 0 and 0 <= empty.position[1] < 2**63
    assert only_file(tmp_path).position == empty.position
    path.write_bytes(gzip.compress(b"{}\n"))
    assert only_file(tmp_path).position != empty.position


def test_hidden_and_temporary_files_are_not_seen(tmp_path: Path) -> None:
    """A writer that is still busy must not have half of its file read."""
    for name in (".a.jsonl.gz", "_SUCCESS", "a.jsonl.gz.tmp", "a.jsonl.gz.part"):
        land(tmp_path, name, b"unfinished")
    land(tmp_path, "x.jsonl.gz", b"", "_archive")
    assert LandingZone(tmp_path).files(SALES, WEEK) == ()


def test_what_is_no_landed_file_is_left_out_and_reported_by_name(tmp_path: Path) -> None:
    """It stops no day. Left out without a word, its rows would be lost."""
    land(tmp_path, "a.jsonl.gz", b"")
    for folder in ("2017-3-1", "2017-02-30", "20170301", "latest"):
        land(tmp_path, "a.jsonl.gz", b"", folder)
    land(tmp_path, "notes.txt", b"", "2017-03-02")
    for name in ("a.json", "a.csv.gz", "b.jsonl.gz/part"):
        land(tmp_path, name, b"")
    (tmp_path / "sales" / "2017-03-04").write_text("a file with the name of a day")
    zone = LandingZone(tmp_path)
    assert [file.path for file in zone.files(SALES, WEEK)] == ["sales/2017-03-01/a.jsonl.gz"]
    no_days = ["sales/2017-02-30", "sales/2017-03-04", "sales/2017-3-1", "sales/20170301", "sales/latest"]
    of_the_day = [f"sales/2017-03-01/{name}" for name in ("a.csv.gz", "a.json", "b.jsonl.gz")]
    assert list(zone.strays(SALES, [DAY])) == [*no_days, *of_the_day]
    assert list(zone.strays(SALES)) == [*no_days, *of_the_day, "sales/2017-03-02/notes.txt"]
    assert zone.strays(source_named("rates")) == ()


def test_missing_empty_and_landed_days_differ_and_a_range_lists_its_source_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing delivered yet and delivered nothing are different facts. Each folder is looked into once for a range."""
    (tmp_path / "sales" / "2017-03-02").mkdir(parents=True)
    land(tmp_path, "a.jsonl.gz", b"")
    listed: list[Path] = []
    scandir = os.scandir

    def noted(folder: Path) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        listed.append(folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", noted)
    zone = LandingZone(tmp_path)
    found = zone.deliveries(SALES, DayRange.parse("2017-03-01..2017-03-03"))
    assert list(found.values()) == ["landed", "empty", "missing"]
    assert sorted(listed) == [tmp_path / "sales", *(tmp_path / "sales" / f"2017-03-0{day}" for day in (1, 2))]
    assert zone.days(SALES) == (date(2017, 3, 1), date(2017, 3, 2))


def test_unknown_source_and_malformed_source_name(tmp_path: Path) -> None:
    """A wrong --landing says so, and a source name cannot climb out of the root."""
    with pytest.raises(SourceUnreadable, match="no folder 'sales'") as missing:
        LandingZone(tmp_path).files(SALES, WEEK)
    assert "backfill stream: what is made of them begins with bronze_sales+" in (missing.value.hint or "")
    with pytest.raises(InvalidRequest, match="not the name of a source"):
        LandingZone(tmp_path).files(source_named("../sales"), WEEK)


@pytest.mark.parametrize("level", ["source", "day", "file"])
def test_a_link_out_of_the_root_is_refused(tmp_path: Path, level: str) -> None:
    """A writer of the landing zone must not be able to have other files of the machine read."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    land(outside, "a.jsonl.gz", b"")
    links = {"source": "sales", "day": "sales/2017-03-01", "file": "sales/2017-03-01/a.jsonl.gz"}
    link = root / links[level]
    link.parent.mkdir(parents=True)
    link.symlink_to(outside / links[level])
    with pytest.raises(SourceUnreadable, match="leads out of the landing zone"):
        LandingZone(root).files(SALES, WEEK)


def test_whole_files_are_readable(tmp_path: Path) -> None:
    """No bytes, no lines, one member and several members are all sound gzip."""
    one = gzip.compress(b'{"a": "1"}\n' * 20_000)
    for name, content in (("none", b""), ("no_lines", gzip.compress(b"")), ("one", one), ("three", one * 3)):
        land(tmp_path, f"{name}.jsonl.gz", content)
    zone = LandingZone(tmp_path)
    files = zone.files(SALES, [DAY])
    assert len(files) == 4
    for file in files:
        zone.verify_readable(SALES, file.path)


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, "zstd", asbytes=True))


def test_files_are_plain_or_compressed(tmp_path: Path) -> None:
    """As sources write them. Zstd may have several frames, as gzip has members."""
    line = b'{"a": "1"}\n'
    frames = zstd(line * 20_000) + zstd(line)
    contents = {
        "a.jsonl": line,
        "a.ndjson": line,
        "a.jsonl.gz": gzip.compress(line),
        "a.json.gz": gzip.compress(line),
        "a.ndjson.gz": b"",
        "a.jsonl.zst": frames,
        "a.json.zst": zstd(b""),
        "b.ndjson.zst": b"",
    }
    for name, content in contents.items():
        land(tmp_path, name, content)
    zone = LandingZone(tmp_path)
    files = zone.files(SALES, [DAY])
    assert [file.path for file in files] == [f"sales/2017-03-01/{name}" for name in sorted(contents)]
    for file in files:
        zone.verify_readable(SALES, file.path)


FRAME = zstd(bytes(range(256)) * 2_000)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *((FRAME[:kept], f"truncated zstd, it ends at byte {kept} ") for kept in (9, len(FRAME) - 1)),
        (b'{"not": "compressed"}\n', "undecodable zstd before byte 22"),
        (FRAME + b"trailing", f"undecodable zstd before byte {len(FRAME) + 8}"),
        (FRAME[:9] + b"\xff" * 8 + FRAME[17:], "undecodable zstd before byte"),
    ],
    ids=["a header", "all but a byte", "plain text", "trailing bytes", "damaged"],
)
def test_a_zstd_file_that_is_cut_off_or_damaged_is_named_with_the_byte(
    tmp_path: Path, content: bytes, said: str
) -> None:
    """As one of gzip is. Its reader is some bytes ahead of the damage, and a frame need not have a checksum."""
    land(tmp_path, "a.jsonl.zst", content)
    with pytest.raises(SourceUnreadable, match=f"sales/2017-03-01/a.jsonl.zst: {said}"):
        LandingZone(tmp_path).verify_readable(SALES, only_file(tmp_path).path)


WHOLE, SHORT = gzip.compress(bytes(range(256)) * 2_000), gzip.compress(b"x")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *((WHOLE[:kept], f"truncated gzip.* byte {kept} ") for kept in (1, 9, 100, len(WHOLE) - 1)),
        (b'{"not": "compressed"}\n', "undecodable gzip at byte 1"),
        (SHORT + b"trailing", f"undecodable gzip at byte {len(SHORT) + 1}"),
        (SHORT[:-8] + b"\0" * 8, f"undecodable gzip at byte {len(SHORT) - 5}"),
    ],
    ids=["a byte", "a header", "a part", "all but a byte", "plain text", "trailing bytes", "wrong checksum"],
)
def test_a_file_that_is_cut_off_or_damaged_is_named_with_the_byte(tmp_path: Path, content: bytes, said: str) -> None:
    """It must stop the run before any of its rows counts. The byte shows what has happened to it."""
    land(tmp_path, "a.jsonl.gz", content)
    with pytest.raises(SourceUnreadable, match=f"sales/2017-03-01/a.jsonl.gz: {said}"):
        LandingZone(tmp_path).verify_readable(SALES, only_file(tmp_path).path)


def test_a_file_that_changed_after_it_was_listed_is_refused(tmp_path: Path) -> None:
    """Rows of one content must never be recorded under the position of another."""
    path = land(tmp_path, "a.jsonl.gz", gzip.compress(b"{}\n"))
    file = only_file(tmp_path)
    LandingZone(tmp_path).verify_unchanged(file)
    path.write_bytes(gzip.compress(b"{} \n"))
    with pytest.raises(SourceUnreadable, match="changed after it was read"):
        LandingZone(tmp_path).verify_unchanged(file)
    path.unlink()
    with pytest.raises(SourceUnreadable, match="cannot be read"):
        LandingZone(tmp_path).verify_unchanged(file)


def of_files(pattern: str, format_: Format | None = None) -> SourceOfFiles:
    return SourceOfFiles(**vars(SALES), files=pattern, format=format_)


def test_a_day_may_have_a_folder_of_either_name_or_both(tmp_path: Path) -> None:
    """As Hive and Spark name them."""
    land(tmp_path, "b.jsonl.gz", b"")
    land(tmp_path, "a.jsonl.gz", b"", "day=2017-03-01")
    land(tmp_path, "notes.txt", b"", "day=2017-03-01")
    land(tmp_path, "a.jsonl.gz", b"", "day=2017-03-02")
    land(tmp_path, "a.jsonl.gz", b"", "date=2017-03-02")
    zone = LandingZone(tmp_path)
    paths = [f"sales/{path}.jsonl.gz" for path in ("2017-03-01/b", "day=2017-03-01/a", "day=2017-03-02/a")]
    assert [file.path for file in zone.files(SALES, WEEK)] == paths
    assert zone.file(SALES, tmp_path / paths[1]).arrival_day == DAY
    assert zone.strays(SALES) == ("sales/date=2017-03-02", "sales/day=2017-03-01/notes.txt")
    assert zone.count(SALES, WEEK)[DAY] == 2
    assert zone.folders(SALES)[DAY] == ("sales/2017-03-01", "sales/day=2017-03-01")


def test_a_day_may_be_in_the_names_of_files(tmp_path: Path) -> None:
    """Then they lie side by side, and what fits nothing is reported by name, a folder as well."""
    sales = of_files("till *_{day}.csv", Csv())
    for name in ("till 7_2017-03-01.csv", "till 8_2017-03-01.csv", "till 7_2017-03-03.csv"):
        land(tmp_path, name, b"id\n1\n", "")
    for name in ("till 7_2017-02-30.csv", "till_2017-03-01.csv", "till 7_2017-03-01.jsonl", "x.csv"):
        land(tmp_path, name, b"id\n1\n", "")
    land(tmp_path, "till 7_2017-03-01.csv", b"id\n1\n", "2017-03-01")
    land(tmp_path, "_till 7_2017-03-01.csv", b"unfinished", "")
    zone = LandingZone(tmp_path)
    named = ["till 7_2017-03-01.csv", "till 8_2017-03-01.csv", "till 7_2017-03-03.csv"]
    assert [file.path for file in zone.files(sales, WEEK)] == [f"sales/{name}" for name in named]
    assert zone.days(sales) == (DAY, date(2017, 3, 3))
    strays = ("2017-03-01", "till 7_2017-02-30.csv", "till 7_2017-03-01.jsonl", "till_2017-03-01.csv", "x.csv")
    assert zone.strays(sales, [DAY]) == tuple(f"sales/{name}" for name in strays)
    assert list(zone.deliveries(sales, WEEK).values())[:3] == ["landed", "missing", "landed"]
    assert zone.file(sales, tmp_path / "sales" / named[0]).arrival_day == DAY
    for path in (tmp_path / "sales" / "x.csv", tmp_path / "sales" / "2017-03-01" / named[0]):
        with pytest.raises(SourceUnreadable, match="is not in the folder of a day of sales"):
            zone.file(sales, path)
    assert no_file_of(sales) == "no file of the form till *_{day}.csv"
    assert no_file_of(SALES) == "no .jsonl.gz file in the folder of a day"


def test_which_files_are_read_is_for_their_format_to_say(tmp_path: Path) -> None:
    for name in ("a.csv", "a.csv.gz", "a.csv.zst", "a.jsonl.gz"):
        land(tmp_path, name, b"")
    zone, sales = LandingZone(tmp_path), of_files("", Csv())
    assert [file.path[-9:] for file in zone.files(sales, [DAY])] == ["-01/a.csv", "/a.csv.gz", "a.csv.zst"]
    assert zone.strays(sales) == ("sales/2017-03-01/a.jsonl.gz",)
    land(tmp_path, "b.csv", b"other;header\n1;2\n")
    with pytest.raises(SourceUnreadable, match=r"sales/2017-03-01/b\.csv: its header names none of id"):
        zone.verify_readable(sales, "sales/2017-03-01/b.csv")
