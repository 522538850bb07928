"""What is of a person is known for every table from what the source declares, and is never shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.lineage import personal_columns

TOKEN = frozenset({"household_token"})


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("raw_sales", TOKEN | {"rescued", "unparsed_line"}),
        ("quarantine_sales", TOKEN | {"rescued", "unparsed_line", "reasons"}),
        ("bronze_sales", TOKEN),
        ("fact_sales_transactions", TOKEN),
        ("fact_daily_revenue", frozenset()),
        ("bronze_fx_rates", frozenset()),
        ("quarantine_fx_rates", frozenset()),
    ],
)
def test_tokens_are_followed_from_the_source_on(table: str, columns: frozenset[str]) -> None:
    """Also the text that may hold a person as landed: the line itself, and the reasons why it was rejected."""
    assert personal_columns(table, CATALOG.step) == columns


def test_a_new_name_does_not_hide_a_token_and_a_count_of_them_is_none() -> None:
    """``store_id`` and ``lines`` stand for columns that are made of the token."""
    step = CATALOG.step("fact_daily_revenue")
    origin = ("fact_sales_transactions.household_token",)
    made_of = {**step.tables[0].made_of, "store_id": origin, "lines": origin}
    made = replace(step, tables=(replace(step.tables[0], made_of=made_of),))
    found = personal_columns("fact_daily_revenue", lambda name: made if name == made.name else CATALOG.step(name))
    assert found == {"store_id"}


def test_no_group_is_personal() -> None:
    """Groups are shown by their values."""
    for table in CATALOG.tables:
        assert not personal_columns(table.name, CATALOG.step) & set(table.groups)
        assert set(table.groups) <= set(table.contract.fields())
