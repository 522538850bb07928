"""The oracle itself is checked by hand: a wrong oracle would bless a wrong table."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from backfill_assets_tests import oracle

pytestmark = pytest.mark.data
EASTER_MONDAY = date(2017, 4, 17)
FIRST = date(2017, 3, 1)


def test_amounts_round_half_up_at_the_fourth_digit() -> None:
    """Half to even, or rounding a binary float, differs on exactly these."""
    assert oracle.amount_eur(Decimal("0.00005"), Decimal(1)) == Decimal("0.0001")
    assert oracle.amount_eur(Decimal("0.00025"), Decimal(1)) == Decimal("0.0003")
    assert oracle.amount_eur(Decimal("2.49"), Decimal("1.0533")) == Decimal("2.3640")


def test_a_rate_is_the_last_published_at_most_a_week_back() -> None:
    """Over Easter 2017 the last rate is four days old; before the euro there is none."""
    assert oracle.rate_as_of(EASTER_MONDAY, "USD") == Decimal("1.063")
    assert oracle.rate_as_of(EASTER_MONDAY, "EUR") == 1
    with pytest.raises(LookupError):
        oracle.rate_as_of(date(1998, 12, 31), "USD")


def test_versions_differ_by_one_day_of_rate() -> None:
    """The bug of the story, recomputed for one line of 3 March from the two days' published rates."""
    day = date(2017, 3, 3)
    rates = oracle.published_rates()
    for version, rate_day in (("v1", date(2017, 3, 2)), ("v2", day)):
        lines = oracle.transactions(day, day, version)
        cents, amount = int(lines["cents"].iloc[0]), int(lines["amount"].iloc[0])
        right = oracle.amount_eur(Decimal(cents) / 100, rates[rate_day]["USD"])
        assert Decimal(amount) / 10_000 == right


def test_store_days_add_up_to_the_day() -> None:
    """Both fact tables are judged against the same lines."""
    lines = oracle.transactions(FIRST, FIRST, "v2")
    total = oracle.day_totals(lines)[FIRST]
    stores = oracle.daily_revenue(lines).values()
    assert total.lines == 3_881 == sum(store.lines for store in stores)
    assert total.amount_eur == sum(store.revenue_eur for store in stores)
    assert total.sales_value == Decimal("11577.24")
