"""What people write about rows becomes values of declared types, and nothing of it a query."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Table
from backfill_assets.model.row_filter import Condition, RowFilter, filter_columns, read_filter


class Sold(Contract):
    store: T.StringType = Field(key=True)
    number: T.ShortType = Field(key=True)
    price: Annotated[T.DecimalType, 5, 2] = Field()
    sold_on: T.DateType = Field()
    sold_at: T.TimestampType = Field()
    returned: T.BooleanType = Field()
    weight: T.DoubleType = Field()
    note: T.StringType = Field(nullable=True)
    day: T.DateType = Field()


GROUPS = ("price", "sold_on", "sold_at", "returned", "weight", "store")
SOLD = Table("sold", "fact", "", Sold, key=("day", "store", "number"), groups=GROUPS)
NOON = datetime(2017, 3, 1, 12, tzinfo=UTC)


def test_columns_of_the_key_and_the_groups_can_be_named() -> None:
    assert filter_columns(SOLD) == ("store", "number", "price", "sold_on", "sold_at", "returned", "weight")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("store in (7, 3, '7')", Condition("store", ("3", "7"))),
        ("store = 'it''s'", Condition("store", ("it's",))),
        ("store = 007", Condition("store", ("007",))),
        ("number BETWEEN -3 AND 7", Condition("number", (-3, 7), is_range=True)),
        ("price = 1.5", Condition("price", (Decimal("1.50"),))),
        ("sold_on in ('2017-03-02','2017-03-01')", Condition("sold_on", (date(2017, 3, 1), date(2017, 3, 2)))),
        ("sold_at = '2017-03-01T12:00:00Z'", Condition("sold_at", (NOON,))),
        ("sold_at = '2017-03-01 13:00+01:00'", Condition("sold_at", (NOON,))),
        ("returned = true", Condition("returned", (True,))),
    ],
)
def test_literals_have_the_type_of_their_column(text: str, meant: Condition) -> None:
    assert read_filter(text, SOLD).conditions == (meant,)


def test_all_of_several_conditions_count_in_any_order() -> None:
    found = read_filter("store between 'a' and 'f' and number in (1) and store = 'b'", SOLD)
    assert str(found) == "number = 1 and store = 'b' and store between 'a' and 'f'"
    assert found.columns == ("number", "store")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "too early"),
        ("store", "too early"),
        ("store = 3 or 1 = 1", "'or' in place of and"),
        ("store = 3; drop table sold", "at '; drop"),
        ("store = 'open", 'at "\'open"'),
        ("store like 'a%'", "'like' after store"),
        ("store in ()", "is no string"),
        ("store in (3", "too early"),
        ("store != 3", "at '!= 3'"),
        ("note = 'x'", "note is neither of its key nor one of its groups"),
        ("stroe = 3", "Did you mean store?"),
        ("day = '2017-03-01'", "--days"),
        ("number = 70000", "70000 is no smallint"),
        ("number = 1.5", "1.5 is no smallint"),
        ("price = 1.234", "1.234 is no decimal(5,2)"),
        ("price = 1000", "1000 is no decimal(5,2)"),
        ("sold_on = 3", "3 is no date"),
        ("sold_on = '2017-02-30'", "is no date"),
        ("sold_at = 'noon'", "is no timestamp"),
        ("returned = 'yes'", "is no boolean"),
        ("weight = 1.5", "1.5 is no double"),
        ("number between 7 and 3", "between 3 and 7"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_filter(text, SOLD)
    assert said in f"{refused.value.message} {refused.value.hint}" and refused.value.hint


VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "store": st.text(st.characters(codec="utf-8"), max_size=9),
    "number": st.integers(-(2**15), 2**15 - 1),
    "price": st.decimals(Decimal("-999.99"), Decimal("999.99"), places=2),
    "sold_on": st.dates(),
    "sold_at": st.datetimes(timezones=st.just(UTC)),
    "returned": st.booleans(),
}


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    column = draw(st.sampled_from(sorted(VALUES)))
    found = tuple(sorted(draw(st.sets(VALUES[column], min_size=1, max_size=3))))
    return Condition(column, (found[0], found[-1]), is_range=True) if draw(st.booleans()) else Condition(column, found)


@given(st.lists(conditions(), min_size=1, max_size=3))
def test_what_is_written_is_read_as_it_was_meant(meant: list[Condition]) -> None:
    written = str(RowFilter(tuple(meant)))
    found = read_filter(written, SOLD)
    assert sorted(found.conditions, key=str) == sorted(meant, key=str)
    assert read_filter(str(found), SOLD) == found
