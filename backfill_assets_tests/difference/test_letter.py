"""What the letter says first: how much, of what, on which days, in which reports."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from backfill_assets.days import Cadence
from backfill_assets.difference.letter import (
    TABLE_COLUMNS,
    days_lines,
    even,
    first_measure,
    headline,
    holds_back,
    measure_name,
    money,
    reports_line,
    subject,
    table_rows,
)
from backfill_assets.difference.records import DayCompared, RowCounts, Sums, TableCompared
from backfill_assets_tests.difference.compared_month import MARCH, a_day, canary, difference, month, unmeasured

FIRST, SECOND, THIRD = (date(2017, 3, day) for day in (1, 2, 3))


def test_the_headline_has_money_and_percent() -> None:
    """And says in a word which way it goes."""
    assert headline(difference(month(22))) == "Revenue falls by 12.54 EUR (-0.40 %), from 3,100.00 to 3,087.46 EUR."
    assert headline(difference(month(0, days=[a_day(FIRST, "102.50")]))) == (
        "Revenue rises by 2.5 EUR (+2.5 %), from 100.0 to 102.5 EUR."
    )
    assert subject(difference(month(22))) == "report, March 2017"


def test_the_headline_of_what_is_no_change_of_a_sum() -> None:
    """Nothing, something from nothing, rows alone, and what is unknown."""
    new = DayCompared(day=FIRST, how="compared", rows=RowCounts(added=2), sums={"revenue_eur": Sums(after=Decimal(7))})
    assert headline(difference(month(0))) == "Nothing changes."
    assert headline(difference(month(0, days=[new]))) == "Revenue becomes 7 EUR where there was nothing."
    back = [a_day(FIRST, "101"), a_day(SECOND, "99")]
    assert headline(difference(month(0, days=back))) == "6 rows change, and no sum does."
    unknown = month(0, days=[a_day(FIRST, "99"), unmeasured(SECOND)])
    assert headline(difference(unknown)) == "Revenue changes by an unknown amount: it was not measured."
    assert headline(difference()) == "Nothing is compared yet."
    assert subject(difference()) == f"report, {MARCH}"


@pytest.mark.parametrize(
    ("measure", "name", "text"),
    [
        ("amount_eur", "Amount", "1,200.50 EUR"),
        ("net_revenue_usd", "Net revenue", "1,200.50 USD"),
        ("quantity", "Quantity", "1,200.50"),
        ("rows", "Rows", "1,200.50"),
        ("try", "Try", "1,200.50"),
        ("share_sum", "Share sum", "1,200.50"),
    ],
)
def test_money_has_its_currency_and_other_numbers_have_none(measure: str, name: str, text: str) -> None:
    """A column that is only called like a currency is no money."""
    assert (measure_name(measure), money(Decimal("1200.50"), measure)) == (name, text)


def test_every_planned_day_is_in_one_line() -> None:
    """Changed, unchanged however that is known, held back, left out, and waiting: together all of them."""
    days = [
        a_day(FIRST, "99"),
        a_day(SECOND, "100"),
        a_day(THIRD, "100", "unchanged"),
        a_day(date(2017, 3, 4), "100", "equal"),
        a_day(date(2017, 3, 5), "100", "held back"),
        a_day(date(2017, 3, 6), "100", "left out"),
        a_day(date(2017, 3, 7), "100", "left out"),
        a_day(date(2017, 3, 8), "100", "not staged"),
    ]
    assert days_lines(month(0, days=days)) == [
        "1 of 8 days changes: 2017-03-01.",
        "3 days keep their rows.",
        "1 day failed its gates and keeps its rows.",
        "2 days read what failed, and keep their rows.",
        "1 day is not staged yet.",
    ]
    assert days_lines(month(0)) == ["0 of 31 days change.", "31 days keep their rows."]
    assert days_lines(canary())[-1] == "29 days are not staged yet: what they become is not known."


def test_reports_that_change_are_named() -> None:
    """Others are no reports, or stay the same."""
    other, third = month(0, table="other"), month(1, table="third")
    found = difference(month(1), other, third)
    assert reports_line(found, {"report", "other"}) == "1 of 2 reports: report. other stays the same."
    assert reports_line(found, {"report", "third"}) == "2 of 2 reports: report, third."
    assert reports_line(found, {"other"}) == "None of 1 report changes."
    assert reports_line(found, set()) == "None: no report is computed from it here."


def test_a_row_for_each_table() -> None:
    """By the first measure that changes, with the sign of its change."""
    new = DayCompared(day=FIRST, how="compared", rows=RowCounts(added=2), sums={"revenue_eur": Sums(after=Decimal(7))})
    rows = table_rows(
        [
            month(22),
            month(0, table="same"),
            month(0, table="new", days=[new], cadence=Cadence.MONTHLY),
            month(0, table="unknown", days=[unmeasured(FIRST)]),
        ]
    )
    assert rows == [
        ("report", "22 of 31 days", "revenue eur", "3,100.00", "3,087.46", "-12.54", "-0.40 %"),
        ("same", "0 of 31 days", "revenue eur", "3,100", "3,100", "unchanged", ""),
        ("new", "1 of 1 month", "revenue eur", "0", "7", "+7", "from nothing"),
        ("unknown", "0 of 1 day", "revenue eur", "unknown", "unknown", "unknown", "unknown"),
    ]
    assert {len(row) for row in rows} == {len(TABLE_COLUMNS)}
    assert first_measure(TableCompared(table="empty")) == "rows"


def test_days_that_are_held_back_or_left_out_have_to_be_left_out_knowingly() -> None:
    assert holds_back(difference(month(1), month(0, days=[a_day(FIRST, "100", "left out")])))
    assert holds_back(difference(month(0, days=[a_day(FIRST, "100", "held back")])))
    assert not holds_back(difference(month(1), canary()))


def test_numbers_that_stand_together_have_the_same_digits() -> None:
    """Each of them is exact, also one of more digits than decimals have by default."""
    long = Decimal("1234567890123456789012345678901234567.25")
    assert list(map(str, even(Decimal("136178.9910"), Decimal("136099.3811"), None))) == [
        "136178.9910",
        "136099.3811",
        "None",
    ]
    assert list(map(str, even(Decimal("3.100"), Decimal("1E+3"), long))) == ["3.10", "1000.00", str(long)]
    assert even() == ()
