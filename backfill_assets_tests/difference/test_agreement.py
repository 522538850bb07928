"""Tables agree if what one adds up to is what the table it is made of adds up to, as far as both are shown."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from backfill_assets.days import Cadence
from backfill_assets.difference.difference import DayCompared, DayIs, RowCounts, Sums, TableCompared
from backfill_assets.difference.verdict import Agreement, SameTotal, agreement_sentence, find_agreements

FACT, REVENUE, WEEKS, MONTHS = "fact_sales", "fact_daily_revenue", "report_weeks", "report_months"
MONDAY = date(2017, 3, 6)
RULE = SameTotal(REVENUE, "revenue_eur", FACT, "amount_eur")
WEEKLY = SameTotal(WEEKS, "revenue_eur", FACT, "amount_eur")
MONTHLY = SameTotal(MONTHS, "revenue_eur", FACT, "amount_eur")


def table(
    name: str, *days: tuple[date, str, str], cadence: Cadence = Cadence.DAILY, how: DayIs = "compared"
) -> TableCompared:
    """Days with what they hold before and after."""
    measure = "amount_eur" if name == FACT else "revenue_eur"
    return TableCompared(
        table=name,
        cadence=cadence,
        measures=(measure,),
        days=tuple(
            DayCompared(
                day=day,
                how=how,
                rows=RowCounts(changed=1),
                sums={measure: Sums(before=Decimal(before), after=Decimal(after))},
            )
            for day, before, after in days
        ),
    )


def week_of_facts(days: int = 7) -> TableCompared:
    return table(FACT, *((date(2017, 3, 6 + n), "10", "11") for n in range(days)))


def only(rule: SameTotal, *tables: TableCompared) -> Agreement:
    (found,) = find_agreements([rule], tables)
    return found


def test_each_day_is_compared_by_what_it_would_hold() -> None:
    """Not by what it holds now: that is what is repaired."""
    facts = table(FACT, (MONDAY, "10", "11"), (date(2017, 3, 7), "10", "11.0"))
    found = only(RULE, facts, table(REVENUE, (MONDAY, "9", "11"), (date(2017, 3, 7), "10", "11.00")))
    assert found.agreeing == (MONDAY, date(2017, 3, 7)) and found.apart == found.gated == ()
    found = only(RULE, facts, table(REVENUE, (MONDAY, "10", "11.01")))
    assert found.apart == ((MONDAY, Decimal("0.01")),)


def test_a_whole_week_is_compared_with_its_days() -> None:
    assert only(WEEKLY, week_of_facts(), table(WEEKS, (MONDAY, "70", "77"), cadence=Cadence.WEEKLY)).agreeing == (
        MONDAY,
    )
    apart = only(WEEKLY, week_of_facts(), table(WEEKS, (MONDAY, "70", "76"), cadence=Cadence.WEEKLY))
    assert apart.apart == ((MONDAY, Decimal(-1)),)


def test_a_period_that_reaches_beyond_the_shown_days_agrees_by_its_change() -> None:
    """Its other days stay as they are. If the change is another one, they may have changed before: the gate judges."""
    first = date(2017, 3, 1)
    month = table(MONTHS, (first, "1000", "1007"), cadence=Cadence.MONTHLY)
    assert only(MONTHLY, week_of_facts(), month).agreeing == (first,)
    stale = table(MONTHS, (first, "900", "1007"), cadence=Cadence.MONTHLY)
    assert only(MONTHLY, week_of_facts(), stale).gated == (first,)
    assert only(MONTHLY, table(FACT), month).gated == (first,), "none of its days is shown"


def test_what_is_not_staged_is_not_compared() -> None:
    """Neither side of it is known yet."""
    waiting = table(REVENUE, (MONDAY, "10", "10"), how="not staged")
    assert only(RULE, week_of_facts(), waiting) == Agreement(RULE, Cadence.DAILY)
    facts = table(FACT, (MONDAY, "10", "10"), how="not staged")
    assert only(RULE, facts, table(REVENUE, (MONDAY, "10", "11"))).gated == (MONDAY,)


def test_an_unknown_sum_does_not_agree() -> None:
    facts = table(FACT, (MONDAY, "10", "11")).model_copy(
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
            (
                Agreement(RULE, Cadence.DAILY, agreeing=(MONDAY,)),
                Agreement(WEEKLY, Cadence.WEEKLY, gated=(MONDAY,)),
            ),
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
