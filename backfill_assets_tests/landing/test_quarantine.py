"""Reasons in their general form, and the tables of rejected rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.quarantine import all_rejects, general, rejects_named


@pytest.mark.parametrize(
    ("reason", "form"),
    [
        ("quantity: 'many' is not a bigint", "quantity: is not a bigint"),
        ("sales_value: '' is not a decimal(18,2)", "sales_value: is not a decimal(18,2)"),
        ("sales_value: not greater than or equal to 0 (was -1.20)", "sales_value: not greater than or equal to 0"),
        ("currency: does not match ^[A-Z]{3}$ (was usd)", "currency: does not match ^[A-Z]{3}$"),
        ("updated_at: '2099' is no plausible day", "updated_at: is no plausible day"),
        ("line: is not one JSON object with distinct fields", "line: is not one JSON object with distinct fields"),
        ("basket_id: is missing", "basket_id: is missing"),
    ],
)
def test_the_value_is_taken_out_of_a_reason(reason: str, form: str) -> None:
    """What is left is the column and the rule: what rows are counted by."""
    assert general(reason) == form


@given(st.text("ab1'\"()[]\n\\: ü"))
def test_a_landed_value_cannot_look_like_another_reason(value: str) -> None:
    """All that was landed, quotes, brackets and line ends in it too."""
    assert general(f"quantity: '{value}' is not a bigint") == "quantity: is not a bigint"
    assert general(f"sales_value: not less than 5 (was {value})") == "sales_value: not less than 5"


def test_every_quarantine_table_knows_its_source() -> None:
    """By any table of its step; others have no quarantine, and a typo gets the right name."""
    for rejects in all_rejects(CATALOG):
        assert rejects.raw == f"raw_{rejects.source.name}" and rejects.typed == f"bronze_{rejects.source.name}"
        assert rejects_named(CATALOG, rejects.table) == rejects_named(CATALOG, rejects.typed) == (rejects,)
    with pytest.raises(InvalidRequest, match="fact_daily_revenue has no quarantine"):
        rejects_named(CATALOG, "fact_daily_revenue")
    with pytest.raises(InvalidRequest, match="Did you mean quarantine_sales"):
        rejects_named(CATALOG, "quarantine_sale")
