"""Several tables by one word."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.selection import is_selection, select

FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
STALE = ("bronze_sales", "fact_daily_revenue", "bronze_fx_rates")


def _select(*words: str) -> Sequence[str]:
    return select(words, CATALOG, lambda: STALE)


def test_what_a_table_is_computed_from_and_what_is_computed_from_it() -> None:
    """In build order; each once, also where two words mean it."""
    upstream, downstream = _select(f"+{REVENUE}"), _select(f"{FACT}+")
    assert {"raw_sales", "bronze_fx_rates", FACT} < {*upstream} and upstream[-1] == REVENUE
    assert downstream[0] == FACT and "report_monthly_close" in downstream and "bronze_sales" not in downstream
    assert {*_select(f"+{FACT}+")} == {*_select(f"+{FACT}", f"{FACT}+")} and len(set(upstream)) == len(upstream)
    assert _select(REVENUE, FACT, REVENUE) == [REVENUE, FACT]


def test_tags_are_datasets_layers_and_cadences() -> None:
    assert _select("tag:weekly") == ["report_store_ranking"] and "raw_sales" in _select("tag:raw")
    assert _select("tag:fx_rates") == ["raw_fx_rates", "bronze_fx_rates", "quarantine_fx_rates"]
    with pytest.raises(InvalidRequest, match=r"No table has the tag 'weakly'\.\s.*Did you mean weekly"):
        _select("tag:weakly")


def test_stale_tables_of_all_or_of_a_tag() -> None:
    """The log is read only for them."""
    assert {*_select("stale:")} == {*STALE} and _select("stale:fx_rates") == ["bronze_fx_rates"]
    assert select([REVENUE], CATALOG, pytest.fail) == [REVENUE]
    assert "report_monthly_close" in _select("stale:fx_rates+")


def test_a_plain_name_is_no_selection_and_an_unknown_one_is_refused() -> None:
    assert [is_selection(word) for word in (REVENUE, f"+{REVENUE}", f"{REVENUE}+", "tag:raw", "stale:")] == [
        *(False, True, True, True, True)
    ]
    with pytest.raises(InvalidRequest, match="There is no table"):
        _select("+nosuch")
