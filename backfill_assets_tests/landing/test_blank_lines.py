"""Landed lines of a person are blanked: every other record keeps its number and its text."""

from __future__ import annotations

import gzip
import os
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.landing.blank_lines import blank_lines, can_blank, lines_with
from backfill_assets.landing.compressed import content_of
from backfill_assets.landing.csv_files import Csv
from backfill_assets.landing.parquet_files import Parquet
from backfill_assets.landing.records import records_of
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_format import Format, SourceOfFiles

JSON = SALES.source


def of_format(declared: Format) -> Source:
    return SourceOfFiles(**{each.name: getattr(JSON, each.name) for each in fields(JSON) if each.init}, format=declared)


CSV = of_format(Csv(columns=("basket_id", "note")))
ENDINGS = ("", ".gz", ".zst")


def write(path: Path, text: bytes) -> None:
    whole = {".gz": gzip.compress, ".zst": lambda text: pa.compress(text, "zstd", asbytes=True)}
    path.write_bytes(whole.get(path.suffix, bytes)(text))


def records(source: Source, path: Path) -> dict[int, str]:
    rows = (row for batch in records_of(source, path) for row in batch.to_pylist())
    return {row["number"]: str(row) for row in rows}


@given(st.data(), st.lists(st.sampled_from(["a", "{}", "", "  ", "é", '"x']), max_size=12), st.booleans())
def test_other_lines_keep_number_and_text(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, lines: list[str], ends: bool
) -> None:
    folder, text = tmp_path_factory.mktemp("landed"), "\n".join(lines) + ("\n" if ends else "")
    chosen = data.draw(st.sets(st.integers(1, 14)))
    for ending in ENDINGS:
        path = folder / f"a.jsonl{ending}"
        write(path, text.encode())
        before = records(JSON, path)
        changed = blank_lines(JSON, path, chosen)
        assert records(JSON, path) == {number: row for number, row in before.items() if number not in chosen}
        assert b"".join(content_of(path)).count(b"\n") == text.count("\n")
        assert not blank_lines(JSON, path, chosen) and (changed or before.keys().isdisjoint(chosen))
    assert sorted(each.name for each in folder.iterdir()) == [f"a.jsonl{ending}" for ending in ENDINGS]


def test_a_csv_record_goes_with_all_of_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'1,plain\n2,"over\ntwo\nlines"\n\n3,"a ""quote"""\n')
    before = records(CSV, path)
    assert list(before) == [1, 2, 6] and blank_lines(CSV, path, [2])
    assert records(CSV, path) == {number: before[number] for number in (1, 6)}
    assert b"two" not in path.read_bytes()


def test_the_time_of_landing_and_the_rights_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo\n")
    path.chmod(0o640)
    os.utime(path, ns=(7, 12_345))
    assert blank_lines(JSON, path, [1])
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode & 0o777) == (b"\ntwo\n", 12_345, 0o640)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(LakehouseUnusable, match=r"a\.jsonl cannot be written: Permission denied"):
        blank_lines(JSON, path, [1])
    assert path.read_bytes() == b"one\n" and len(list(tmp_path.iterdir())) == 1


def test_a_value_is_found_where_it_stands_alone_however_it_is_spelled(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    told = ['{"id":"Zoë-1"}', r'{"id":"Zo\u00eb-1"}', '{"id":"Zoë-12"}', "aZoë-1", "broken Zoë-1"]
    path.write_bytes("\n".join(told).encode() + "\nZoë-1;x".encode("latin-1"))
    assert lines_with(path, "Zoë-1") == [1, 2, 5, 6]
    path.write_bytes("Łś\nanybody\nno-1\nŁś-1".encode())
    assert (lines_with(path, "Łś"), lines_with(path, "Łś-1")) == ([1, 4], [4]), "latin-1 has no letter of it"


def test_formats_of_lines_can_be_blanked() -> None:
    assert can_blank(JSON) and can_blank(CSV)
    assert not can_blank(of_format(Parquet()))
