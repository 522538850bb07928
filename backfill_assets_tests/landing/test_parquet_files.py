"""Each row of a Parquet file is given once, with its number and the one text of each of its values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.judge.engine import database
from backfill_assets.landing.odd_lines import as_plain_object
from backfill_assets.landing.parquet_files import Parquet
from backfill_assets.model.landed_format import VALUES, record_columns
from backfill_assets.model.landed_values import parsed
from backfill_assets_tests.strategies.how_many import drawn

pytestmark = pytest.mark.data
D = Decimal
AT = datetime(2017, 3, 26, 0, 30, 0, 120_000)  # noqa: DTZ001 - of a zone that is not named


def written(folder: Path, columns: Mapping[str, pa.Array], name: str = "a.parquet", **how: Any) -> Path:
    path = folder / name
    pq.write_table(pa.table(dict(columns)), path, **how)
    return path


def read(path: Path, format_: Parquet, fields: Sequence[str]) -> list[tuple[int, Mapping[str, str | None]]]:
    """Each row by its number, and its fields."""
    assert format_.first_problem(path, fields) is None
    rows = pa.Table.from_batches(format_.records(path, fields), record_columns(format_, fields)).to_pylist()
    assert not any(row["value"] for row in rows), "a row has no text of its own"
    others = ({other["key"]: other["value"] for other in row["others"] or ()} for row in rows)
    return [(row["number"], {**row["fields"], **of_row}) for row, of_row in zip(rows, others, strict=True)]


def texts(folder: Path, values: pa.Array, format_: Parquet | None = None, **how: Any) -> list[str | None]:
    path = written(folder, {"a": values}, **how)
    return [fields["a"] for _, fields in read(path, format_ or Parquet(), ["a"])]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, -2, None], pa.int32()), ["1", "-2", None]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array([D("12.30"), D("-0.05")], pa.decimal128(38, 2)), ["12.30", "-0.05"]),
        (pa.array([D("7")], pa.decimal128(5, 0)), ["7"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([0.1, 1.0, -0.0, 1e300, -1.25e-7]), ["0.1", "1.0", "-0.0", "1.0E300", "-0.000000125"]),
        (pa.array([math.nan, math.inf, -math.inf, 1.5e17]), ["NaN", "Infinity", "-Infinity", "150000000000000000.0"]),
        (pa.array([0.1, 1e20], pa.float32()), ["0.1", "100000000000000000000.0"]),
        (pa.array(np.array([1.5, 0.1], np.float16)), ["1.5", "0.099975586"]),
        (pa.array([date(2017, 3, 1), date(1, 1, 1), None]), ["2017-03-01", "0001-01-01", None]),
        (pa.array([time(10, 1, 2, 5)]), ["10:01:02.000005"]),
        (pa.array([b"as text", b"\xff\x00", None]), ["as text", "base64: /wA=", None]),
        (pa.array(["a\x00b", "é\n", ""]), ["a\x00b", "é\n", ""]),
        (pa.array(["x", None, "x"]).dictionary_encode(), ["x", None, "x"]),
        (pa.nulls(2), [None, None]),
        (pa.array([[1, None], [], None]), ["[1,null]", "[]", None]),
        (pa.array([["a\"b\\", "é"], [None]]), ['["a\\"b\\\\","é"]', "[null]"]),
        (pa.array([[D("0.10")], [D("2.00")]], pa.list_(pa.decimal128(9, 2))), ["[0.10]", "[2.00]"]),
        (pa.array([[math.nan, 1e20], [0.5]]), ['["NaN",100000000000000000000.0]', "[0.5]"]),
        (pa.array([[date(2017, 3, 1)]]), ['["2017-03-01"]']),
        (pa.array([{"a": 1, "b 'c'": "x"}, None]), ['{"a":1,"b \'c\'":"x"}', None]),
        (pa.array([{"a": {"b": [{"c": True}]}}, {"a": None}]), ['{"a":{"b":[{"c":true}]}}', '{"a":null}']),
        (pa.array([[("k", 1), ('"', None)], []], pa.map_(pa.string(), pa.int64())), ['{"k":1,"\\"":null}', "{}"]),
        (pa.array([[(7, [1])]], pa.map_(pa.int32(), pa.list_(pa.int64()))), ['{"7":[1]}']),
    ],
)  # fmt: skip
def test_each_type_has_one_text(tmp_path: Path, values: pa.Array, expected: list[str | None]) -> None:
    assert texts(tmp_path, values) == expected


def test_a_moment_is_in_utc_and_in_microseconds(tmp_path: Path) -> None:
    """One of nanoseconds is cut. One that names no zone is none, unless a zone is declared or it has 96 bits."""
    moments = [AT.replace(tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), None]
    expected = ["2017-03-26T00:30:00.120000Z", "1969-12-31T23:59:59.999999Z", None]
    for unit in ("us", "ns"):
        assert texts(tmp_path, pa.array(moments, pa.timestamp(unit, "Asia/Tokyo"))) == expected
    assert texts(tmp_path, pa.array([1490488200123456789], pa.timestamp("ns", "UTC"))) == [
        "2017-03-26T00:30:00.123456Z"
    ]
    bare = pa.array([AT, AT.replace(month=7, day=1, minute=0, hour=0, microsecond=0)], pa.timestamp("us"))
    assert texts(tmp_path, bare) == ["2017-03-26T00:30:00.12", "2017-07-01T00:00:00"]
    assert texts(tmp_path, bare, Parquet(zone="UTC")) == ["2017-03-26T00:30:00.120000Z", "2017-07-01T00:00:00.000000Z"]
    in_berlin = ["2017-03-25T23:30:00.120000Z", "2017-06-30T22:00:00.000000Z"]
    assert texts(tmp_path, bare, Parquet(zone="Europe/Berlin")) == in_berlin
    of_spark: dict[str, Any] = {"use_deprecated_int96_timestamps": True}
    assert texts(tmp_path, bare, **of_spark) == texts(tmp_path, bare, Parquet(zone="UTC"))
    assert texts(tmp_path, bare, Parquet(zone="Europe/Berlin"), **of_spark) == in_berlin
    with pytest.raises(InvalidRequest, match="no time zone 'Europe/Berln'") as wrong:
        Parquet(zone="Europe/Berln")
    assert "Europe/Berlin" in str(wrong.value.hint)


@settings(max_examples=drawn(5), deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_a_double_is_written_as_json_lines_have_it(
    tmp_path_factory: pytest.TempPathFactory, numbers: Sequence[float]
) -> None:
    """So that a number is one text, in whichever format it landed, and is read as itself."""
    found = texts(tmp_path_factory.mktemp("doubles"), pa.array(numbers, pa.float64()))
    assert [float(text or "") for text in found] == numbers
    assert [f'{{"a":"{text}"}}' for text in found] == [as_plain_object(json.dumps({"a": each})) for each in numbers]


# ------------------------------------------------------------------ columns and rows


_DECLARED = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "decimal(18,2)": pa.decimal128(18, 2),
    "decimal(5,0)": pa.decimal128(5, 0),
    "decimal(3,2)": pa.decimal128(3, 2),
}
_WHOLE = [0, 7, -8, 127, -128, None]
_MOMENTS = [0, 1, -1, 1_490_000_000_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999, None]
_OUT_OF_YEARS = [-63_000_000_000_000_000, 253_402_300_800_000_000, 2**62]
_VALUES = {
    "int8": (pa.array(_WHOLE, pa.int8()), {"bigint", "int"}),
    "int16": (pa.array([*_WHOLE, 2**15 - 1], pa.int16()), {"bigint", "int"}),
    "int32": (pa.array([*_WHOLE, 2**31 - 1, -(2**31)], pa.int32()), {"bigint", "int"}),
    "int64": (pa.array([*_WHOLE, 10**18 - 1, 1 - 10**18], pa.int64()), {"bigint"}),
    "too wide": (pa.array([10**18, -(10**18), 2**63 - 1, -(2**63)], pa.int64()), set()),
    "without a sign": (pa.array([0, 2**64 - 1], pa.uint64()), set()),
    "flags": (pa.array([True, False, None]), {"boolean"}),
    "days": (pa.array([0, -719_162, 2_932_896, None], pa.date32()), {"date"}),
    "days of other years": (pa.array([-719_163, 2_932_897], pa.date32()), set()),
    "moments": (pa.array(_MOMENTS, pa.timestamp("us", "UTC")), {"timestamp"}),
    "elsewhere": (pa.array(_MOMENTS[:4], pa.timestamp("us", "Europe/Berlin")), {"timestamp"}),
    "in milliseconds": (pa.array([0, 1_490_000_000_123, None], pa.timestamp("ms", "UTC")), {"timestamp"}),
    "without a zone": (pa.array(_MOMENTS, pa.timestamp("us")), {"timestamp"}),
    "moments of other years": (pa.array(_OUT_OF_YEARS, pa.timestamp("us", "UTC")), set()),
    "cents": (pa.array([D("12.30"), D("-0.05"), None], pa.decimal128(10, 2)), {"decimal(18,2)"}),
    "tenths": (pa.array([D("12.3"), D("-9.9")], pa.decimal128(3, 1)), {"decimal(18,2)"}),
    "thousandths": (pa.array([D("12.305")], pa.decimal128(10, 3)), set()),
    "decimals without a point": (
        pa.array([D("7"), D("-99999")], pa.decimal128(5, 0)),
        {"decimal(5,0)", "decimal(18,2)"},
    ),
    "many digits": (pa.array([D("12.30"), D(10) ** 30], pa.decimal128(38, 2)), set()),
    "shares": (pa.array([D("0.25"), None], pa.decimal128(2, 2)), set()),
    "doubles": (pa.array([1.0, math.nan, 1e300]), set()),
    "texts": (pa.array(["1", "2017-03-01", "true"]), set()),
}


@cache
def _reading(kind: str) -> str:
    import ibis

    table = ibis.table({"n": "int64", "text": "string"}, name="landed")
    return str(ibis.to_sql(table.select("n", value=parsed(table.text, kind)).order_by("n"), dialect="duckdb"))


@pytest.mark.parametrize("name", _VALUES)
def test_a_value_that_is_given_is_what_its_text_is_read_as(tmp_path: Path, name: str) -> None:
    """All values are given of those types that are written with the file's, and of others only right ones."""
    values, always = _VALUES[name]
    path = written(tmp_path, {"a": values})
    with database(1) as connection:
        for kind, declared in _DECLARED.items():
            wanted = pa.schema([("a", declared)])
            batches = list(Parquet(zone="UTC").typed_records(path, ["a"], wanted))
            texts_ = pa.chunked_array([batch.column("fields").field("a") for batch in batches])
            given = [each["a"] for batch in batches for each in batch.column(VALUES).to_pylist()]
            connection.register("landed", pa.table({"n": range(len(texts_)), "text": texts_}))
            read = [value for _, value in connection.execute(_reading(kind)).fetchall()]
            assert [each for each, value in zip(given, read, strict=True) if value is not None and each != value] == (
                [] if kind in always else [None] * sum(value is not None for value in read)
            )
            assert all(value is not None for each, value in zip(given, read, strict=True) if each is not None)


def test_a_value_is_null_where_a_file_has_no_such_column(tmp_path: Path) -> None:
    path = written(tmp_path, {"a": pa.array(["x"])})
    for declared in _DECLARED.values():
        (batch,) = Parquet().typed_records(path, ["a", "b"], pa.schema([("b", declared)]))
        assert batch.column(VALUES).to_pylist() == [{"b": None}]


def test_a_column_is_a_field_by_its_very_name(tmp_path: Path) -> None:
    """``Amount`` is another one than ``amount``, and what the folder says is no column. What is unknown is kept."""
    folder = tmp_path / "day=2017-03-01"
    folder.mkdir()
    columns = {"Amount": [1, 2], "amount": [3, None], "file_row_number": [8, 9], 'a"b': ["x", "y"], "c0": [True, None]}
    path = written(folder, {name: pa.array(values) for name, values in columns.items()})
    unknown = {"file_row_number": "8", 'a"b': "x", "c0": "true"}
    assert read(path, Parquet(), ["amount", "gone", "day"]) == [
        (1, {"amount": "3", "gone": None, "day": None, "Amount": "1", **unknown}),
        (2, {"amount": None, "gone": None, "day": None, "Amount": "2", "file_row_number": "9", 'a"b': "y", "c0": None}),
    ]


@pytest.mark.parametrize("name", ["{a}[1].parquet", "a*?.parquet", "a'b.parquet", "a%20b.pq"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    written(tmp_path, {"a": pa.array([9])}, "ab.parquet")
    path = written(tmp_path, {"a": pa.array([1])}, name)
    assert read(path, Parquet(), ["a"]) == [(1, {"a": "1"})]


def test_rows_are_numbered_in_their_order(tmp_path: Path) -> None:
    """Over row groups and batches; a file without rows has none."""
    path = written(tmp_path, {"a": pa.array(np.arange(50_001))}, row_group_size=7_000)
    assert [(number, fields["a"]) for number, fields in read(path, Parquet(), ["a"])] == [
        (at + 1, str(at)) for at in range(50_001)
    ]
    assert read(written(tmp_path, {"a": pa.array([], pa.int64())}), Parquet(), ["a"]) == []


# ------------------------------------------------------------------ files that are refused


def damaged(folder: Path, kind: str) -> Path:
    path = written(
        folder, {"a": pa.array([f"text {n}" for n in range(10_000)])}, compression="gzip", use_dictionary=False
    )
    content = path.read_bytes()
    broken = {
        "cut off": content[:-9],
        "empty": b"",
        "another": b'{"a":1}\n' * 9,
        "a page": content[:2_000] + b"\x00" * 200 + content[2_200:],
    }
    path.write_bytes(broken[kind])
    return path


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("cut off", "no Parquet, or damaged \\(Parquet magic bytes not found"),
        ("empty", "no Parquet, or damaged \\(Parquet file size is 0 bytes\\)"),
        ("another", "no Parquet, or damaged \\(Parquet magic bytes not found"),
        ("a page", "no Parquet, or damaged \\(.+\\)"),
    ],
)
def test_a_damaged_file_is_refused_by_its_name(tmp_path: Path, kind: str, why: str) -> None:
    """Before a row of it counts, wherever it is damaged; and if it is damaged only while it is read."""
    path = damaged(tmp_path, kind)
    assert _found(path, why)
    with pytest.raises(SourceUnreadable, match=f"a.parquet: {why}"):
        list(Parquet().records(path, ["a"]))


def test_text_that_is_no_utf8_refuses_its_file_and_is_not_told(tmp_path: Path) -> None:
    """It may be personal."""
    _, offsets, content = pa.array([b"ann", b"\xffben"]).buffers()
    path = written(tmp_path, {"a": pa.StringArray.from_buffers(2, offsets, content)})
    assert _found(path, "no Parquet, or damaged \\(.*Invalid string encoding")
    assert "ben" not in str(Parquet().first_problem(path, ["a"]))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ([("b", pa.array([1])), ("c", pa.array([1]))], "it has no column a: its columns are b, c"),
        ([("a", pa.array([1])), ("a", pa.array([1]))], "it has two columns 'a'"),
        ([("a", pa.array([D(1)], pa.decimal256(50, 2)))], "it has decimals of 50 digits, and 38 can be read"),
    ],
)
def test_a_file_that_cannot_be_told_is_refused(
    tmp_path: Path, columns: Sequence[tuple[str, pa.Array]], why: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([values for _, values in columns], [name for name, _ in columns]), path)
    assert _found(path, why)
    with pytest.raises(SourceUnreadable, match=why):
        list(Parquet().records(path, ["a"]))


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match=r"gone\.parquet cannot be read: No such file"):
        list(Parquet().records(tmp_path / "gone.parquet", ["a"]))


def _found(path: Path, why: str) -> bool:
    return re.match(why, Parquet().first_problem(path, ["a"]) or "") is not None
