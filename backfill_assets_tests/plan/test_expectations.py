"""What is expected of a difference is read strictly, and broken by exactly the days that are not as expected."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal

import pytest

from backfill_assets.datasets import registry
from backfill_assets.days import Cadence
from backfill_assets.difference.records import (
    DayCompared,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
)
from backfill_assets.difference.verdicts import ExpectationVerdict, judge
from backfill_assets.errors import InvalidRequest
from backfill_assets.plan.expectations import Expectation, require_known

FRIDAY = date(2017, 3, 3)
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"


def a_day(n: int, before: int, after: int, rows: RowCounts | None = None) -> DayCompared:
    """The ``n``-th day from a Friday on; rows follow from the sums unless they are given."""
    changed = RowCounts(changed=1, unchanged=1) if before != after else RowCounts(unchanged=2)
    sums = {"revenue_eur": Sums(before=Decimal(before), after=Decimal(after))}
    return DayCompared(day=FRIDAY + timedelta(n), how="compared", rows=rows or changed, sums=sums)


def a_table(*days: DayCompared, name: str = REVENUE, **more: object) -> TableCompared:
    return TableCompared.model_validate({"table": name, "measures": ("revenue_eur",), "days": days, **more})


def verdict(text: str, *tables: TableCompared) -> ExpectationVerdict:
    (found,) = judge([Expectation.parse(text)], tables)
    return found


def broken_days(found: ExpectationVerdict) -> Mapping[date | None, str]:
    return {each.day: each.observed for each in found.deviations}


@pytest.mark.parametrize(
    "text",
    [
        "revenue_eur < 2% a day",
        "revenue_eur < 0.5%",
        "revenue_eur < 0.0000001% a day",
        "revenue_eur < 1000",
        "rows unchanged",
        "rows < 5 a day on weekdays",
        "weekends unchanged",
        "everything unchanged",
        "everything unchanged on 2017-03-01..2017-03-05",
        "currency=EUR unchanged in fact_sales_transactions",
        "quantity unchanged on weekdays in fact_sales_transactions",
    ],
)
def test_an_expectation_is_written_as_it_is_read(text: str) -> None:
    """The text in the plan is the one that was given."""
    found = Expectation.parse(text)
    assert str(found) == text
    assert Expectation.model_validate_json(found.model_dump_json()) == found


def test_ways_to_write_the_same() -> None:
    """Spaces, a single day, and the long form of a shorthand."""
    assert Expectation.parse(" revenue_eur<2 % a  day ") == Expectation.parse("revenue_eur < 2% a day")
    assert Expectation.parse("everything unchanged on weekends") == Expectation.parse("weekends unchanged")
    assert str(Expectation.parse("rows unchanged on 2017-03-01")) == "rows unchanged on 2017-03-01..2017-03-01"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "revenue_eur",
        "revenue_eur < 2% a week",
        "revenue_eur <= 2%",
        "revenue_eur < -2%",
        "revenue_eur < 0%",
        "revenue_eur unchanged a day",
        "weekends < 2%",
        "everything < 2%",
        "currency=EUR < 2%",
        "currency=EUR unchanged on weekends",
        "rows unchanged on mondays",
        "rows unchanged on 2017-03-05..2017-03-01",
        "rows unchanged in",
        "rows unchanged please",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """A plan never holds an expectation that means something else than was written."""
    with pytest.raises(InvalidRequest):
        Expectation.parse(text)


def test_an_expectation_of_what_is_not_there_is_refused_with_the_nearest() -> None:
    """Before the plan is kept."""
    tables = [registry.table(FACT), registry.table(REVENUE)]
    require_known([Expectation.parse(t) for t in ("revenue_eur < 2%", "currency=EUR unchanged", "rows < 1")], tables)
    for text, hint in (
        ("revenue_euro < 2%", "Did you mean revenue_eur?"),
        ("curency=EUR unchanged", "Did you mean currency?"),
        ("rows unchanged in fact_daily_revenues", f"Did you mean {REVENUE}?"),
        (f"revenue_eur < 2% in {FACT}", "There are: amount_eur"),
    ):
        with pytest.raises(InvalidRequest, match=hint.replace("?", "[?]")):
            require_known([Expectation.parse(text)], tables)


def test_a_limit_of_each_day_and_one_of_all_days() -> None:
    """Two days that change in opposite directions: neither is within the limit, together they are."""
    table = a_table(a_day(0, 100, 103), a_day(3, 100, 97), a_day(4, 100, 101))
    each = verdict("revenue_eur < 2% a day", table)
    assert not each.held
    assert broken_days(each) == {FRIDAY: "100 -> 103 (+3.0 %)", FRIDAY + timedelta(3): "100 -> 97 (-3.0 %)"}
    assert verdict("revenue_eur < 2%", table).held
    assert verdict("revenue_eur < 1.1", table).held
    assert broken_days(verdict("revenue_eur < 1", table)) == {None: "300 -> 301 (+0.33 %)"}


def test_exactly_the_limit_is_not_below_it() -> None:
    """And what was nothing before cannot change by a share of it."""
    assert not verdict("revenue_eur < 2% a day", a_table(a_day(0, 100, 102))).held
    assert broken_days(verdict("revenue_eur < 2% a day", a_table(a_day(0, 0, 5)))) == {FRIDAY: "0 -> 5"}
    assert verdict("revenue_eur < 2% a day", a_table(a_day(0, 0, 0))).held


def test_weekends_are_days_of_daily_tables() -> None:
    """A row that changes without any sum counts; a week that begins on a Saturday is no weekend."""
    saturday = a_day(1, 100, 100, RowCounts(changed=2))
    found = verdict("weekends unchanged", a_table(a_day(0, 100, 103), saturday, a_day(2, 100, 100)))
    assert broken_days(found) == {FRIDAY + timedelta(1): "2 rows would differ"}
    assert verdict("weekends unchanged", a_table(a_day(0, 1, 2), a_day(1, 1, 1))).held
    assert verdict("revenue_eur unchanged on weekends", a_table(saturday)).held
    weekly = a_table(saturday, name="weekly", cadence=Cadence.WEEKLY)
    assert verdict("weekends unchanged", weekly, a_table(a_day(1, 1, 1))).tables == (REVENUE,)


def test_rows_are_counted() -> None:
    """As many removed as added: their number is unchanged, the rows are not."""
    table = a_table(a_day(0, 100, 100, RowCounts(added=1, removed=1)))
    assert verdict("rows unchanged", table).held
    assert broken_days(verdict("everything unchanged", table)) == {FRIDAY: "2 rows would differ"}
    more = a_table(a_day(0, 100, 100, RowCounts(added=1, unchanged=4)))
    assert broken_days(verdict("rows unchanged", more)) == {FRIDAY: "4 -> 5 (+25.0 %)"}


def test_a_group_is_found_among_those_that_differ_most() -> None:
    """One that is not listed differs unless all that differ are listed."""
    usd = GroupCompared(value="USD", rows=RowCounts(changed=3))
    eur = GroupCompared(value="EUR", rows=RowCounts(unchanged=3))

    def of(groups: int, differing: int, *most: GroupCompared) -> TableCompared:
        told = GroupsCompared(column="currency", groups=groups, differing=differing, most=most)
        return a_table(a_day(0, 1, 2), groups=(told,))

    assert verdict("currency=EUR unchanged", of(2, 1, usd, eur)).held
    assert verdict("currency=EUR unchanged", of(9, 1, usd)).held
    assert broken_days(verdict("currency=USD unchanged", of(2, 1, usd, eur))) == {None: "3 rows would differ"}
    assert broken_days(verdict("currency=EUR unchanged", of(9, 5, usd))) == {
        None: "not among the 1 groups that differ most"
    }


def test_nothing_to_judge_by_is_not_held() -> None:
    """An expectation of a table that is not compared says nothing, and must not look as if it did."""
    found = verdict("revenue_eur unchanged in other", a_table(a_day(0, 1, 1)))
    assert not found.held and not found.deviations
