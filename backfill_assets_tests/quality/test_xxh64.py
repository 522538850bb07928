from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backfill_assets.quality import xxh64 as xxh64_of_arrays
from backfill_assets.quality.arrow_hashes import NotRendered, hash_of_row
from backfill_assets.quality.xxh64 import hash_of_bytes
from backfill_assets_tests.strategies.xxh64 import xxh64

SEED = 42
TEXTS = st.none() | st.text("aé€𝄞b", max_size=9)
NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1)


def _hashes(columns: Sequence[pa.Array]) -> list[int]:
    return [int(each) for each in hash_of_row(columns, len(columns[0]))]


@pytest.fixture(params=[0, 16], ids=["all by numpy", "few by Python"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xxh64_of_arrays, "_FEW", request.param)


@pytest.mark.usefixtures("few")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.binary(max_size=140), st.integers(0, 2**64 - 1)), max_size=12))
@example([(b"a" * length, length) for length in (70, 3, 130, 32, 96, 0, 41, 64)])
def test_bytes_of_any_length_are_hashed_as_the_specification_says(texts: list[tuple[bytes, int]]) -> None:
    """Short and long ones side by side: stripes, words, half words and single bytes."""
    lengths = np.array([len(text) for text, _ in texts], np.int64)
    starts = np.cumsum(lengths) - lengths
    data = np.frombuffer(b"".join(text for text, _ in texts), np.uint8)
    found = hash_of_bytes(data, starts, lengths, np.array([seed for _, seed in texts], np.uint64))
    assert [int(each) for each in found] == [xxh64(text, seed) for text, seed in texts]


def test_many_texts_are_hashed_together_and_the_longest_few_by_themselves() -> None:
    texts = [b"a" * length for length in (*range(80), 200, 7_000, 1_000_003)]
    lengths = np.array([len(text) for text in texts], np.int64)
    data, starts = np.frombuffer(b"".join(texts), np.uint8), np.cumsum(lengths) - lengths
    found = hash_of_bytes(data, starts, lengths, np.arange(len(texts), dtype=np.uint64))
    assert [int(each) for each in found] == [xxh64(text, seed) for seed, text in enumerate(texts)]


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 8, 11, 12, 31, 32, 33, 63, 64, 65, 100])
def test_texts_of_one_length_are_hashed_alike(length: int) -> None:
    """No row is looked up where all are as long."""
    texts = ["abcdefghij"[number % 10] * length for number in range(7)]
    assert _hashes([pa.array(texts)]) == [xxh64(text.encode(), SEED) for text in texts]


@given(
    st.lists(
        st.tuples(st.none() | st.text("aé€𝄞b", max_size=9), st.none() | st.integers(-(2**63), 2**63 - 1)), min_size=1
    )
)
def test_a_null_leaves_the_seed_as_it_is(rows: list[tuple[str | None, int | None]]) -> None:
    """Each column is seeded by the hash of those before it."""
    expected = []
    for text, number in rows:
        seed = SEED if text is None else xxh64(text.encode(), SEED)
        expected.append(seed if number is None else xxh64(number.to_bytes(8, "little", signed=True), seed))
    texts, numbers = zip(*rows, strict=True)
    assert _hashes([pa.array(texts, pa.string()), pa.array(numbers, pa.int64())]) == expected


@pytest.mark.parametrize(
    ("values", "kind", "hashed"),
    [
        ([0, 1, -1, 127, -128], pa.int8(), lambda value: value.to_bytes(4, "little", signed=True)),
        ([7, -(2**15)], pa.int16(), lambda value: value.to_bytes(4, "little", signed=True)),
        ([2**31 - 1, -(2**31)], pa.int32(), lambda value: value.to_bytes(4, "little", signed=True)),
        ([True, False], pa.bool_(), lambda value: int(value).to_bytes(4, "little")),
        ([date(1969, 12, 31)], pa.date32(), lambda _: (-1).to_bytes(4, "little", signed=True)),
        ([Decimal("-1.50")], pa.decimal128(18, 2), lambda _: (-150).to_bytes(8, "little", signed=True)),
        ([Decimal(127), Decimal(-128)], pa.decimal128(38, 0), lambda value: int(value).to_bytes(1, "big", signed=True)),
        ([Decimal(128), Decimal(-129)], pa.decimal128(38, 0), lambda value: int(value).to_bytes(2, "big", signed=True)),
        ([Decimal(2**63)], pa.decimal128(38, 0), lambda value: int(value).to_bytes(9, "big", signed=True)),
        ([-0.0, 0.0], pa.float64(), lambda _: bytes(8)),
        ([float("nan")], pa.float64(), lambda _: (0x7FF8000000000000).to_bytes(8, "little")),
        ([[], ["a"], ["a"]], pa.list_(pa.string()), None),
    ],
)
def test_each_type_is_hashed_by_the_bytes_that_spark_takes(values: list[Any], kind: pa.DataType, hashed: Any) -> None:
    """Also in a slice, whose values do not begin where their buffers do."""
    column = pa.array([*values[:1], *values], kind).slice(1)
    if hashed is None:
        assert _hashes([column]) == [SEED, *[xxh64(b"a", SEED)] * 2]
    else:
        assert _hashes([column]) == [xxh64(hashed(value), SEED) for value in values]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.map_(pa.string(), pa.int64()), pa.list_(pa.float16())])
def test_what_spark_hashes_otherwise_or_not_at_all_is_left_to_it(kind: pa.DataType) -> None:
    """Also where no row has a value: a metric is measured by one of the two for all days."""
    with pytest.raises(NotRendered):
        hash_of_row([pa.nulls(2, kind)], 2)
