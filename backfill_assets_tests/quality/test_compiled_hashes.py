"""Compiled hashes are those of the specification, of every text and of the text of every number."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backfill_assets.quality import compilation
from backfill_assets.quality.arrow_hashes import NotRendered, first_seeds, hash_of_row
from backfill_assets.quality.arrow_texts import hash_of_named_text, hash_of_named_value
from backfill_assets_tests.quality.kernels_in_use import WAYS, Way, hashed_by
from backfill_assets_tests.strategies.xxh64 import xxh64

pytestmark = pytest.mark.data
SEED = 42


@given(st.binary(max_size=40), st.lists(st.tuples(st.binary(max_size=140), st.integers(0, 2**64 - 1)), max_size=12))
@example(b"", [(b"a" * length, length) for length in (70, 3, 130, 32, 96, 0, 41, 64, 31, 33, 7, 8, 12)])
@example(b"name=", [(b"a" * length, length) for length in (27, 0, 26, 28, 3, 59)])
def test_texts_are_hashed_as_the_specification_says(prefix: bytes, texts: list[tuple[bytes, int]]) -> None:
    """With a name in front of them or without."""
    from backfill_assets.quality.compiled_hashes import hash_of_texts

    places = np.cumsum([0, *(len(text) for text, _ in texts)], dtype=np.int64)
    data = np.frombuffer(b"".join(text for text, _ in texts), np.uint8)
    found = hash_of_texts(prefix, data, places, np.array([seed for _, seed in texts], np.uint64))
    assert [int(each) for each in found] == [xxh64(prefix + text, seed) for text, seed in texts]


@given(st.binary(max_size=20), st.integers(0, 6), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12))
@example(b"", 0, [0, 9, 10, -1, -10, 2**63 - 1, -(2**63)])
@example(b"n=", 2, [0, 1, -1, 99, 100, -100, 2**63 - 1, -(2**63)])
def test_the_text_of_a_number_is_hashed_without_being_written(prefix: bytes, scale: int, numbers: list[int]) -> None:
    """It has a digit before its point, all of those behind it, and no sign if it is 0."""
    from backfill_assets.quality.compiled_hashes import hash_of_numbers

    found = hash_of_numbers(prefix, np.array(numbers, np.int64), scale, np.full(len(numbers), SEED, np.uint64))
    texts = [format(Decimal(number).scaleb(-scale), "f").encode() for number in numbers]
    assert [int(each) for each in found] == [xxh64(prefix + text, SEED) for text in texts]


@pytest.mark.parametrize("way", WAYS)
def test_a_named_value_is_hashed_alike_in_both_ways(way: Way) -> None:
    """Also in a slice; a null leaves the seed as it is."""
    day = Decimal("-0.05"), None, Decimal("1234.50")
    money = pa.array([None, *day], pa.decimal128(18, 2)).slice(1)
    moments = pa.array([7, 1, None, -1]).cast(pa.timestamp("us", "UTC")).slice(1)
    texts = pa.array(["x", "ä", None, ""]).slice(1)
    with hashed_by(way):
        hashes = hash_of_named_value("money", money, "decimal(18,2)", first_seeds(3))
        assert [int(each) for each in hashes] == [_chained("money=-0.05"), SEED, _chained("money=1234.50")]
        hashes = hash_of_named_value("sent", moments, "timestamp", hashes)
        hashes = hash_of_named_text("name", texts, hashes)
    assert [int(each) for each in hashes] == [
        _chained("money=-0.05", "sent=1", "name=ä"),
        SEED,
        _chained("money=1234.50", "sent=-1", "name="),
    ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("values", "spark_type"),
    [
        (pa.array([1]), "timestamp"),
        (pa.array([1], pa.timestamp("us", "UTC")), "bigint"),
        (pa.array([Decimal(1)], pa.decimal128(18, 7)), "decimal(18,7)"),
        (pa.array([1.5]), "double"),
    ],
)
def test_what_has_no_one_text_is_left_to_spark(way: Way, values: pa.Array, spark_type: str) -> None:
    with hashed_by(way), pytest.raises(NotRendered):
        hash_of_named_value("value", values, spark_type, first_seeds(1))


def test_few_rows_load_nothing() -> None:
    """A day of a small table is hashed before Numba were loaded."""
    with hashed_by("numpy"):
        compilation.compile_for(compilation.FROM_ROWS - 1)
        assert compilation.compiled_hashes() is None
        compilation.compile_for(compilation.FROM_ROWS)
        assert compilation.compiled_hashes() is not None
        assert [int(each) for each in hash_of_row([pa.array(["abc"])], 1)] == [xxh64(b"abc", SEED)]


def test_where_nothing_may_be_kept_numpy_hashes(tmp_path: Path) -> None:
    """Numba refuses to compile what it must keep, where neither the package nor the user has a folder for it."""
    says = "from backfill_assets.quality import compilation as c; c.compile_for(10**6); print(c.compiled_hashes())"
    environment = {"NUMBA_CACHE_LOCATOR_CLASSES": "ZipCacheLocator", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", says], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "None\n"


def _chained(*texts: str) -> int:
    hashed = SEED
    for text in texts:
        hashed = xxh64(text.encode(), hashed)
    return hashed
