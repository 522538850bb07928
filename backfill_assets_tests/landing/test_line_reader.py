"""The lines of a file: none is lost, cut or numbered wrongly, in whatever parts the file is read."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.errors import SourceUnreadable
from backfill_assets.landing import compressed, line_reader
from backfill_assets.landing.json_lines import JsonLines
from backfill_assets.model.landed_format import record_columns

COLUMNS = record_columns(JsonLines(), ())
content = st.lists(
    st.sampled_from(
        [b"a", b"\n", b"\n\n", b"\r", b" ", b"\t", b"\x00", b"\xff", "é\u2028".encode(), b"b" * 30, b"\xef\xbb\xbf"]
    ),
    max_size=30,
).map(b"".join)


def read(path: Path) -> list[tuple[int, str]]:
    rows = pa.Table.from_batches(JsonLines().records(path, ()), COLUMNS).to_pylist()
    return [(row["number"], row["value"]) for row in rows]


def expected(text: bytes) -> list[tuple[int, str]]:
    lines = enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1)
    return [(number, _text(line)) for number, line in lines if line.strip(b" \t\r")]


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return f"base64: {base64.b64encode(line).decode()}"


@given(content, st.integers(0, 60), st.integers(1, 40))
def test_every_line_is_read_with_its_number(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, cut: int, at_once: int
) -> None:
    """Files of several members, and parts of few bytes; what is left of a part begins the next."""
    folder = tmp_path_factory.mktemp("landed")
    plain, zipped, zstd = (folder / f"a.jsonl{ending}" for ending in ("", ".gz", ".zst"))
    plain.write_bytes(text)
    zipped.write_bytes(gzip.compress(text[:cut]) + gzip.compress(text[cut:]))
    zstd.write_bytes(b"".join(pa.compress(part, "zstd", asbytes=True) for part in (text[:cut], text[cut:])))
    with pytest.MonkeyPatch.context() as patched:
        for module in (line_reader, compressed):
            patched.setattr(module, "AT_ONCE", at_once)
        patched.setattr(compressed, "_COMPRESSED", at_once)
        assert read(plain) == read(zipped) == read(zstd) == expected(text)


def test_a_part_is_as_large_as_allowed_and_a_longer_line_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"x\n" * 9_000_000 + b"y" * 20_000_000))
    batches = list(JsonLines().records(path, ()))
    sizes = [len("".join(batch["value"].to_pylist())) for batch in batches]
    assert (sum(sizes), sizes[-1]) == (29_000_000, max(sizes))
    assert max(sizes[:-1]) <= 2 * line_reader.AT_ONCE
    assert batches[-1]["number"][-1].as_py() == 9_000_001


@pytest.mark.parametrize("nothing", [b"", gzip.compress(b"", mtime=0), gzip.compress(b"\n \n\r\n", mtime=0)])
def test_a_file_without_text_has_no_lines(tmp_path: Path, nothing: bytes) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(nothing)
    assert read(path) == []


WHOLE = gzip.compress(b"".join(b"%d\n" % number for number in range(100_000)))
DAMAGED = {
    "cut off": (WHOLE[:-9], "truncated gzip"),
    "cut in its head": (WHOLE[:5], "truncated gzip"),
    "of another sum": (WHOLE[:-8] + b"\0" * 8, "undecodable gzip"),
    "no gzip": (b"plain\n", "undecodable gzip"),
    "followed by other bytes": (WHOLE + b"x", "undecodable gzip|truncated gzip"),
    "damaged within": (WHOLE[:1000] + b"\xff" * 50 + WHOLE[1050:], "undecodable gzip"),
}


@pytest.mark.parametrize(("bytes_", "why"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused(tmp_path: Path, bytes_: bytes, why: str) -> None:
    """With its name: half a file must not pass for a whole one."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(bytes_)
    with pytest.raises(SourceUnreadable, match=rf"a\.jsonl\.gz: ({why})"):
        read(path)


@pytest.mark.parametrize("kept", [5, 20])
def test_a_zstd_file_that_is_cut_off_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(pa.compress(bytes(range(10, 250)) * 99, "zstd", asbytes=True)[:kept])
    with pytest.raises(SourceUnreadable, match=rf"a\.jsonl\.zst: truncated zstd, it ends at byte {kept} "):
        read(path)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match=r"a\.jsonl\.gz cannot be read: No such file"):
        read(tmp_path / "a.jsonl.gz")
