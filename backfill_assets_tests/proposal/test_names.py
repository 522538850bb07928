"""Names of fields become names of columns, whatever a source calls them."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.model.contract import Contract
from backfill_assets.model.dataset import ADDED_BY_INGESTION
from backfill_assets.proposal.names import (
    columns_of_fields,
    may_be_personal,
    rank_as_day,
    rank_as_key,
    rank_as_version,
    said_of,
    words_of,
)


@given(st.lists(st.text() | st.sampled_from(["day", "Day", "DAY", "class", "_id", "id", "ID", "fields", "1st"])))
def test_each_field_has_a_column_of_its_own(names: list[str]) -> None:
    """Which hides nothing of Python's, of a contract's or of ours, and differs from others by more than case."""
    columns = columns_of_fields(names)
    assert columns.keys() == {*names}
    assert len({each.lower() for each in columns.values()}) == len(columns)
    for column in columns.values():
        assert column.isidentifier() and column.isascii() and not keyword.iskeyword(column)
        assert not column.startswith("_") and not hasattr(Contract, column)
        assert column.lower() not in {"day", *ADDED_BY_INGESTION}


def test_a_name_that_can_be_a_column_is_kept() -> None:
    assert columns_of_fields(["orderId", "amount_eur", "Order No", "größe", "day", "%"]) == {
        "orderId": "orderId",
        "amount_eur": "amount_eur",
        "Order No": "order_no",
        "größe": "gro_e",
        "day": "landed_day",
        "%": "landed_field",
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [("orderId", ("order", "id")), ("HTTPStatus2", ("http", "status", "2")), ("a-b.c", ("a", "b", "c")), ("", ())],
)
def test_words_of_a_name(name: str, words: tuple[str, ...]) -> None:
    assert words_of(name) == words


def test_what_names_say() -> None:
    assert [
        rank_as_key(name, "orders") for name in ("order_id", "id", "customer_id", "sku_code", "state", "price")
    ] == [
        0,
        0,
        1,
        2,
        3,
        4,
    ]
    assert rank_as_key("category_id", "categories") == rank_as_key("category_id", "category") == 0
    assert [rank_as_day(name) for name in ("ordered_at", "createdAt", "updated_at", "birth_date")] == [0, 1, 2, 3]
    assert [rank_as_version(name) for name in ("updatedAt", "created_at", "order_date")] == [0, 1, 2]
    assert may_be_personal("clientIp") and not may_be_personal("product_name")
    assert said_of("orderId") == "Order id."
