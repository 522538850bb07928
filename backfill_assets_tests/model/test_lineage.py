"""Where every column comes from is known for every registered table."""

from __future__ import annotations

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.lineage import ColumnOf, column_lineage, columns_of


@pytest.mark.parametrize("table", CATALOG.table_names)
def test_every_column_is_carried_or_declared(table: str) -> None:
    """And every origin is a column of a table that the step reads; raw tables come from files."""
    step = CATALOG.step(table)
    found = column_lineage(step, CATALOG.table(table), CATALOG.table)
    if step.source is not None:
        assert found == {}
        return
    reads = {read.table for read in step.version().reads}
    assert set(found) == set(columns_of(CATALOG.table(table)))
    for column, origins in found.items():
        assert origins, column
        for origin in origins:
            assert origin.table in reads
            assert origin.column in columns_of(CATALOG.table(origin.table))


def test_an_amount_comes_from_what_was_sold_and_from_the_rate() -> None:
    """The column people ask about first: two tables, none of them by its own name."""
    found = column_lineage(
        CATALOG.step("fact_sales_transactions"), CATALOG.table("fact_sales_transactions"), CATALOG.table
    )
    assert found["amount_eur"] == (ColumnOf("bronze_sales", "sales_value"), ColumnOf("bronze_fx_rates", "rate"))
    assert found["store_id"] == (ColumnOf("bronze_sales", "store_id"),)
