"""Sums of what rows hold: equal for the same rows in any order and any files, different for any other rows."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.lakehouse.content_sums import ContentSums, content_sums
from backfill_assets_tests.strategies.how_many import drawn

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
        "place": pa.struct({"x": pa.int32(), "names": pa.list_(pa.string())}),
        "nothing": pa.null(),
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
    "place": st.fixed_dictionaries({"x": st.none() | st.integers(-9, 9), "names": st.lists(TEXTS, max_size=2)}),
    "nothing": st.none(),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), max_size=8)


def sums(rows: list[dict[str, Any]], most: int = 100) -> ContentSums:
    return content_sums(pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=most))


@settings(max_examples=drawn(30))
@given(ROWS, st.randoms(use_true_random=False), st.integers(1, 3))
def test_order_batches_and_columns_do_not_matter(rows: list[dict[str, Any]], order: random.Random, most: int) -> None:
    """Parts of a batch too: their buffers begin somewhere in the middle."""
    shuffled = order.sample(rows, len(rows))
    columns = order.sample(SCHEMA.names, len(SCHEMA.names))
    again = pa.Table.from_pylist(shuffled, SCHEMA).select(columns)
    assert sums(rows) == content_sums(again.to_batches(max_chunksize=most))
    assert sums(rows) == sums(rows[:1]) + sums(rows[1:])


@settings(max_examples=drawn(30))
@given(ROWS.filter(bool), st.sampled_from(list(VALUES)[:-1]), st.data())
def test_any_other_value_is_noticed(rows: list[dict[str, Any]], column: str, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(rows) - 1))
    other = data.draw((st.none() | VALUES[column]).filter(lambda value: value != rows[number][column]))
    changed = [*rows[:number], {**rows[number], column: other}, *rows[number + 1 :]]
    assert sums(changed) != sums(rows)
    assert sums([*rows, rows[number]]) != sums(rows)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([("a", "bc")], [("ab", "c")]),
        ([("a", "b")], [("b", "a")]),
        ([("", None)], [(None, "")]),
        ([("a", "1"), ("b", "2")], [("a", "2"), ("b", "1")]),
        ([("a\0", "")], [("a", "")]),
        ([("x" * 8, "")], [("x" * 16, "")]),
    ],
    ids=repr,
)
def test_values_that_change_places_are_noticed(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> None:
    def of(rows: list[tuple[Any, ...]]) -> ContentSums:
        return content_sums(pa.table({"a": [row[0] for row in rows], "b": [row[1] for row in rows]}).to_batches())

    assert of(one) != of(other)


def test_every_form_of_a_text_is_the_same_text() -> None:
    """What a reader makes of a column depends on the file."""
    texts = pa.array(["a", None, "longer than one word of eight", ""])
    forms = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))
    found = {content_sums(pa.table({"t": texts.cast(form)}).to_batches()) for form in forms}
    assert len(found) == 1 and content_sums([]) == ContentSums(0, 0)
