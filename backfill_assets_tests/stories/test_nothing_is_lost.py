"""Of all that lands, in any format, every record is published, quarantined, deduplicated or superseded."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from backfill_assets.days import DayRange
from backfill_assets.landing.csv_files import Csv
from backfill_assets.landing.parquet_files import Parquet
from backfill_assets.model.declaration import GateFinding
from backfill_assets.model.landed_format import Format, SourceOfFiles
from backfill_assets.model.rules import FewRejected
from backfill_assets_tests.declared import declare, declared
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.landed_sales import SALE
from backfill_assets_tests.strategies.landed_texts import typed as value_of
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Files = Mapping[str, tuple[list[bytes], bool]]
ARRIVALS = DayRange.parse("2017-03-02..2017-03-03")
SOUND_LINES = 100
"""A day."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_days = st.integers(-2, 2).map(lambda offset: date(2017, 3, 2 + offset) if offset > -2 else date(2017, 2, 28))
_sales = st.builds(
    lambda basket, day, second, cents: {
        **SALE,
        "basket_id": str(basket),
        "transaction_timestamp": f"{day}T10:00:00Z",
        "updated_at": f"2017-03-03T23:00:{second:02d}Z",
        "sales_value": f"{cents}.00",
    },
    basket=st.integers(1, 4),
    day=_days,
    second=st.integers(0, 3),
    cents=st.integers(0, 2),
)
_text = st.text(st.characters(codec="utf-8"), max_size=12)
_json = st.one_of(
    _text, st.none(), st.booleans(), st.integers(), st.floats(), st.lists(_text), st.dictionaries(_text, _text)
)
_changed = st.builds(
    lambda sale, name, value: {**sale, name: value}, _sales, st.sampled_from([*SALE, "unknown", "Currency"]), _json
)
_without = st.builds(
    lambda sale, gone: {name: value for name, value in sale.items() if name != gone},
    _sales,
    st.sampled_from(list(SALE)),
)
_objects = st.one_of(_sales, _sales, _changed, _without).map(lambda fields: json.dumps(fields).encode())
_broken = st.builds(lambda line, cut: line[: cut % len(line)], _objects, st.integers(1, 400))
_anything = st.one_of(
    _text.map(str.encode),
    st.binary(max_size=20),
    st.sampled_from([b"", b" \t", b"{}", b"null", b"[]", BYTE_ORDER_MARK]),
)
_lines = st.lists(
    st.one_of(_objects, _objects, _broken, _anything).map(lambda line: line.replace(b"\n", b" ")), max_size=30
)
_names = st.sampled_from(["a", "a b", "a+b", "a%20b", "ä", "{a}[1]", "a*?"])
_files = st.dictionaries(_names, st.tuples(_lines, st.booleans()), min_size=4, max_size=4)
"""Of a day, by their names: their lines, and whether the last of them has an end. Few builds read many such files."""


@pytest.fixture(scope="module", autouse=True)
def however_many_are_rejected() -> Iterator[None]:
    """A day with a hundred bad lines is held back otherwise."""
    with mock.patch.object(FewRejected, "judge", return_value=GateFinding(True, "any", "any", "")):
        yield


COMPRESSED: Sequence[tuple[str, Callable[[bytes], bytes]]] = (
    (".gz", gzip.compress),
    (".zst", lambda content: pa.compress(content, "zstd", asbytes=True)),
    ("", bytes),
)
"""Each file of a day is written in another way."""


def land_bytes(landing: Path, path: str, lines: Sequence[bytes], *, ended: bool) -> None:
    """A file of these lines; the last one may lack its end."""
    content = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    compress = next(compress for ending, compress in COMPRESSED if path.endswith(ending))
    (landing / path).write_bytes(compress(content))


def places(lines: Sequence[bytes], path: str) -> set[tuple[str, int]]:
    """Where the records are that are not blank; a byte order mark before the first is the file's, not the line's."""
    found, number = set[tuple[str, int]](), 1
    for at, line in enumerate(lines):
        if (line.removeprefix(BYTE_ORDER_MARK) if at == 0 else line).strip(b" \t\r"):
            found.add((path, number))
        number += line.count(b"\n") + 1
    return found


def paths(day: date, names: Iterable[str], kind: str) -> Iterator[tuple[str, str]]:
    """Each name with the file of it."""
    for (ending, _), name in zip(cycle(COMPRESSED), names, strict=False):
        yield name, f"sales/{day}/{name}.{kind}{ending}"


def placed(rows: pd.DataFrame) -> list[tuple[str, int]]:
    return list(zip(rows["source_file"].tolist(), rows["source_line"].tolist(), strict=True))


@settings(max_examples=drawn(3), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(files=st.tuples(_files, _files))
def test_every_line_of_every_file_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    files: tuple[Files, Files],
) -> None:
    """By file and line, by count, and by the sum of content hashes, over all days that the lines belong to."""
    workshop = Workshop(tmp_path_factory.mktemp("fuzz"), lambda: spark)
    expected: set[tuple[str, int]] = set()
    for day, of_day in zip(ARRIVALS, files, strict=True):
        land_lines(workshop.settings.landing, day, "shop", SOUND_LINES)
        expected |= {(f"sales/{day}/shop.jsonl.gz", n + 1) for n in range(SOUND_LINES)}
        for name, path in paths(day, of_day, "jsonl"):
            lines, ended = of_day[name]
            land_bytes(workshop.settings.landing, path, lines, ended=ended)
            expected |= places(lines, path)
    workshop.build("raw_sales", ARRIVALS)
    workshop.build("bronze_sales", sorted(workshop.states("raw_sales")))
    check(workshop, expected)


# ------------------------------------------------------------------ CSV

HEADER = (*SALE, "unknown")


def as_record(fields: Mapping[str, object]) -> bytes:
    """Values with line ends and quotes are between quotes; what is no text is written as Python writes it."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerow([fields.get(name) for name in HEADER])
    return out.getvalue().removesuffix("\r\n").encode(errors="replace")


def without_quotes(line: bytes) -> bytes:
    """A quote that stands open may go on in the next record: that has a test of its own."""
    return line.replace(b'"', b"'").replace(b"\n", b" ")


_records = st.one_of(_sales, _sales, _changed, _without).map(as_record)
_cut = st.builds(lambda line, cut: line[: cut % (len(line) + 1)], _records, st.integers(1, 200)).map(without_quotes)
_csv_lines = st.lists(st.one_of(_records, _records, _cut, _anything.map(without_quotes)), max_size=30)
_csv_files = st.dictionaries(_names, st.tuples(_csv_lines, st.booleans()), min_size=4, max_size=4)


def build_in(format_: Format, workshop: Workshop) -> None:
    """The raw and the bronze sales, of files in another format."""
    sales = next(each for each in declared().datasets if each.name == "sales")
    steps = (
        replace(step, source=SourceOfFiles(**vars(step.source), format=format_)) if step.source else step
        for step in sales.steps
    )
    with pytest.MonkeyPatch.context() as patched:
        declare(patched, replace(sales, steps=tuple(steps)))
        workshop.build("raw_sales", ARRIVALS)
        workshop.build("bronze_sales", sorted(workshop.states("raw_sales")))


def sound_sales(landing: Path, day: date) -> list[dict[str, Any]]:
    """What lines of JSON of a sound day would have been."""
    land_lines(landing, day, "shop", SOUND_LINES)
    shop = landing / "sales" / str(day) / "shop.jsonl.gz"
    found = [json.loads(line) for line in gzip.decompress(shop.read_bytes()).splitlines()]
    shop.unlink()
    return found


@settings(max_examples=drawn(3), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(files=st.tuples(_csv_files, _csv_files))
def test_every_record_of_csv_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, files: tuple[Files, Files]
) -> None:
    """By file and the line where it begins, as lines of JSON are."""
    workshop, expected = Workshop(tmp_path_factory.mktemp("fuzz"), lambda: spark), set[tuple[str, int]]()
    header = ",".join(HEADER).encode()
    for day, of_day in zip(ARRIVALS, files, strict=True):
        sound = [as_record(each) for each in sound_sales(workshop.settings.landing, day)]
        for name, path in paths(day, ["shop", *of_day], "csv"):
            lines, ended = of_day.get(name, (sound, True))
            land_bytes(workshop.settings.landing, path, [header, *lines], ended=ended)
            expected |= places([header, *lines], path) - {(path, 1)}
    build_in(Csv(), workshop)
    check(workshop, expected)


# ------------------------------------------------------------------ Parquet

_rows = st.tuples(st.lists(st.one_of(_sales, _sales, _changed, _without), max_size=30), st.booleans())
_parquet_files = st.dictionaries(_names, _rows, min_size=4, max_size=4)
"""Of a day, by their names: their rows, and whether their columns have types."""
TYPES = {
    "quantity": pa.int32(),
    "basket_id": pa.int64(),
    "sales_value": pa.decimal128(12, 4),
    "transaction_timestamp": pa.timestamp("ns", "UTC"),
    "updated_at": pa.timestamp("ms", "UTC"),
    "retail_disc": pa.float64(),
}


def as_columns(rows: Sequence[Mapping[str, Any]], *, typed: bool) -> pa.Table:
    """Columns of all fields that a row has; one that is to have a type is of text where a value does not fit it."""
    names = dict.fromkeys([*SALE, *(name for row in rows for name in row)])
    values = {name: [row.get(name) for row in rows] for name in names}
    texts = {
        name: pa.array([each if each is None else str(each).encode(errors="replace").decode() for each in column])
        for name, column in values.items()
    }
    return pa.table({name: _typed(column, TYPES.get(name)) if typed else column for name, column in texts.items()})


def _typed(texts: pa.Array, kind: pa.DataType | None) -> pa.Array:
    try:
        return texts.cast(kind) if kind else texts
    except pa.ArrowInvalid:
        return texts


@settings(max_examples=drawn(3), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(files=st.tuples(_parquet_files, _parquet_files))
def test_every_row_of_parquet_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    files: tuple[Mapping[str, tuple[Sequence[Mapping[str, Any]], bool]], ...],
) -> None:
    """By file and row, as lines of JSON are, whatever types its columns have in each file."""
    workshop, expected = Workshop(tmp_path_factory.mktemp("fuzz"), lambda: spark), set[tuple[str, int]]()
    for day, of_day in zip(ARRIVALS, files, strict=True):
        sound = sound_sales(workshop.settings.landing, day)
        for name, (rows, typed) in {"shop": (sound, True), **of_day}.items():
            path = f"sales/{day}/{name}.parquet"
            pq.write_table(as_columns(rows, typed=typed), workshop.settings.landing / path, row_group_size=7)
            expected |= {(path, number + 1) for number in range(len(rows))}
    build_in(Parquet(), workshop)
    check(workshop, expected)


def check(workshop: Workshop, expected: set[tuple[str, int]]) -> None:
    raw, typed, rejected = (workshop.read(table) for table in ("raw_sales", "bronze_sales", "quarantine_sales"))
    received = raw[raw["record_kind"] == "received"]
    assert sorted(placed(received)) == sorted(expected)
    standing = placed(typed) + placed(rejected)
    assert len(standing) == len(set(standing)) and set(standing) <= expected
    assert len(received) == len(typed) + int(typed["deduplicated_rows"].sum()) + len(rejected)
    parts = (typed["content_hash"], typed["deduplicated_hash"], rejected["content_hash"])
    assert sum(map(int, received["content_hash"])) == sum(int(value) for part in parts for value in part)
    assert all(len(reasons) for reasons in rejected["reasons"])
    _check_superseded(received, typed)


def _check_superseded(received: pd.DataFrame, typed: pd.DataFrame) -> None:
    """A row is superseded if a newer version arrived for another day: also one that is rejected there."""
    versions: dict[tuple[str, str], list[Mapping[Hashable, Any]]] = defaultdict(list)
    for row in received.to_dict("records"):
        if not row["day_is_arrival"] and _readable(row):
            versions[_key(row)].append(row)
    for row in typed.to_dict("records"):
        others = [other for other in versions[_key(row)] if other["day"] != row["day"]]
        newer = max((_version(other) for other in others if _version(other) > _version(row)), default=None)
        superseded = None if pd.isna(row["superseded_by_day"]) else row["superseded_by_day"]
        assert superseded == (newer and next(other["day"] for other in others if _version(other) == newer))


def _key(row: Mapping[Hashable, Any]) -> tuple[str, str]:
    return row["basket_id"], row["product_id"]


def _version(row: Mapping[Hashable, Any]) -> tuple[datetime, int]:
    sent = row["updated_at"]
    at = sent if isinstance(sent, datetime) else value_of(sent, "timestamp")
    assert isinstance(at, datetime)
    return at, row["content_hash"]


def _readable(row: Mapping[Hashable, Any]) -> bool:
    texts = [*_key(row), row["updated_at"]]
    whole = all(isinstance(text, str) and text for text in texts)
    return whole and value_of(row["updated_at"], "timestamp") is not None
