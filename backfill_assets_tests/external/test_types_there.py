"""Whether columns of others can be read as they are declared, in words."""

from __future__ import annotations

from datetime import date
from decimal import Context, Decimal
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from backfill_assets.external.types_there import is_readable_as, problems_of
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.external_table import ExternalTable

WHOLE = {"byte": 8, "short": 16, "integer": 32, "long": 64}
BY_SPARK = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


class Order(Contract):
    """An order of others."""

    id: str = Field(key=True)
    pieces: T.LongType = Field()
    amount: Annotated[T.DecimalType, 12, 2] = Field(landed="Amount net")
    tags: list[str] = Field()
    day: date = Field()


ORDERS = ExternalTable("orders", Order, location="/others/orders", day="ordered_at")
THERE = {
    "ID": "string",
    "pieces": "integer",
    "amount net": "decimal(10,2)",
    "tags": "array",
    "ordered_at": "timestamp",
    "more": "binary",
}


def test_names_differ_by_case_types_may_be_narrower_and_more_columns_are_left_alone() -> None:
    assert problems_of(ORDERS, THERE) == []


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"pieces": "double"}, "'pieces' is a double, and is declared as a bigint"),
        ({"amount net": "decimal(12,4)"}, "'Amount net' is a decimal(12,4), and is declared as a decimal(12,2)"),
        ({"amount net": "double"}, "'Amount net' is a double, and is declared as a decimal(12,2)"),
        ({"ID": "long"}, "'id' is a bigint, and is declared as a string"),
        ({"tags": "map"}, "'tags' is a map, and is declared as an array<string>"),
        ({"tags": "string"}, "'tags' is a string, and is declared as an array<string>"),
    ],
)
def test_another_type_is_named_beside_what_is_declared(there: dict[str, str], said: str) -> None:
    assert problems_of(ORDERS, THERE | there) == [said]


def test_a_column_that_is_missing_is_named_with_one_that_is_meant() -> None:
    there = {name: kind for name, kind in THERE.items() if name != "pieces"} | {"pices": "long"}
    (said,) = problems_of(ORDERS, there)
    assert said.startswith("there is no column 'pieces'")
    assert "pices" in said


@given(st.sampled_from(sorted(WHOLE)), st.sampled_from(sorted(WHOLE)))
def test_a_whole_number_is_read_as_a_longer_one_and_never_cut(there: str, declared: str) -> None:
    assert is_readable_as(BY_SPARK[there], BY_SPARK[declared]) == (WHOLE[declared] >= WHOLE[there])


@given(st.tuples(*[st.integers(1, 38)] * 2), st.tuples(*[st.integers(0, 38)] * 2))
def test_a_decimal_is_read_if_and_only_if_each_of_its_values_fits(digits: tuple[int, int], at: tuple[int, int]) -> None:
    """The greatest value of one type is written in the other: nothing is cut before or behind the point."""
    behind = tuple(min(each) for each in zip(digits, at, strict=True))
    there, declared = (f"decimal({d},{b})" for d, b in zip(digits, behind, strict=True))
    greatest = Decimal(10 ** digits[0] - 1).scaleb(-behind[0], Context(prec=80))
    least = Decimal(1).scaleb(-behind[0])
    fits = all(
        each == each.quantize(Decimal(1).scaleb(-behind[1]), context=Context(prec=80))
        and each < Decimal(10) ** (digits[1] - behind[1])
        for each in (greatest, least)
    )
    assert is_readable_as(there, declared) == fits


@pytest.mark.parametrize(
    ("there", "declared", "is_readable"),
    [
        ("float", "double", True),
        ("double", "float", False),
        ("int", "double", False),
        ("timestamp_ntz", "timestamp", True),
        ("timestamp", "timestamp_ntz", False),
        ("timestamp", "date", False),
        ("struct", "struct<a:int>", True),
        ("array", "struct<a:int>", False),
    ],
)
def test_nothing_is_guessed(there: str, declared: str, is_readable: bool) -> None:
    assert is_readable_as(there, declared) == is_readable


def test_the_day_itself_is_judged_where_files_are_read() -> None:
    assert problems_of(ORDERS, {**THERE, "ordered_at": "string"}) == []
