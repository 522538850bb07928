"""Where every column comes from is known for every registered table, and so what is of a person and never shown."""

from __future__ import annotations

from dataclasses import replace

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.lineage import ColumnOf, column_lineage, columns_of, personal_columns

TOKEN = frozenset({"household_token"})


def test_every_column_is_carried_or_declared() -> None:
    """And every origin is a column of a table that the step reads; raw tables come from files."""
    for table in CATALOG.tables:
        step = CATALOG.step(table.name)
        found = column_lineage(step, table, CATALOG.table)
        if step.source is not None:
            assert found == {}, table.name
            continue
        assert set(found) == set(columns_of(table)), table.name
        reads = {read.table for read in step.version().reads}
        for column, origins in found.items():
            assert origins and {origin.table for origin in origins} <= reads, (table.name, column)
            assert all(origin.column in columns_of(CATALOG.table(origin.table)) for origin in origins)


def test_an_amount_comes_from_what_was_sold_and_from_the_rate() -> None:
    """The column people ask about first: two tables, none of them by its own name."""
    fact = "fact_sales_transactions"
    found = column_lineage(CATALOG.step(fact), CATALOG.table(fact), CATALOG.table)
    assert found["amount_eur"] == (ColumnOf("bronze_sales", "sales_value"), ColumnOf("bronze_fx_rates", "rate"))
    assert found["store_id"] == (ColumnOf("bronze_sales", "store_id"),)


def test_tokens_are_followed_from_the_source_on() -> None:
    """Also the text that may hold a person as landed: the line itself, and the reasons why it was rejected."""
    expected = {
        "raw_sales": TOKEN | {"rescued", "unparsed_line"},
        "quarantine_sales": TOKEN | {"rescued", "unparsed_line", "reasons"},
        "bronze_sales": TOKEN,
        "fact_sales_transactions": TOKEN,
        "fact_daily_revenue": frozenset(),
        "bronze_fx_rates": frozenset(),
        "quarantine_fx_rates": frozenset(),
    }
    assert {table: personal_columns(table, CATALOG.step) for table in expected} == expected


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
