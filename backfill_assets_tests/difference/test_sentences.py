"""A change in one sentence: the period, the measure, the days and the groups, each number as it is."""

from __future__ import annotations

from datetime import date
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
    TableDifference,
)
from backfill_assets.difference.verdict import change, change_sentence, table_sentence, unit
from backfill_assets_tests.difference.compared_month import MARCH, a_day, by, canary, month, unmeasured

FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


def sums(before: str | None, after: str | None) -> Sums:
    return Sums(
        before=None if before is None else Decimal(before),
        after=None if after is None else Decimal(after),
    )


def of_rows(day: date, **rows: int) -> DayCompared:
    return DayCompared(day=day, how="compared", rows=RowCounts(**rows))


def listed(groups: int, differing: int, *most: tuple[str, int]) -> GroupsCompared:
    """Of ``groups`` stores, those that were listed with the number of rows that change."""
    found = tuple(GroupCompared(value=value, rows=RowCounts(changed=rows)) for value, rows in most)
    return GroupsCompared(column="store_id", groups=groups, differing=differing, most=found)


def test_one_sentence_for_a_manager() -> None:
    """Period, measure, days and groups."""
    found = month(22, (by("department", ("GROCERY", 2), ("MEAT", 1)),))
    assert table_sentence(found) == "March 2017: revenue eur -0.40 %, 22 of 31 days, all departments."


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        (by("currency", ("USD", 2), ("EUR", 0)), "currency USD"),
        (by("currency", ("USD", 2), (None, 1), ("EUR", 0)), "currencies (none) and USD"),
        (by("store_id", *((str(n), int(n < 5)) for n in range(9))), "5 of 9 stores"),
        (listed(9, 3, ("c", 9), ("a", 2), ("b", 1)), "stores a and b and c"),
        (listed(9, 4, ("c", 9), ("a", 2), ("b", 1), ("d", 1)), "4 of 9 stores"),
        (listed(9, 3, ("c", 9), ("a", 2)), "3 of 9 stores"),
        (listed(2000, 1200, ("c", 9)), "1,200 of 2,000 stores"),
        (listed(2000, 2000, ("c", 9)), "all stores"),
    ],
)
def test_groups_in_the_sentence(groups: GroupsCompared, sentence: str) -> None:
    """Up to three by name if all of them are known, all as all, others by their number."""
    assert table_sentence(month(1, (groups,))) == f"March 2017: revenue eur -0.018 %, 1 of 31 days, {sentence}."


@pytest.mark.parametrize("groups", [listed(1, 1, ("c", 9)), listed(9, 0, ("c", 0))])
def test_groups_that_say_nothing_are_not_in_the_sentence(groups: GroupsCompared) -> None:
    """A single one is the whole table."""
    assert table_sentence(month(1, (groups,))) == "March 2017: revenue eur -0.018 %, 1 of 31 days."


def test_the_groups_of_each_column_come_in_their_order() -> None:
    groups = (listed(9, 1, ("7", 3)), by("department", ("GROCERY", 2), ("MEAT", 1)))
    assert table_sentence(month(1, groups)).endswith("1 of 31 days, store 7, all departments.")


def test_sentences_without_a_change_of_a_sum() -> None:
    """Nothing at all; days that were held back; rows that differ in another column."""
    assert table_sentence(month(0)) == "March 2017: nothing changes on 31 days."
    held = (*month(0).days[:2], a_day(MARCH.last, "100", "held back"))
    assert table_sentence(month(0, days=held)) == "March 2017: nothing changes on 3 days, 1 day held back."
    moved = a_day(MARCH.first, "100").model_copy(update={"rows": RowCounts(changed=1)})
    assert table_sentence(month(0, days=[moved])) == "2017-03-01: 1 row changes although no sum does, 1 of 1 day."


def test_rows_that_change_in_number_or_without_a_measure() -> None:
    """The number of rows is the last measure; a table without one is not compared with its sums."""
    fewer = month(0, measures=(), days=[of_rows(FIRST, removed=1, unchanged=3)])
    assert table_sentence(fewer) == "2017-03-01: rows -25.0 %, 1 of 1 day."
    swapped = month(0, measures=(), days=[of_rows(FIRST, removed=600, added=600)])
    assert table_sentence(swapped) == "2017-03-01: 1,200 rows change, 1 of 1 day."
    one = month(0, measures=(), days=[of_rows(FIRST, changed=1)])
    assert table_sentence(one) == "2017-03-01: 1 row changes, 1 of 1 day."


def test_the_first_measure_that_changes_is_in_the_sentence() -> None:
    """One that is known comes before one that is unknown, and a measure before the rows."""
    found = {"net": sums("5", "5"), "tax": None, "gross": sums("4", "5"), "fees": sums("1", "2")}
    day = of_rows(FIRST, added=1, unchanged=1).model_copy(update={"sums": found})
    table = month(0, measures=("net", "tax", "gross", "fees"), days=[day])
    assert table_sentence(table) == "2017-03-01: gross +25.0 %, 1 of 1 day."
    counted = table.model_copy(update={"measures": ("net", "tax")})
    assert table_sentence(counted) == "2017-03-01: rows +100.0 %, 1 of 1 day."


def test_a_canary_is_called_a_canary() -> None:
    """Days that are not staged yet are in no share and no count, and the sentence says how many they are."""
    assert table_sentence(canary()) == "March 2017: revenue eur -0.28 %, 1 of 2 days, 29 days not staged."
    waiting = [day for day in canary().days if not day.known]
    assert table_sentence(month(0, days=waiting)) == "2017-03-03..2017-03-31: nothing is staged yet."
    first = a_day(MARCH.first, "100")
    rest = [a_day(SECOND, "100", "held back"), a_day(date(2017, 3, 3), "100", "held back"), waiting[-1]]
    assert table_sentence(month(0, days=[first, *rest])) == (
        "March 2017: nothing changes on 3 days, 2 days held back, 1 day not staged."
    )


def test_an_unmeasured_total_is_called_unknown() -> None:
    """It was declared after a day was published that stays as it is."""
    found = month(0, days=(a_day(MARCH.first, "99.43"), unmeasured(MARCH.last)))
    assert table_sentence(found) == "March 2017: revenue eur unknown, 1 of 2 days, 1 day held back."


def test_a_table_without_days_says_so() -> None:
    assert table_sentence(TableCompared(table="fact")) == "No days."


@pytest.mark.parametrize(
    ("cadence", "days", "sentence"),
    [
        (Cadence.WEEKLY, [date(2017, 2, 27)], "2017-02-27..2017-03-05: rows +100.0 %, 1 of 1 week."),
        (Cadence.WEEKLY, [date(2017, 3, 6), date(2017, 3, 13)], "2017-03-06..2017-03-19: rows +100.0 %, 2 of 2 weeks."),
        (Cadence.MONTHLY, [FIRST], "March 2017: rows +100.0 %, 1 of 1 month."),
        (Cadence.MONTHLY, [FIRST, date(2017, 4, 1)], "March 2017 to April 2017: rows +100.0 %, 2 of 2 months."),
        (Cadence.DAILY, [date(2017, 3, 31), date(2017, 4, 1)], "2017-03-31..2017-04-01: rows +100.0 %, 2 of 2 days."),
    ],
)
def test_weeks_and_months_are_called_so(cadence: Cadence, days: list[date], sentence: str) -> None:
    """A week by its days, also one that is in two months."""
    table = TableCompared(table="fact", cadence=cadence, days=tuple(of_rows(d, added=1, unchanged=1) for d in days))
    assert table_sentence(table) == sentence


@pytest.mark.parametrize(
    ("cadence", "noun"), [(Cadence.DAILY, "day"), (Cadence.WEEKLY, "week"), (Cadence.MONTHLY, "month")]
)
def test_the_unit_of_a_table_is_its_period(cadence: Cadence, noun: str) -> None:
    assert unit(TableCompared(table="fact", cadence=cadence)) == noun


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


def test_a_change_from_metadata_names_each_sum_that_moves() -> None:
    """In the order of the sums, by its share; one that stays as it is is left out."""
    found = TableDifference(
        "report",
        changed=(FIRST,),
        unchanged=(SECOND,),
        sums={"rows": sums("100000", "100234"), "net": sums("5", "5"), "revenue_eur": sums("100", "99.5877")},
    )
    assert change_sentence(found) == (
        "report: 1 of 2 published days changes; on these 2 days rows +0.23 %, revenue_eur -0.41 %."
    )


def test_a_change_from_metadata_without_a_sum_that_moves_counts_days_alone() -> None:
    found = TableDifference("report", changed=(FIRST, SECOND), sums={"rows": sums("3", "3")})
    assert change_sentence(found) == "report: 2 of 2 published days change."
    assert (
        change_sentence(TableDifference("report", unchanged=(FIRST, SECOND))) == "report: 0 of 2 published days change."
    )


def test_a_change_from_metadata_of_a_total_that_was_not_measured_is_not_left_out() -> None:
    """The person who reads it learns that there is one."""
    found = TableDifference("fact", changed=(FIRST,), unchanged=(SECOND,), sums={"eur": sums(None, "137961.56")})
    assert change_sentence(found) == (
        "fact: 1 of 2 published days changes; on these 2 days eur by an unknown amount: it was not measured before."
    )
