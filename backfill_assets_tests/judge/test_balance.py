"""Rows balance rows that are just the same, in any order and any files, and no other ones."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.judge.compare import is_balanced
from backfill_assets.judge.engine import database, select_rows
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets_tests.judge.written_rows import InAStore
from backfill_assets_tests.strategies.how_many import drawn

pytestmark = pytest.mark.data
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
SCHEMA = pa.schema(
    {
        "whole": pa.int64(),
        "small": pa.int16(),
        "amount": pa.decimal128(18, 2),
        "share": pa.float64(),
        "flag": pa.bool_(),
        "on": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "text": pa.string(),
        "bytes": pa.binary(),
        "reasons": pa.list_(pa.string()),
        "parts": pa.list_(pa.list_(pa.string())),
        "place": pa.struct({"x": pa.float32(), "names": pa.list_(pa.string())}),
    }
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-(2**63), 2**63 - 1),
    "small": st.integers(-(2**15), 2**15 - 1),
    "amount": st.integers(-(10**17), 10**17).map(lambda cents: Decimal(cents) / 100),
    "share": st.floats(allow_nan=False),
    "flag": st.booleans(),
    "on": st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    "at": st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    "text": TEXTS,
    "bytes": st.binary(max_size=20),
    "reasons": st.lists(st.none() | TEXTS, max_size=3),
    "parts": st.lists(st.none() | st.lists(st.none() | TEXTS, max_size=2), max_size=2),
    "place": st.fixed_dictionaries(
        {"x": st.none() | st.integers(-9, 9), "names": st.none() | st.lists(TEXTS, max_size=2)}
    ),
}
Row = Mapping[str, Any]
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), max_size=8)


class Scales:
    """Says whether two sides balance. Each of their parts is a file of its own."""

    def __init__(self, duckdb: Any, folder: str) -> None:
        self._duckdb, self._folder, self._names = duckdb, folder, map(str, itertools.count())

    def level(
        self,
        one: Sequence[pa.Table],
        other: Sequence[pa.Table],
        schema: pa.Schema = SCHEMA,
        storage: type[Storage] = Storage,
    ) -> bool:
        files = {weight: [self._written(rows) for rows in some] for weight, some in ((1, one), (-1, other))}
        columns = schema.append(pa.field("side", pa.int64()))
        rows = select_rows(self._duckdb, storage(self._folder), columns, "side", files)
        return is_balanced(self._duckdb, rows, columns, "side")

    def _written(self, rows: pa.Table) -> AddedFile:
        path = f"{next(self._names)}.parquet"
        pq.write_table(rows, Path(self._folder, path))
        return AddedFile(path, "", 0, 0, "{}")

    def same(self, one: Sequence[Row], other: Sequence[Row]) -> bool:
        return self.level([table(one)], [table(other)])


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


@pytest.fixture(scope="module")
def scales() -> Iterator[Scales]:
    with TemporaryDirectory() as folder, database() as duckdb:
        yield Scales(duckdb, folder)


@settings(max_examples=drawn(5), deadline=None)
@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 8), st.sampled_from([Storage, InAStore]))
def test_order_files_and_columns_do_not_matter(
    scales: Scales, rows: list[Row], order: random.Random, first: int, storage: type[Storage]
) -> None:
    shuffled = order.sample(rows, len(rows))
    again = table(shuffled).select(order.sample(SCHEMA.names, len(SCHEMA.names)))
    parts = [again.slice(0, first), again.slice(first)]
    assert scales.level([table(rows)], parts, storage=storage)


@settings(max_examples=drawn(10), deadline=None)
@given(ROWS.filter(bool), st.sampled_from(list(VALUES)), st.data())
def test_any_other_value_is_noticed(scales: Scales, rows: list[Row], column: str, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(rows) - 1))
    other = data.draw((st.none() | VALUES[column]).filter(lambda value: value != rows[number][column]))
    assert not scales.same([*rows[:number], {**rows[number], column: other}, *rows[number + 1 :]], rows)
    assert not scales.same([*rows, rows[number]], rows)
    assert not scales.same(rows, rows[1:])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([("a", "bc")], [("ab", "c")]),
        ([("a", "b")], [("b", "a")]),
        ([("", None)], [(None, "")]),
        ([("a", "1"), ("b", "2")], [("a", "2"), ("b", "1")]),
        ([("a\0", "")], [("a", "")]),
        ([("x" * 8, "")], [("x" * 16, "")]),
        ([("a", "1"), ("a", "1"), ("b", "2")], [("a", "1"), ("b", "2"), ("b", "2")]),
    ],
    ids=repr,
)
def test_values_that_change_places_are_noticed(
    scales: Scales, one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]
) -> None:
    schema = pa.schema({"a": pa.string(), "b": pa.string()})
    left, right = (pa.table([list(column) for column in zip(*rows, strict=True)], schema) for rows in (one, other))
    assert not scales.level([left], [right], schema)


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [
        ("share", 0.0, -0.0),
        ("share", None, math.nan),
        ("reasons", [], None),
        ("reasons", [], [None]),
        ("reasons", ["a", None], ["a", ""]),
        ("reasons", ["a", "b"], ["b", "a"]),
        ("reasons", ["a, b"], ["a", "b"]),
        ("reasons", ["NULL"], [None]),
        ("parts", [["a"], ["b"]], [["a", "b"]]),
        ("parts", [[], ["a"]], [["a"], []]),
        ("place", {"x": None, "names": None}, None),
        ("place", {"x": None, "names": None}, {"x": None, "names": []}),
        ("place", {"x": 0.0, "names": None}, {"x": -0.0, "names": None}),
    ],
    ids=repr,
)
def test_values_that_are_nearly_the_same_are_told_apart(scales: Scales, column: str, one: Any, other: Any) -> None:
    sides = [[{**dict.fromkeys(SCHEMA.names), column: value}] for value in (one, other)]
    assert not scales.same(*sides)
    assert all(scales.same(rows, rows) for rows in sides)


def test_what_is_no_number_is_equal_to_itself(scales: Scales) -> None:
    rows = [{**dict.fromkeys(SCHEMA.names), "share": math.nan, "place": {"x": math.nan, "names": []}}]
    assert scales.same(rows, rows)


def test_every_form_of_a_text_is_the_same_text(scales: Scales) -> None:
    """What a reader makes of a column depends on the file."""
    texts, schema = pa.array(["a", None, "longer than one word of eight", ""]), pa.schema({"t": pa.string()})
    forms = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))
    plain, *others = ([pa.table({"t": texts.cast(form)})] for form in forms)
    assert all(scales.level(plain, other, schema) for other in others)


def test_no_rows_balance_no_rows(scales: Scales) -> None:
    assert scales.level([], []) and scales.level([table([])], [])
