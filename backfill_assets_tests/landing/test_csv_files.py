"""Each record of a CSV file is given once, with the line where it begins: in columns, or as its text."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.landing import compressed, csv_lines, line_reader
from backfill_assets.landing.csv_files import Csv
from backfill_assets.model.landed_format import record_columns

FIELDS = ("a", "b")
Record = tuple[int, str | Mapping[str, str | None]]
"""The line where it begins, and its text or its fields."""


def read(path: Path, format_: Csv, fields: Sequence[str] = FIELDS) -> list[Record]:
    assert format_.first_problem(path, fields) is None
    rows = pa.Table.from_batches(format_.records(path, fields), record_columns(format_, fields)).to_pylist()
    return [(row["number"], _record(row)) for row in rows]


def _record(row: Mapping[str, Any]) -> str | Mapping[str, str | None]:
    assert (row["fields"] is None) == (row["value"] is not None)
    if row["fields"] is None:
        assert row["others"] is None
        return str(row["value"])
    return {**row["fields"], **{other["key"]: other["value"] for other in row["others"] or ()}}


def of(tmp_path: Path, content: bytes, format_: Csv | None = None) -> list[Record]:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    return read(path, format_ or Csv())


def test_records_and_broken_ones_are_at_their_lines(tmp_path: Path) -> None:
    """A broken record costs no other one, whatever is broken in it."""
    content = b"""a,b,c\r
1,2,3\r
4,5

6,7,8,9
"a""x","",
4,"5,6
7,8,9
x,"m

 \t
n\r
o",y
1,\xff,2
z,5" p,6
"q"r,1,2
v\rw,1,2
,," "
"""
    assert of(tmp_path, content) == [
        (2, {"a": "1", "b": "2", "c": "3"}),
        (3, "4,5"),
        (5, "6,7,8,9"),
        (6, {"a": 'a"x', "b": "", "c": None}),
        (7, '4,"5,6'),
        (8, {"a": "7", "b": "8", "c": "9"}),
        (9, {"a": "x", "b": "m\n\n \t\nn\r\no", "c": "y"}),
        (14, f"base64: {base64.b64encode(bytes([49, 44, 255, 44, 50])).decode()}"),
        (15, {"a": "z", "b": '5" p', "c": "6"}),
        (16, '"q"r,1,2'),
        (17, "v\rw,1,2"),
        (18, {"a": None, "b": None, "c": " "}),
    ]


@pytest.mark.parametrize(
    ("format_", "content", "records"),
    [
        (Csv(delimiter=";"), b'b;a\n1;"2;"', [(2, {"a": "2;", "b": "1"})]),
        (Csv(escape="\\"), b'a,b\n\\"x\\,,"y\\"z\\\\"', [(2, {"a": '"x,', "b": 'y"z\\'})]),
        (Csv(quote="'"), b"a,b\n'x'',',\"y\"", [(2, {"a": "x',", "b": '"y"'})]),
        (Csv(quote=""), b'a,b\n"x,y"', [(2, {"a": '"x', "b": 'y"'})]),
        (Csv(null="NA"), b'a,b\nNA,"NA"\n,', [(2, {"a": None, "b": "NA"}), (3, {"a": "", "b": ""})]),
        (Csv(columns=("b", "z")), b"1,2\n", [(1, {"a": None, "b": "1", "z": "2"})]),
        (Csv(delimiter="\t"), b"a\tb\n\t\n \n", [(2, {"a": None, "b": None}), (3, " ")]),
        (Csv(encoding="latin-1"), b"a,b\ncaf\xe9,\xff", [(2, {"a": "café", "b": "ÿ"})]),
        (Csv(), b"\xef\xbb\xbfa,b\n1,2", [(2, {"a": "1", "b": "2"})]),
        (
            Csv(columns=FIELDS),
            b"1,2\n\xef\xbb\xbf\n\xef\xbb\xbf3,4",
            [(1, {"a": "1", "b": "2"}), (2, "\ufeff"), (3, {"a": "\ufeff3", "b": "4"})],
        ),
        (Csv(), b"a,b\n\xef\xbb\xbf3,4", [(2, {"a": "\ufeff3", "b": "4"})]),
        (Csv(), b'"a","x\ny"\n1,2', [(3, {"a": "1", "b": None, "x\ny": "2"})]),
        (Csv(), b"a\n1\n\n2,3\n", [(2, {"a": "1", "b": None}), (4, "2,3")]),
        (Csv(), b'a,b\n"x",', [(2, {"a": "x", "b": None})]),
        (Csv(), b"a,b", []),
        (Csv(), b"\n \n", []),
        (Csv(columns=FIELDS), b"", []),
    ],
    ids=str,
)
def test_a_dialect_is_what_is_declared(tmp_path: Path, format_: Csv, content: bytes, records: Sequence[Record]) -> None:
    found = of(tmp_path, content, format_)
    assert [each for each in found if each[1] != " "] == [each for each in records if each[1] != " "]


signs = ["a", "7", ",", ";", '"', "'", "\\", "\n", "\r\n", " ", "é", "\u2028"]
value = st.lists(st.sampled_from(signs), max_size=5).map("".join)
row = st.lists(value, min_size=3, max_size=3)
broken = st.sampled_from([b"1,2", b"1,2,3,4", b'"x"y,2,3', b"\xff,2,3", b'1,2,"x" ', b"x\ry,2,3", b"1"])
content = st.lists(row | broken, max_size=12)
ways = st.sampled_from(["\n", "\r\n"])


@example([["a", "x\ny", "b"]], "\n", 1, False, False)
@given(content, ways, st.integers(1, 40), st.booleans(), st.booleans())
def test_what_python_writes_is_read_again(
    tmp_path_factory: pytest.TempPathFactory,
    some: list[list[str] | bytes],
    end: str,
    at_once: int,
    quoted: bool,
    ended: bool,
) -> None:
    """Values with anything in them, beside broken lines; in parts of few bytes as in one."""
    written, expected = b"a,b,c" + end.encode(), list[Record]()
    for each in some:
        begins = written.count(b"\n") + 1
        if isinstance(each, bytes):
            written += each + end.encode()
            expected.append((begins, _text(each)))
            continue
        out = io.StringIO(newline="")
        csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL).writerow(each)
        written += out.getvalue().encode()
        texts = [text if text or quoted else None for text in each]
        expected.append((begins, dict(zip("abc", texts, strict=True))))
    path = tmp_path_factory.mktemp("landed") / "a.csv.gz"
    path.write_bytes(gzip.compress(written if ended else written.removesuffix(b"\n")))
    with pytest.MonkeyPatch.context() as patched:
        for module in (line_reader, compressed):
            patched.setattr(module, "AT_ONCE", at_once)
        found = read(path, Csv(), ("a", "b", "c"))
    assert [(number, _without_end(each)) for number, each in found] == expected


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return "base64"


def _without_end(record: str | Mapping[str, str | None]) -> str | Mapping[str, str | None]:
    """A broken line is kept with its carriage return."""
    if not isinstance(record, str):
        return record
    return "base64" if record.startswith("base64") else record.removesuffix("\r")


def test_a_quote_that_is_never_closed_takes_no_other_record_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines behind it that have no quote could all be one value. There is an end to that."""
    monkeypatch.setattr(csv_lines, "MOST_LINES", 5)
    lines = [b"a,b", b'x,"y', *(b"%d,2" % number for number in range(20)), b'z,"3\n4"']
    found = of(tmp_path, b"\n".join(lines))
    assert found == [(2, 'x,"y'), *((n + 3, {"a": str(n), "b": "2"}) for n in range(20)), (23, {"a": "z", "b": "3\n4"})]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a;b\n1;2\n", r"its header names none of a, b: is its delimiter ','\?"),
        (b"a,b,a\n", "its header names 'a' twice"),
        (b'a,"b\n1,2\n', "its header cannot be read"),
        (gzip.compress(b"a,b\n" * 999, mtime=0)[:-9], "truncated gzip, it ends at byte"),
    ],
)
def test_a_file_of_another_dialect_is_refused_as_a_whole(tmp_path: Path, content: bytes, why: str) -> None:
    """All of its rows would be nothing but unknown fields."""
    path = tmp_path / ("a.csv.gz" if content[:1] == b"\x1f" else "a.csv")
    path.write_bytes(content)
    assert re.match(why, Csv().first_problem(path, FIELDS) or "")
    with pytest.raises(SourceUnreadable, match=why.partition(",")[0]):
        list(Csv().records(path, FIELDS))


def test_a_file_that_is_damaged_only_when_it_is_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" * 999)[:-9])
    with pytest.raises(SourceUnreadable, match=r"a\.csv\.gz: truncated gzip"):
        list(Csv().records(path, FIELDS))


@pytest.mark.parametrize(
    "wrong",
    [{"delimiter": ""}, {"delimiter": ", "}, {"quote": ","}, {"escape": '"'}, {"delimiter": "¦"}, {"quote": "\n"}],
    ids=str,
)
def test_a_dialect_that_says_nothing_is_refused_where_it_is_declared(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="dialect of CSV"):
        Csv(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="one name"):
        Csv(columns=("a", "a"))
