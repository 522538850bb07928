from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.quality.arrow_checks import check, exact_decimal, re2_pattern
from backfill_assets.quality.arrow_hashes import NotRendered

_BY = {
    "eq": lambda value, limit: value == limit,
    "ne": lambda value, limit: value != limit,
    "gt": lambda value, limit: value > limit,
    "ge": lambda value, limit: value >= limit,
    "lt": lambda value, limit: value < limit,
    "le": lambda value, limit: value <= limit,
}
LIMITS = st.integers(-(10**6), 10**6) | st.decimals(-1000, 1000, places=4) | st.sampled_from([10**18, -(10**18)])


@example(values=[149, 150], limit=Decimal("1.495"), by="ge")
@example(values=[149, 150], limit=Decimal("1.495"), by="le")
@given(values=st.lists(st.none() | st.integers(-(10**6) + 1, 10**6 - 1)), limit=LIMITS, by=st.sampled_from(sorted(_BY)))
def test_decimals_are_compared_exactly(values: list[int | None], limit: int | Decimal, by: str) -> None:
    """With a limit between two of their values, and with one that none of them can reach."""
    decimals = [None if value is None else exact_decimal(value, 2) for value in values]
    found = check(pa.array(decimals, pa.decimal128(6, 2)), by, limit).to_pylist()
    assert found == [None if value is None else _BY[by](value, limit) for value in decimals]


@pytest.mark.parametrize(
    ("values", "name", "asked", "fulfilled"),
    [
        (["a", "b", None], "isin", ["a"], [True, False, None]),
        (["a", "b", None], "notin", ["a"], [False, True, None]),
        ([1, 2, None], "in_range", {"min_value": 1, "max_value": 2, "include_min": False}, [False, True, None]),
        (["", "é€𝄞", None], "str_length", {"min_value": 1, "max_value": 3}, [False, True, None]),
        (["EUR", "EUR\n", "EURO", "xEUR", None], "str_matches", "^[A-Z]{3}$", [True, True, False, False, None]),
        (["EUR", "1EUR"], "str_matches", "[A-Z]", [True, False]),
        (["EUR", "USD1", "xUSD", "USD"], "str_matches", "^EUR|USD$", [True, False, False, True]),
        (["a.b", "a\u2028b", "axb"], "str_matches", "a.b", [True, False, True]),
        ([float("nan"), 1.0], "ge", 2, [True, False]),
    ],
)
def test_each_check_says_what_spark_says(
    values: list[Any], name: str, asked: Any, fulfilled: list[bool | None]
) -> None:
    """Null for null; and a line end behind a text passes Java's ``$``."""
    assert check(pa.array(values), name, asked).to_pylist() == fulfilled


@pytest.mark.parametrize(
    ("kind", "name", "asked"),
    [
        (pa.string(), "ge", 1),
        (pa.int64(), "lt", Decimal("0.5")),
        (pa.int64(), "eq", True),
        (pa.decimal128(38, 30), "ge", 0),
        (pa.decimal128(18, 2), "ge", 0.5),
        (pa.timestamp("us", "UTC"), "ge", 0),
        (pa.string(), "str_matches", "^(?=a)"),
        (pa.string(), "str_matches", "^a$b"),
        (pa.string(), "str_matches", r"^\w+$"),
        (pa.string(), "str_matches", "^[a&&b]$"),
        (pa.string(), "str_matches", re.compile("^a$", re.IGNORECASE)),
        (pa.int64(), "str_matches", "^a$"),
        (pa.list_(pa.string()), "isin", ["a"]),
        (pa.string(), "of_tomorrow", 1),
    ],
)
def test_what_would_be_judged_differently_is_left_to_spark(kind: pa.DataType, name: str, asked: Any) -> None:
    """A verdict by another rule is worse than a slower one."""
    with pytest.raises(NotRendered):
        check(pa.nulls(1, kind), name, asked)


def test_every_declared_pattern_is_read_by_both() -> None:
    """None of the project's own checks is left to Spark for its pattern."""
    fields = [field for table in CATALOG.tables for field in table.contract.fields().values()]
    patterns = {field.checks["str_matches"] for field in fields if "str_matches" in field.checks}
    assert patterns and all(re2_pattern(pattern) for pattern in patterns)
