"""90 real days against totals that were computed without Spark, straight from the packages' own files."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from decimal import Decimal

import pytest

from backfill_assets_tests import oracle
from backfill_assets_tests.stories.conftest import NINETY_DAYS
from backfill_assets_tests.workshop import Workshop


def revenue(workshop: Workshop) -> dict[tuple[date, int], oracle.StoreDay]:
    rows = workshop.read("fact_daily_revenue", NINETY_DAYS)
    columns = ("day", "store_id", "revenue_eur", "lines", "baskets", "quantity")
    return {
        (day, int(store)): oracle.StoreDay(euros, lines, baskets, quantity)
        for day, store, euros, lines, baskets, quantity in zip(*(rows[c].tolist() for c in columns), strict=True)
    }


def totals(workshop: Workshop) -> dict[date, oracle.DayTotal]:
    columns = ["day", "amount_eur", "sales_value"]
    rows = workshop.read("fact_sales_transactions", NINETY_DAYS, columns)
    lines: dict[date, list[tuple[Decimal, Decimal]]] = defaultdict(list)
    for day, euros, dollars in zip(*(rows[name].tolist() for name in columns), strict=True):
        lines[day].append((euros, dollars))
    return {day: _total(found) for day, found in lines.items()}


def _total(lines: list[tuple[Decimal, Decimal]]) -> oracle.DayTotal:
    euros, dollars = zip(*lines, strict=True)
    return oracle.DayTotal(sum(euros, Decimal(0)), sum(dollars, Decimal(0)), len(lines))


@pytest.mark.timeout(900)
def test_both_fact_tables_equal_the_totals_from_the_packages_to_the_cent(workshop: Workshop) -> None:
    """The mission's case: history built with the previous day's rate, then rebuilt with the right one.

    Every day, and every store on every day, under both versions; the rebuild with v2 leaves bronze alone.
    """
    workshop.land_real(NINETY_DAYS)
    workshop.build_all(NINETY_DAYS, "v1")
    assert totals(workshop) == oracle.day_totals(NINETY_DAYS.first, NINETY_DAYS.last, "v1")
    assert revenue(workshop) == oracle.daily_revenue(NINETY_DAYS.first, NINETY_DAYS.last, "v1")
    bronze = {day: state.publication for day, state in workshop.states("bronze_sales").items()}

    workshop.build_all(NINETY_DAYS, "v2")

    assert totals(workshop) == oracle.day_totals(NINETY_DAYS.first, NINETY_DAYS.last, "v2")
    assert revenue(workshop) == oracle.daily_revenue(NINETY_DAYS.first, NINETY_DAYS.last, "v2")
    assert {day: state.publication for day, state in workshop.states("bronze_sales").items()} == bronze
