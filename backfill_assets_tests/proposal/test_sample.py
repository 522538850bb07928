"""Which files are sampled, and how their names say the day on which they arrived."""

from __future__ import annotations

import gzip
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.proposal import sample
from backfill_assets.proposal.sample import choose, copied, pattern_of


def touched(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("id\n1\n")


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["sales_20260105.csv", "sales_20260106.csv"], "sales_{day:%Y%m%d}.csv"),
        (["2026-01-05.jsonl.gz"], "{day}.jsonl.gz"),
        (["a_2026_01_05_x1.csv", "a_2026_01_06_x2.csv"], "a_{day:%Y_%m_%d}_x*.csv"),
        (["north-20260105.csv", "south-20260105.csv"], "*-{day:%Y%m%d}.csv"),
        (["s_20260105T0959.csv", "s_20260106T0017.csv"], "s_{day:%Y%m%d}T*.csv"),
        (["sales.csv"], ""),
        (["sales_20261305.csv"], ""),
        (["sales_2026010501.csv"], ""),
        (["sales_20260105.csv", "other.csv"], ""),
        (["sales[1]_20260105.csv"], ""),
    ],
)
def test_patterns_of_names(names: list[str], pattern: str) -> None:
    assert pattern_of(names) == pattern


@pytest.mark.parametrize("prefix", ["", "day="])
def test_of_folders_by_day_the_newest_files_are_read(tmp_path: Path, prefix: str) -> None:
    days = [f"2026-01-{day:02d}" for day in range(5, 12)]
    touched(tmp_path, *(f"{prefix}{day}/part_20250101.csv" for day in days), "_tmp/a.csv", ".b.csv", "notes.md")
    found = choose(tmp_path)
    assert [each.arrived for each in found.files] == [date(2026, 1, day) for day in (9, 10, 11)]
    assert not found.pattern and found.kind == "delimited", "a folder says more than a name"


def test_a_file_in_the_folder_of_a_day(tmp_path: Path) -> None:
    touched(tmp_path, "2026-01-05/a.csv", "b_20260106.csv")
    assert choose(tmp_path / "2026-01-05" / "a.csv").files[0].arrived == date(2026, 1, 5)
    named = choose(tmp_path / "b_20260106.csv")
    assert (named.files[0].arrived, named.pattern) == (date(2026, 1, 6), "b_{day:%Y%m%d}.csv")


@pytest.mark.parametrize(
    ("name", "said"), [("a.xlsx", "no file that is read"), ("gone.csv", "is not there"), ("", "no file")]
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, name: str, said: str) -> None:
    touched(tmp_path, "a.xlsx")
    with pytest.raises(InvalidRequest, match=said) as refused:
        choose(tmp_path / name)
    assert refused.value.hint


def test_of_a_long_file_the_first_lines_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole lines, in UTF-8, whatever it was compressed by and written in."""
    monkeypatch.setattr(sample, "MOST_BYTES", 100)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress("größe\n".encode("latin-1") + b"0123456789\n" * 50))
    found = copied(choose(tmp_path / "a.csv.gz"), tmp_path)
    assert not found.whole and found.encoding == "latin-1"
    text = Path(found.files[0].path).read_text()
    assert text.startswith("größe\n") and text.endswith("9\n") and len(text) <= 100
