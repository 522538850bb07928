"""What is made of a comparison: expectations that are met or not, one sentence, and totals that have to agree."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal

import pytest

from backfill_assets.days import Cadence
from backfill_assets.difference.difference import (
    DayCompared,
    DayIs,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
    TableDifference,
)
from backfill_assets.difference.verdict import (
    Agreement,
    Deviation,
    Difference,
    ExpectationVerdict,
    SameTotal,
    agreement_sentence,
    change,
    change_sentence,
    find_agreements,
    judge,
    table_sentence,
)
from backfill_assets.plan.expectations import Expectation
from backfill_assets_tests.difference.compared_month import (
    MARCH,
    a_sample,
    by,
    canary,
    difference,
    month,
    sums,
    unmeasured,
)
from backfill_assets_tests.difference.compared_month import a_day as day_of_march

FRIDAY = date(2017, 3, 3)
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)
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


# ------------------------------------------------------------------ the whole campaign


def test_the_whole_campaign_is_reported_by_the_table_that_was_asked_for() -> None:
    """Unless it does not change and another one does."""
    other = month(2, table="other")
    assert difference(other, month(22)).sentence == (
        "report, March 2017: revenue eur -0.40 % on 22 of 31 days. 2 of 2 tables change."
    )
    assert difference(other, month(0), expected=("rows unchanged",)).sentence == (
        "other, March 2017: revenue eur -0.037 % on 2 of 31 days. 1 of 2 tables changes. It is as expected."
    )
    broken = difference(month(22), expected=("rows unchanged", "revenue_eur < 0.5% a day"))
    assert broken.sentence.endswith("1 of 2 expectations is not met.")
    assert len(broken.unmet[0].deviations) == 22


def test_a_difference_goes_to_json_and_back() -> None:
    """Others read it without Spark; decimals stay exact."""
    found = difference(month(2, (by("store_id", (None, 1)),), sample=a_sample(2)), expected=("weekends unchanged",))
    assert Difference.model_validate_json(found.model_dump_json()) == found
    assert found.model_dump(mode="json")["tables"][0]["days"][0]["sums"]["revenue_eur"]["after"] == "99.43"
    unknown = difference(month(0, days=(unmeasured(MARCH.last),)))
    assert Difference.model_validate_json(unknown.model_dump_json()) == unknown
    assert unknown.model_dump(mode="json")["tables"][0]["days"][0]["sums"] == {"revenue_eur": None}


# ------------------------------------------------------------------ in one sentence


def of_rows(day: date, **rows: int) -> DayCompared:
    return DayCompared(day=day, how="compared", rows=RowCounts(**rows))


def listed(groups: int, differing: int, *most: tuple[str, int]) -> GroupsCompared:
    """Of ``groups`` stores, those that were listed with the number of rows that change."""
    found = tuple(GroupCompared(value=value, rows=RowCounts(changed=rows)) for value, rows in most)
    return GroupsCompared(column="store_id", groups=groups, differing=differing, most=found)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (sums("100", "99.59"), "-0.41 %"),
        (sums("-100", "-50"), "+50.0 %"),
        (sums("5", "0"), "-100.0 %"),
        (sums("0", "1234.5"), "1,234.5 where there was nothing"),
        (sums("5", "5.0"), "unchanged"),
        (Sums(), "unchanged"),
        (sums(None, "5"), "unknown"),
        (sums("5", None), "unknown"),
    ],
)
def test_a_change_in_words(found: Sums, text: str) -> None:
    """Of nothing there is no share; what is unknown is not called unchanged."""
    assert change(found) == text


# ------------------------------------------------------------------ tables that have to agree

SALES, WEEKS, MONTHS = "fact_sales", "report_weeks", "report_months"
MONDAY = date(2017, 3, 6)
RULE = SameTotal(REVENUE, "revenue_eur", SALES, "amount_eur")
WEEKLY = SameTotal(WEEKS, "revenue_eur", SALES, "amount_eur")
MONTHLY = SameTotal(MONTHS, "revenue_eur", SALES, "amount_eur")


def table(
    name: str, *days: tuple[date, str, str], cadence: Cadence = Cadence.DAILY, how: DayIs = "compared"
) -> TableCompared:
    """Days with what they hold before and after."""
    measure = "amount_eur" if name == SALES else "revenue_eur"
    found = tuple(
        DayCompared(day=day, how=how, rows=RowCounts(changed=1), sums={measure: sums(before, after)})
        for day, before, after in days
    )
    return TableCompared(table=name, cadence=cadence, measures=(measure,), days=found)


def week_of_facts(days: int = 7) -> TableCompared:
    return table(SALES, *((date(2017, 3, 6 + n), "10", "11") for n in range(days)))


def only(rule: SameTotal, *tables: TableCompared) -> Agreement:
    (found,) = find_agreements([rule], tables)
    return found


def test_each_day_is_compared_by_what_it_would_hold() -> None:
    """Not by what it holds now: that is what is repaired."""
    facts = table(SALES, (MONDAY, "10", "11"), (date(2017, 3, 7), "10", "11.0"))
    found = only(RULE, facts, table(REVENUE, (MONDAY, "9", "11"), (date(2017, 3, 7), "10", "11.00")))
    assert found.agreeing == (MONDAY, date(2017, 3, 7)) and found.apart == found.gated == ()
    found = only(RULE, facts, table(REVENUE, (MONDAY, "10", "11.01")))
    assert found.apart == ((MONDAY, Decimal("0.01")),)


def test_a_whole_week_is_compared_with_its_days() -> None:
    right, wrong = (table(WEEKS, (MONDAY, "70", after), cadence=Cadence.WEEKLY) for after in ("77", "76"))
    assert only(WEEKLY, week_of_facts(), right).agreeing == (MONDAY,)
    assert only(WEEKLY, week_of_facts(), wrong).apart == ((MONDAY, Decimal(-1)),)


def test_a_period_that_reaches_beyond_the_shown_days_agrees_by_its_change() -> None:
    """Its other days stay as they are. If the change is another one, they may have changed before: the gate judges."""
    first = date(2017, 3, 1)
    month = table(MONTHS, (first, "1000", "1007"), cadence=Cadence.MONTHLY)
    assert only(MONTHLY, week_of_facts(), month).agreeing == (first,)
    stale = table(MONTHS, (first, "900", "1007"), cadence=Cadence.MONTHLY)
    assert only(MONTHLY, week_of_facts(), stale).gated == (first,)
    assert only(MONTHLY, table(SALES), month).gated == (first,), "none of its days is shown"


def test_what_is_not_staged_is_not_compared() -> None:
    """Neither side of it is known yet."""
    waiting = table(REVENUE, (MONDAY, "10", "10"), how="not staged")
    assert only(RULE, week_of_facts(), waiting) == Agreement(RULE, Cadence.DAILY)
    facts = table(SALES, (MONDAY, "10", "10"), how="not staged")
    assert only(RULE, facts, table(REVENUE, (MONDAY, "10", "11"))).gated == (MONDAY,)


def test_an_unknown_sum_does_not_agree() -> None:
    facts = table(SALES, (MONDAY, "10", "11")).model_copy(
        update={"days": (DayCompared(day=MONDAY, how="compared", sums={"amount_eur": None}),)}
    )
    assert only(RULE, facts, table(REVENUE, (MONDAY, "10", "11"))).apart == ((MONDAY, None),)


def test_rules_about_tables_that_are_not_shown_are_left_out() -> None:
    """So is one between periods that do not nest: a month is no sum of weeks."""
    assert find_agreements([RULE, WEEKLY], [week_of_facts()]) == ()
    weeks = table(WEEKS, (MONDAY, "70", "77"), cadence=Cadence.WEEKLY)
    months = table(MONTHS, (date(2017, 3, 1), "70", "77"), cadence=Cadence.MONTHLY)
    assert find_agreements([SameTotal(MONTHS, "revenue_eur", WEEKS, "revenue_eur")], [weeks, months]) == ()


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ((), ""),
        (
            (Agreement(RULE, Cadence.DAILY, agreeing=(MONDAY, date(2017, 3, 7))),),
            "Yes. 2 totals of 1 table are what fact_sales adds up to, to the last digit.",
        ),
        (
            (Agreement(RULE, Cadence.DAILY, agreeing=(MONDAY,)), Agreement(WEEKLY, Cadence.WEEKLY, gated=(MONDAY,))),
            (
                "Yes. 1 total of 1 table is what fact_sales adds up to, to the last digit."
                " 1 total reaches beyond the days shown here, and was compared by the gates."
            ),
        ),
        (
            (
                Agreement(WEEKLY, Cadence.WEEKLY, apart=((MONDAY, Decimal("-1234.5")),)),
                Agreement(RULE, Cadence.DAILY, agreeing=(MONDAY,), apart=((MONDAY, Decimal(1)),)),
            ),
            (
                "No. For 2017-03-06..2017-03-12, revenue eur of report_weeks is 1,234.5 apart from amount eur of"
                " fact_sales. 1 other total differs as well."
            ),
        ),
        (
            (Agreement(RULE, Cadence.DAILY, apart=((MONDAY, None),)),),
            (
                "No. For 2017-03-06, revenue eur of fact_daily_revenue is an unknown amount apart from amount eur of"
                " fact_sales."
            ),
        ),
    ],
)
def test_it_is_said_in_words(found: tuple[Agreement, ...], sentence: str) -> None:
    assert agreement_sentence(found) == sentence


LATER = [FRIDAY + timedelta(n) for n in range(5)]
APART = a_table(a_day(0, 100, 103), a_day(3, 100, 97), a_day(4, 100, 101))
AROUND = a_table(a_day(0, 100, 200), a_day(1, 100, 101), a_day(2, 100, 101), a_day(3, 100, 200))
WEEKEND = "on 2017-03-04..2017-03-05"
SATURDAY = a_day(1, 100, 100, RowCounts(changed=2))
SWAPPED = a_table(a_day(0, 100, 100, RowCounts(added=1, removed=1)))
MORE = a_table(a_day(0, 100, 100, RowCounts(added=1, unchanged=4)))
UNMEASURED = month(0, days=(day_of_march(MARCH.first, "99.43"), unmeasured(MARCH.last)))
UNKNOWN = {MARCH.last: "unknown"}


@pytest.mark.parametrize(
    ("text", "table", "broken"),
    [
        # a limit is one in both directions, of each day or of all days together
        ("revenue_eur < 3", a_table(a_day(0, 100, 102)), {}),
        ("revenue_eur < 3", a_table(a_day(0, 100, 98)), {}),
        ("revenue_eur < 3", a_table(a_day(0, 100, 97)), {None: "100 -> 97 (-3.0 %)"}),
        ("revenue_eur < 3 a day", a_table(a_day(0, 100, 97)), {FRIDAY: "100 -> 97 (-3.0 %)"}),
        ("revenue_eur < 3 a day", a_table(a_day(0, 0, 2)), {}),
        ("revenue_eur < 3%", a_table(a_day(0, -100, -98)), {}),
        ("revenue_eur < 3%", a_table(a_day(0, -100, -97)), {None: "-100 -> -97 (+3.0 %)"}),
        ("revenue_eur < 0.5%", a_table(a_day(0, 1000, 1004)), {}),
        ("revenue_eur < 0.5%", a_table(a_day(0, 1000, 1005)), {None: "1,000 -> 1,005 (+0.50 %)"}),
        ("revenue_eur < 2% a day", APART, {FRIDAY: "100 -> 103 (+3.0 %)", LATER[3]: "100 -> 97 (-3.0 %)"}),
        ("revenue_eur < 2%", APART, {}),
        ("revenue_eur < 1.1", APART, {}),
        ("revenue_eur < 1", APART, {None: "300 -> 301 (+0.33 %)"}),
        # exactly the limit is not below it, and what was nothing cannot change by a share of it
        ("revenue_eur < 2% a day", a_table(a_day(0, 100, 102)), {FRIDAY: "100 -> 102 (+2.0 %)"}),
        ("revenue_eur < 2% a day", a_table(a_day(0, 0, 5)), {FRIDAY: "0 -> 5"}),
        ("revenue_eur < 2% a day", a_table(a_day(0, 0, 0)), {}),
        # an unchanged measure is one on each day: days that make up for each other have both changed
        ("revenue_eur unchanged", a_table(a_day(0, 100, 100)), {}),
        ("revenue_eur unchanged", APART, dict.fromkeys((LATER[0], LATER[3], LATER[4]))),
        # days that it is not about break nothing; the bounds of a range are in it
        (f"revenue_eur < 2% {WEEKEND}", AROUND, {}),
        (f"revenue_eur < 1% {WEEKEND}", AROUND, {None: "200 -> 202 (+1.0 %)"}),
        (f"revenue_eur unchanged {WEEKEND}", AROUND, dict.fromkeys(LATER[1:3])),
        (f"everything unchanged {WEEKEND}", AROUND, dict.fromkeys(LATER[1:3])),
        # a row that changes without any sum counts as a change of everything, and of no measure
        (
            "weekends unchanged",
            a_table(a_day(0, 100, 103), SATURDAY, a_day(2, 1, 1)),
            {LATER[1]: "2 rows would differ"},
        ),
        ("weekends unchanged", a_table(a_day(0, 1, 2), a_day(1, 1, 1)), {}),
        ("revenue_eur unchanged on weekends", a_table(SATURDAY), {}),
        # as many rows removed as added: their number is unchanged, the rows are not
        ("rows unchanged", SWAPPED, {}),
        ("everything unchanged", SWAPPED, {FRIDAY: "2 rows would differ"}),
        ("rows unchanged", MORE, {FRIDAY: "4 -> 5 (+25.0 %)"}),
        ("everything unchanged", MORE, {FRIDAY: "1 row would differ"}),
        # the share of a canary is one of its days: of all 31 it would be below the limit
        ("revenue_eur < 0.1%", canary(), {None: "200 -> 199.43 (-0.28 %)"}),
        ("everything unchanged", canary(), {MARCH.first: "3 rows would differ"}),
        # a total that was declared after a day was published is not as expected, with any limit
        ("revenue_eur < 1000", UNMEASURED, {None: "unknown"}),
        ("revenue_eur < 5%", UNMEASURED, {None: "unknown"}),
        ("revenue_eur < 1000 a day", UNMEASURED, UNKNOWN),
        ("revenue_eur < 5% a day", UNMEASURED, UNKNOWN),
        ("revenue_eur unchanged on 2017-03-31", UNMEASURED, UNKNOWN),
        ("rows unchanged", UNMEASURED, {}),
    ],
)
def test_an_expectation_is_broken_on_exactly_the_days_that_are_not_as_expected(
    text: str, table: TableCompared, broken: Mapping[date | None, str | None]
) -> None:
    found = verdict(text, table)
    assert found.met is not bool(broken)
    seen = broken_days(found)
    assert list(seen) == list(broken)
    assert {day: said and seen[day] for day, said in broken.items()} == broken


def test_a_week_that_begins_on_a_saturday_is_no_weekend() -> None:
    weekly = a_table(SATURDAY, name="weekly", cadence=Cadence.WEEKLY)
    assert verdict("weekends unchanged", weekly, a_table(a_day(1, 1, 1))).tables == (REVENUE,)


def with_sums(*measures: str) -> TableCompared:
    """A row more, and sums of which one stays, one is unknown, and two change."""
    found = {"net": sums("5", "5"), "tax": None, "gross": sums("4", "5"), "fees": sums("1", "2")}
    day = of_rows(FIRST, added=1, unchanged=1).model_copy(update={"sums": found})
    return month(0, measures=measures, days=[day])


def held(day: date) -> DayCompared:
    return day_of_march(day, "100", "held back")


def of_periods(cadence: Cadence, *days: date) -> TableCompared:
    return TableCompared(table="fact", cadence=cadence, days=tuple(of_rows(d, added=1, unchanged=1) for d in days))


WAITING = [day for day in canary().days if not day.known]
ONE_ROW = day_of_march(MARCH.first, "100").model_copy(update={"rows": RowCounts(changed=1)})


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        # groups: up to three by name if all of them are known, all as all, others by their number
        (
            month(22, (by("department", ("GROCERY", 2), ("MEAT", 1)),)),
            "March 2017: revenue eur -0.40 % on 22 of 31 days, all departments.",
        ),
        (month(1, (by("currency", ("USD", 2), ("EUR", 0)),)), "on 1 of 31 days, currency USD."),
        (month(1, (by("currency", ("USD", 2), (None, 1), ("EUR", 0)),)), "on 1 of 31 days, currencies (none) and USD."),
        (month(1, (by("store_id", *((str(n), int(n < 5)) for n in range(9))),)), "on 1 of 31 days, 5 of 9 stores."),
        (month(1, (listed(9, 3, ("c", 9), ("a", 2), ("b", 1)),)), "stores a and b and c."),
        (month(1, (listed(9, 4, ("c", 9), ("a", 2), ("b", 1), ("d", 1)),)), "4 of 9 stores."),
        (month(1, (listed(9, 3, ("c", 9), ("a", 2)),)), "3 of 9 stores."),
        (month(1, (listed(2000, 1200, ("c", 9)),)), "1,200 of 2,000 stores."),
        (month(1, (listed(2000, 2000, ("c", 9)),)), "all stores."),
        (month(1, (listed(1, 1, ("c", 9)),)), "March 2017: revenue eur -0.018 % on 1 of 31 days."),
        (month(1, (listed(9, 0, ("c", 0)),)), "March 2017: revenue eur -0.018 % on 1 of 31 days."),
        (
            month(1, (listed(9, 1, ("7", 3)), by("department", ("GROCERY", 2), ("MEAT", 1)))),
            "on 1 of 31 days, store 7, all departments.",
        ),
        # no sum changes: nothing at all; days that were held back; rows that differ in another column
        (month(0), "March 2017: nothing changes on 31 days."),
        (
            month(0, days=(*month(0).days[:2], held(MARCH.last))),
            "March 2017: nothing changes on 3 days, 1 day held back.",
        ),
        (month(0, days=[ONE_ROW]), "2017-03-01: 1 row changes on 1 of 1 day, although no sum does."),
        # the number of rows is the last measure; a table without one is not compared with its sums
        (
            month(0, measures=(), days=[of_rows(FIRST, removed=1, unchanged=3)]),
            "2017-03-01: rows -25.0 % on 1 of 1 day.",
        ),
        (
            month(0, measures=(), days=[of_rows(FIRST, removed=600, added=600)]),
            "2017-03-01: 1,200 rows change on 1 of 1 day.",
        ),
        (month(0, measures=(), days=[of_rows(FIRST, changed=1)]), "2017-03-01: 1 row changes on 1 of 1 day."),
        # the first measure that changes: one that is known comes first, and a measure before the rows
        (with_sums("net", "tax", "gross", "fees"), "2017-03-01: gross +25.0 % on 1 of 1 day."),
        (with_sums("net", "tax"), "2017-03-01: rows +100.0 % on 1 of 1 day."),
        # days that are not staged yet are in no share and no count
        (canary(), "March 2017: revenue eur -0.28 % on 1 of 2 days, 29 days not staged."),
        (month(0, days=WAITING), "2017-03-03..2017-03-31: nothing is staged yet."),
        (
            month(0, days=[day_of_march(FIRST, "100"), held(SECOND), held(FRIDAY), WAITING[-1]]),
            "March 2017: nothing changes on 3 days, 2 days held back, 1 day not staged.",
        ),
        # a total that was declared after a day was published is unknown
        (UNMEASURED, "March 2017: revenue eur unknown on 1 of 2 days, 1 day held back."),
        (TableCompared(table="fact"), "No days."),
        # weeks and months are called so, a week by its days, also one that is in two months
        (of_periods(Cadence.WEEKLY, date(2017, 2, 27)), "2017-02-27..2017-03-05: rows +100.0 % on 1 of 1 week."),
        (
            of_periods(Cadence.WEEKLY, date(2017, 3, 6), date(2017, 3, 13)),
            "2017-03-06..2017-03-19: rows +100.0 % on 2 of 2 weeks.",
        ),
        (of_periods(Cadence.MONTHLY, FIRST), "March 2017: rows +100.0 % on 1 of 1 month."),
        (
            of_periods(Cadence.MONTHLY, FIRST, date(2017, 4, 1)),
            "March 2017 to April 2017: rows +100.0 % on 2 of 2 months.",
        ),
        (
            of_periods(Cadence.DAILY, date(2017, 3, 31), date(2017, 4, 1)),
            "2017-03-31..2017-04-01: rows +100.0 % on 2 of 2 days.",
        ),
    ],
)
def test_a_table_in_one_sentence(table: TableCompared, sentence: str) -> None:
    """The period, the measure, the days and the groups; each number as it is."""
    found = table_sentence(table)
    assert found == sentence if ":" in sentence or not table.groups else found.endswith(f" {sentence}")


@pytest.mark.parametrize(
    ("changed", "unchanged", "found", "sentence"),
    [
        (
            (FIRST,),
            (SECOND,),
            {"rows": sums("100000", "100234"), "net": sums("5", "5"), "revenue_eur": sums("100", "99.5877")},
            "1 of 2 published days changes; on these 2 days rows +0.23 %, revenue_eur -0.41 %.",
        ),
        ((FIRST, SECOND), (), {"rows": sums("3", "3")}, "2 of 2 published days change."),
        ((), (FIRST, SECOND), {}, "0 of 2 published days change."),
        (
            (FIRST,),
            (SECOND,),
            {"eur": sums(None, "137961.56")},
            "1 of 2 published days changes; on these 2 days eur by an unknown amount: it was not measured before.",
        ),
    ],
    ids=["each sum that moves", "no sum moves", "nothing changes", "a total that was not measured"],
)
def test_a_change_from_metadata_in_one_sentence(
    changed: tuple[date, ...], unchanged: tuple[date, ...], found: dict[str, Sums], sentence: str
) -> None:
    """A sum that stays as it is is left out; one that is unknown is not."""
    told = change_sentence(TableDifference("report", changed=changed, unchanged=unchanged, sums=found))
    assert told == f"report: {sentence}"
