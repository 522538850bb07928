"""90 real days against totals that were computed without Spark, straight from the packages' own files."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from decimal import Decimal

import pandas as pd
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


def sums(rows: pd.DataFrame) -> list[oracle.Sums]:
    columns = (rows[name].tolist() for name in ("revenue_eur", "lines", "baskets", "quantity"))
    return [oracle.Sums(*found) for found in zip(*columns, strict=True)]


def departments(workshop: Workshop) -> dict[tuple[date, str], oracle.Sums]:
    rows = workshop.read("report_department_revenue")
    return dict(zip(zip(rows["day"].tolist(), rows["department"].tolist(), strict=True), sums(rows), strict=True))


def ranking(workshop: Workshop) -> dict[tuple[date, int], tuple[int, oracle.Sums]]:
    rows = workshop.read("report_store_ranking")
    keys = zip(rows["day"].tolist(), map(int, rows["store_id"].tolist()), strict=True)
    return dict(zip(keys, zip(rows["rank"].tolist(), sums(rows), strict=True), strict=True))


def close(workshop: Workshop) -> dict[date, tuple[Decimal, int, oracle.Sums]]:
    rows = workshop.read("report_monthly_close")
    columns = zip(rows["revenue"].tolist(), rows["stores"].tolist(), sums(rows), strict=True)
    return dict(zip(rows["day"].tolist(), columns, strict=True))


def assert_reports_equal_the_packages(workshop: Workshop, version: oracle.Version) -> None:
    first, last = NINETY_DAYS.first, NINETY_DAYS.last
    assert departments(workshop) == oracle.department_revenue(first, last, version)
    assert ranking(workshop) == oracle.store_ranking(first, last, version)
    assert close(workshop) == oracle.monthly_close(first, last, version)


def completeness(workshop: Workshop, table: str) -> dict[str, set[tuple[int, bool]]]:
    """Days published and whether that is all of them, by period; each row of a period must say the same."""
    rows = workshop.read(table)
    columns = (rows[name].tolist() for name in ("day", "days_published", "complete"))
    found: dict[str, set[tuple[int, bool]]] = defaultdict(set)
    for day, published, complete in zip(*columns, strict=True):
        found[str(day)].add((published, complete))
    return found


@pytest.mark.timeout(900)
def test_facts_and_reports_equal_the_totals_from_the_packages_to_the_cent(workshop: Workshop) -> None:
    """The mission's case: history built with the previous day's rate, then rebuilt with the right one.

    Every day, and every store on every day, under both versions; the rebuild with v2 leaves bronze alone. Reports too,
    also of the weeks and months that the range cuts, which say so.
    """
    workshop.land_real(NINETY_DAYS)
    workshop.build_all(NINETY_DAYS, "v1")
    assert totals(workshop) == oracle.day_totals(NINETY_DAYS.first, NINETY_DAYS.last, "v1")
    assert revenue(workshop) == oracle.daily_revenue(NINETY_DAYS.first, NINETY_DAYS.last, "v1")
    workshop.build_reports(NINETY_DAYS)
    assert_reports_equal_the_packages(workshop, "v1")
    bronze = {day: state.publication for day, state in workshop.states("bronze_sales").items()}

    workshop.build_all(NINETY_DAYS, "v2")

    assert totals(workshop) == oracle.day_totals(NINETY_DAYS.first, NINETY_DAYS.last, "v2")
    assert revenue(workshop) == oracle.daily_revenue(NINETY_DAYS.first, NINETY_DAYS.last, "v2")
    assert {day: state.publication for day, state in workshop.states("bronze_sales").items()} == bronze

    workshop.build_reports(NINETY_DAYS)
    assert_reports_equal_the_packages(workshop, "v2")
    assert completeness(workshop, "report_monthly_close") == {
        "2017-03-01": {(31, True)},
        "2017-04-01": {(30, True)},
        "2017-05-01": {(29, False)},
    }
    weeks = completeness(workshop, "report_store_ranking")
    assert (weeks.pop("2017-02-27"), weeks.pop("2017-05-29")) == ({(5, False)}, {(1, False)})
    assert set().union(*weeks.values()) == {(7, True)}
    assert any("report_monthly_close 2017-05-01..2017-05-31 is cut: 29 of 31 days" in m for m in workshop.messages)
