"""An expectation is not met on exactly the days that are not as expected, and by what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal

import pytest

from backfill_assets.days import Cadence
from backfill_assets.difference.difference import (
    DayCompared,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
)
from backfill_assets.difference.verdict import Deviation, ExpectationVerdict, judge
from backfill_assets.plan.expectations import Expectation
from backfill_assets_tests.difference.compared_month import MARCH, canary, month, unmeasured
from backfill_assets_tests.difference.compared_month import a_day as day_of_march

FRIDAY = date(2017, 3, 3)
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
USD = GroupCompared(value="USD", rows=RowCounts(changed=3))
EUR = GroupCompared(value="EUR", rows=RowCounts(unchanged=3))


def a_day(n: int, before: int, after: int, rows: RowCounts | None = None) -> DayCompared:
    """The ``n``-th day from a Friday on; rows follow from the sums unless they are given."""
    changed = RowCounts(changed=1, unchanged=1) if before != after else RowCounts(unchanged=2)
    sums = {"revenue_eur": Sums(before=Decimal(before), after=Decimal(after))}
    return DayCompared(day=FRIDAY + timedelta(n), how="compared", rows=rows or changed, sums=sums)


def a_table(*days: DayCompared, name: str = REVENUE, **more: object) -> TableCompared:
    return TableCompared.model_validate({"table": name, "measures": ("revenue_eur",), "days": days, **more})


def with_currencies(groups: int, differing: int, *most: GroupCompared) -> TableCompared:
    found = GroupsCompared(column="currency", groups=groups, differing=differing, most=most)
    return a_table(a_day(0, 1, 2), groups=(found,))


def verdict(text: str, *tables: TableCompared) -> ExpectationVerdict:
    (found,) = judge([Expectation.parse(text)], tables)
    return found


def broken_days(found: ExpectationVerdict) -> Mapping[date | None, str]:
    return {each.day: each.observed for each in found.deviations}


def test_a_limit_of_each_day_and_one_of_all_days() -> None:
    """Two days that change in opposite directions: neither is within the limit, together they are."""
    table = a_table(a_day(0, 100, 103), a_day(3, 100, 97), a_day(4, 100, 101))
    each = verdict("revenue_eur < 2% a day", table)
    assert not each.met
    assert broken_days(each) == {FRIDAY: "100 -> 103 (+3.0 %)", FRIDAY + timedelta(3): "100 -> 97 (-3.0 %)"}
    assert verdict("revenue_eur < 2%", table).met
    assert verdict("revenue_eur < 1.1", table).met
    assert broken_days(verdict("revenue_eur < 1", table)) == {None: "300 -> 301 (+0.33 %)"}


def test_exactly_the_limit_is_not_below_it() -> None:
    """And what was nothing before cannot change by a share of it."""
    assert not verdict("revenue_eur < 2% a day", a_table(a_day(0, 100, 102))).met
    assert broken_days(verdict("revenue_eur < 2% a day", a_table(a_day(0, 0, 5)))) == {FRIDAY: "0 -> 5"}
    assert verdict("revenue_eur < 2% a day", a_table(a_day(0, 0, 0))).met


@pytest.mark.parametrize(
    ("text", "before", "after", "met"),
    [
        ("revenue_eur < 3", 100, 102, True),
        ("revenue_eur < 3", 100, 98, True),
        ("revenue_eur < 3", 100, 97, False),
        ("revenue_eur < 3 a day", 100, 97, False),
        ("revenue_eur < 3 a day", 0, 2, True),
        ("revenue_eur < 3%", -100, -98, True),
        ("revenue_eur < 3%", -100, -97, False),
        ("revenue_eur < 0.5%", 1000, 1004, True),
        ("revenue_eur < 0.5%", 1000, 1005, False),
        ("revenue_eur unchanged", 100, 100, True),
        ("revenue_eur unchanged", 100, 101, False),
    ],
)
def test_a_limit_is_one_in_both_directions(text: str, before: int, after: int, met: bool) -> None:
    """In the unit of the measure or as a share of what is in main, also of a negative sum."""
    assert verdict(text, a_table(a_day(0, before, after))).met is met


def test_an_unchanged_measure_is_one_on_each_day() -> None:
    """Two days that make up for each other have both changed."""
    found = verdict("revenue_eur unchanged", a_table(a_day(0, 100, 101), a_day(3, 100, 99)))
    assert list(broken_days(found)) == [FRIDAY, FRIDAY + timedelta(3)]


def test_weekends_are_days_of_daily_tables() -> None:
    """A row that changes without any sum counts; a week that begins on a Saturday is no weekend."""
    saturday = a_day(1, 100, 100, RowCounts(changed=2))
    found = verdict("weekends unchanged", a_table(a_day(0, 100, 103), saturday, a_day(2, 100, 100)))
    assert broken_days(found) == {FRIDAY + timedelta(1): "2 rows would differ"}
    assert verdict("weekends unchanged", a_table(a_day(0, 1, 2), a_day(1, 1, 1))).met
    assert verdict("revenue_eur unchanged on weekends", a_table(saturday)).met
    weekly = a_table(saturday, name="weekly", cadence=Cadence.WEEKLY)
    assert verdict("weekends unchanged", weekly, a_table(a_day(1, 1, 1))).tables == (REVENUE,)


def test_days_that_it_is_not_about_break_nothing() -> None:
    """The bounds of a range are in it, and a limit of all days is one of those days."""
    table = a_table(a_day(0, 100, 200), a_day(1, 100, 101), a_day(2, 100, 101), a_day(3, 100, 200))
    inner = "on 2017-03-04..2017-03-05"
    assert verdict(f"revenue_eur < 2% {inner}", table).met
    assert broken_days(verdict(f"revenue_eur < 1% {inner}", table)) == {None: "200 -> 202 (+1.0 %)"}
    assert list(broken_days(verdict(f"revenue_eur unchanged {inner}", table))) == [date(2017, 3, 4), date(2017, 3, 5)]
    assert list(broken_days(verdict(f"everything unchanged {inner}", table))) == [date(2017, 3, 4), date(2017, 3, 5)]


def test_rows_are_counted() -> None:
    """As many removed as added: their number is unchanged, the rows are not."""
    table = a_table(a_day(0, 100, 100, RowCounts(added=1, removed=1)))
    assert verdict("rows unchanged", table).met
    assert broken_days(verdict("everything unchanged", table)) == {FRIDAY: "2 rows would differ"}
    more = a_table(a_day(0, 100, 100, RowCounts(added=1, unchanged=4)))
    assert broken_days(verdict("rows unchanged", more)) == {FRIDAY: "4 -> 5 (+25.0 %)"}
    assert broken_days(verdict("everything unchanged", more)) == {FRIDAY: "1 row would differ"}


def test_a_group_is_found_among_those_that_differ_most() -> None:
    """One that is not listed differs unless all that differ are listed."""
    assert verdict("currency=EUR unchanged", with_currencies(2, 1, USD, EUR)).met
    assert verdict("currency=EUR unchanged", with_currencies(9, 1, USD)).met
    found = verdict("currency=USD unchanged", with_currencies(2, 1, USD, EUR))
    assert broken_days(found) == {None: "3 rows would differ"}
    gbp = GroupCompared(value="GBP", rows=RowCounts(changed=1))
    assert broken_days(verdict("currency=EUR unchanged", with_currencies(9, 5, USD, gbp))) == {
        None: "not among the 2 groups that differ most"
    }


def test_a_group_is_one_of_its_own_column() -> None:
    """A table that is not grouped by it has no say, unless none of its rows differs."""
    assert not verdict("store=USD unchanged", with_currencies(2, 1, USD, EUR)).tables
    same = a_table(a_day(0, 1, 1), name=FACT)
    assert verdict("store=USD unchanged", same, with_currencies(2, 1, USD, EUR)).tables == (FACT,)
    assert verdict("store=USD unchanged", same).met


def test_nothing_to_judge_by_is_not_held() -> None:
    """An expectation of a table that is not compared says nothing, and must not look as if it did."""
    found = verdict("revenue_eur unchanged in other", a_table(a_day(0, 1, 1)))
    assert not found.met and not found.deviations
    for text in ("usd unchanged", "weekends unchanged", "rows unchanged on 2017-03-04..2017-03-05"):
        assert verdict(text, a_table(a_day(0, 1, 1))) == ExpectationVerdict(expectation=text, tables=())
    assert verdict("rows unchanged").tables == verdict("rows unchanged", a_table()).tables == ()


def test_each_table_that_has_the_measure_is_judged() -> None:
    """In build order; one that is named stands alone."""
    tables = (a_table(a_day(0, 1, 2), name=FACT), a_table(a_day(0, 1, 3)), a_table(a_day(0, 1, 4), measures=()))
    found = verdict("revenue_eur unchanged", *tables)
    assert found.tables == (FACT, REVENUE)
    assert found.deviations == (
        Deviation(table=FACT, day=FRIDAY, observed="1 -> 2 (+100.0 %)"),
        Deviation(table=REVENUE, day=FRIDAY, observed="1 -> 3 (+200.0 %)"),
    )
    assert verdict(f"revenue_eur unchanged in {FACT}", *tables).deviations == found.deviations[:1]


def test_a_verdict_for_each_expectation_as_it_was_written() -> None:
    texts = ["rows unchanged", "weekends unchanged", "revenue_eur < 2% a day"]
    found = judge(map(Expectation.parse, texts), [a_table(a_day(1, 100, 102))])
    assert [(each.expectation, each.met) for each in found] == list(zip(texts, [True, False, False], strict=True))
    assert judge([], [a_table(a_day(1, 1, 2))]) == ()


def test_days_that_are_not_staged_are_not_judged() -> None:
    """The share of a canary is one of its days: of all 31 it would be below the limit."""
    assert broken_days(verdict("revenue_eur < 0.1%", canary())) == {None: "200 -> 199.43 (-0.28 %)"}
    assert broken_days(verdict("everything unchanged", canary())) == {MARCH.first: "3 rows would differ"}


def test_what_is_unknown_is_not_as_expected() -> None:
    """A total that was declared after a day was published, with any limit."""
    found = month(0, days=(day_of_march(MARCH.first, "99.43"), unmeasured(MARCH.last)))
    for together in ("revenue_eur < 1000", "revenue_eur < 5%"):
        assert broken_days(verdict(together, found)) == {None: "unknown"}
    for by_day in ("revenue_eur < 5% a day", "revenue_eur < 1000 a day"):
        assert broken_days(verdict(by_day, found)) == {MARCH.last: "unknown"}
    assert broken_days(verdict("revenue_eur unchanged on 2017-03-31", found)) == {MARCH.last: "unknown"}
    assert verdict("rows unchanged", found).met


def test_only_a_column_changes_where_no_row_comes_or_goes_and_nothing_differs_beside_it() -> None:
    """A day on which nothing differs is as expected, and so is a table without one that differs."""
    text = "only quantity changes"
    good = a_day(0, 1, 2).model_copy(update={"beside": {"quantity": ()}})
    bad = a_day(3, 1, 2).model_copy(update={"beside": {"quantity": ("till", "amount_eur")}})
    more = a_day(4, 1, 2, RowCounts(added=2, unchanged=1)).model_copy(update={"beside": {"quantity": ("till",)}})
    assert verdict(text, a_table(good, a_day(1, 1, 1))).met
    assert verdict(text, a_table(a_day(1, 1, 1))).met
    found = verdict(text, a_table(good, bad, more))
    assert broken_days(found) == {
        FRIDAY + timedelta(3): "till, amount_eur would change too",
        FRIDAY + timedelta(4): "2 rows would be added, 0 removed",
    }
    assert verdict("only quantity changes on weekends", a_table(good, bad, more)).met is False
    assert broken_days(verdict(f"{text} on {FRIDAY}", a_table(good, bad, more))) == {}
    whole = a_table(a_day(0, 1, 2, RowCounts(added=1, removed=1)).model_copy(update={"beside": {"quantity": ()}}))
    assert verdict(text, whole.model_copy(update={"whole_rows": True})).met, "a changed row has no key to know it by"


def test_a_column_that_was_not_compared_may_not_be_the_only_one() -> None:
    unknown = a_table(a_day(0, 1, 2), a_day(1, 1, 1).model_copy(update={"beside": {"quantity": ()}}))
    assert broken_days(verdict("only quantity changes", unknown)) == {FRIDAY: "which columns differ is unknown"}
    other = a_table(a_day(0, 1, 2), name=FACT)
    assert verdict("only quantity changes", other).tables == (), "it has no such column"
    assert not verdict("only quantity changes", other).met
