"""What a comparison found is added up over the days it is known of, and what is unknown stays unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from backfill_assets.days import TableDay
from backfill_assets.difference.difference import (
    Contents,
    DayCompared,
    DayIs,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sides,
    Sums,
    TableCompared,
    TableDifference,
    changes,
    fingerprint_of,
    sides_compared,
    table_difference,
)
from backfill_assets.lakehouse.records import HELD_BACK, DayChange, DayContent, Publication, TableChange
from backfill_assets_tests.difference.compared_month import canary, number, sums

FIRST, SECOND, LATE = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 7)
FACT, REPORT = "fact_sales_transactions", "fact_daily_revenue"
SHOWN: Sides = {TableDay(FACT, FIRST): ("1:10", "1:11"), TableDay(FACT, LATE): ("1:20", "1:21")}
UNKNOWN = Sums(before=None, after=None)


@pytest.mark.parametrize(
    ("found", "change", "share", "differs"),
    [
        (sums("100", "98"), "-2", "-0.02", True),
        (sums("-100", "-98"), "2", "0.02", True),
        (sums("5", "0"), "-5", "-1", True),
        (sums("5", "5.00"), "0", "0", False),
        (sums("0", "5"), "5", None, True),
        (Sums(), "0", None, False),
        (sums(None, "5"), None, None, True),
        (sums("5", None), None, None, True),
        (UNKNOWN, None, None, True),
    ],
)
def test_a_change_and_its_share(found: Sums, change: str | None, share: str | None, differs: bool) -> None:
    """Of nothing there is no share; a share has the sign of its change; what is unknown may differ."""
    assert (found.change, found.share, found.differs) == (number(change), number(share), differs)


def test_sums_add_up_and_an_unknown_side_stays_unknown() -> None:
    """The other side is known all the same."""
    assert sums("1", "2") + sums("10", "20.5") == sums("11", "22.5")
    assert sums(None, "2") + sums("1", "3") == sums("1", "3") + sums(None, "2") == sums(None, "5")
    assert sums("1", None) + sums("1", "3") == sums("2", None)


def test_a_measure_of_a_day() -> None:
    """Rows are counted; a measure that was not found, or has no sum, is unknown."""
    day = DayCompared(
        day=FIRST,
        how="compared",
        rows=RowCounts(removed=1, unchanged=2),
        sums={"eur": sums("3", "2"), "usd": None},
    )
    assert [day.of(measure) for measure in ("rows", "eur")] == [sums("3", "2")] * 2
    assert [day.of(measure) for measure in ("usd", "gbp")] == [UNKNOWN] * 2


@pytest.mark.parametrize(
    ("groups", "differing", "listed", "complete"),
    [
        (2, 1, (3, 0), True),
        (9, 2, (3, 1), True),
        (9, 2, (3, 1, 0), True),
        (9, 3, (3, 1), False),
        (9, 1, (), False),
        (9, 0, (), True),
        (0, 0, (), True),
    ],
)
def test_groups_are_complete_if_each_that_differs_is_listed(
    groups: int, differing: int, listed: tuple[int, ...], complete: bool
) -> None:
    """Listed ones that do not differ are no substitute."""
    most = tuple(GroupCompared(value=str(n), rows=RowCounts(changed=rows)) for n, rows in enumerate(listed))
    assert GroupsCompared(column="store", groups=groups, differing=differing, most=most).complete is complete


def test_a_table_is_summed_over_the_days_that_are_known() -> None:
    """The change of a canary is a share of the canary."""
    found = canary()
    assert [day.day for day in found.known] == [FIRST, SECOND]
    assert [day.day for day in found.differing] == [FIRST]
    assert found.rows == RowCounts(changed=3, unchanged=7) and found.rows.differing == 3
    counted = RowCounts(added=1, removed=20, changed=300, unchanged=4000)
    assert (counted.sums, counted.differing) == (sums("4320", "4301"), 321)
    assert found.total("revenue_eur") == sums("200", "199.43") and found.total("rows") == sums("10", "10")
    hows: list[DayIs] = ["compared", "equal", "not staged", "held back"]
    assert [found.count(how) for how in hows] == [2, 0, 29, 0]


def test_measures_that_change_come_in_their_order_and_rows_last() -> None:
    """One that is unknown, or changes back and forth, is not among them."""
    known = {"eur": sums("1", "2"), "usd": None, "gbp": sums("1", "0"), "chf": sums("4", "3")}
    back = {"eur": sums("1", "2"), "usd": None, "gbp": sums("1", "2"), "chf": sums("4", "4")}
    days = (
        DayCompared(day=FIRST, how="compared", rows=RowCounts(added=1), sums=known),
        DayCompared(day=SECOND, how="compared", sums=back),
    )
    found = TableCompared(table=FACT, measures=("chf", "eur", "usd", "gbp"), days=days)
    assert list(found.changing()) == ["chf", "eur", "rows"]


def test_the_sides_of_a_comparison_are_those_of_days_that_are_staged() -> None:
    """A day that failed its gates has the same mark in any table; equal names of days are kept apart by table."""
    days = (
        DayCompared(day=FIRST, how="equal", published="1:10", staged="1:10"),
        DayCompared(day=SECOND, how="compared", published="1:30"),
        DayCompared(day=LATE, how="held back", published="1:20", staged="1:21"),
        DayCompared(day=date(2017, 3, 8), how="not staged", published="1:30"),
    )
    other = TableCompared(table=REPORT, days=(DayCompared(day=FIRST, how="compared", staged="2:5"),))
    assert sides_compared([TableCompared(table=FACT, days=days), other]) == {
        TableDay(FACT, FIRST): ("1:10", "1:10"),
        TableDay(FACT, SECOND): ("1:30", ""),
        TableDay(FACT, LATE): HELD_BACK,
        TableDay(REPORT, FIRST): ("", "2:5"),
    }
    assert sides_compared([]) == {}


def test_a_fingerprint_is_of_the_rows_of_both_sides() -> None:
    """Main may move as well as what is staged; the order of the days is no difference."""
    others: list[Sides] = [
        {**SHOWN, TableDay(FACT, LATE): ("1:20", "2:99")},
        {**SHOWN, TableDay(FACT, LATE): ("1:19", "1:21")},
        {**SHOWN, TableDay(FACT, LATE): HELD_BACK},
        {TableDay(FACT, FIRST): ("1:10", "1:11")},
        {TableDay(REPORT, day): both for (_, day), both in SHOWN.items()},
        {},
    ]
    assert len({fingerprint_of(each) for each in (SHOWN, *others)}) == 7
    assert fingerprint_of({key: SHOWN[key] for key in reversed(list(SHOWN))}) == fingerprint_of(SHOWN)


def test_an_approval_that_was_written_down_keeps_its_fingerprint() -> None:
    """Journals hold it: another way to compute it would withdraw each approval there is."""
    sides: Sides = {TableDay("report", LATE): HELD_BACK, TableDay("fact", FIRST): ("1:10", "1:11")}
    assert fingerprint_of(sides) == "d36179b280a1746b42cb76f66ad06791"
    assert fingerprint_of({}) == "e3b0c44298fc1c149afbf4c8996fb924"


def test_sums_of_many_digits_are_exact() -> None:
    """Python rounds to 28 digits by itself; Spark's decimals have up to 38."""
    one = Sums(before=Decimal("1234567890123456789012345678.12"), after=Decimal("1234567890123456789012345678.42"))
    assert (one.change, one.differs) == (Decimal("0.30"), True)
    assert (one + one).after == Decimal("2469135780246913578024691356.84")


# ------------------------------------------------------------------ from metadata alone

BEFORE = DayContent(rows=2, checksum="1")
"""Published before its total and its nulls were measured."""
AFTER = DayContent(rows=2, checksum="2", metrics={"total_eur": "68980.78", "nulls_rate": 0})
EMPTY = DayContent(rows=0, checksum="0")
OF_OLD = DayContent(rows=1, checksum="5", metrics={"total_eur": "1.25", "total_usd": 1, "total_gbp": 9})
OF_NOW = DayContent(rows=1, checksum="4", metrics={"total_usd": "2.5", "duplicates": 7, "total_eur": 3})


def nulls(rows: int, found: int) -> DayContent:
    return DayContent(rows=rows, checksum="3", metrics={"nulls_rate": found})


def test_a_total_that_is_declared_after_days_were_published_is_unknown() -> None:
    """Not 0: the person who approves would believe it. The count of rows is known."""
    found = table_difference("fact", {FIRST: BEFORE, SECOND: AFTER}, {FIRST: AFTER, SECOND: AFTER})
    rows, total = found.sums["rows"], found.sums["eur"]
    assert rows == sums("4", "4") and rows.share == 0 and not rows.differs
    assert (total.before, total.after, total.share) == (None, Decimal("137961.56"), None) and total.differs
    assert list(found.sums) == ["rows", "eur"], "in the order that people see"


BESIDE: Mapping[str, tuple[Contents, dict[date, DayContent], Sums, dict[str, Sums]]] = {
    "days that hold nothing are zero": (
        {SECOND: EMPTY},
        {FIRST: AFTER, SECOND: AFTER},
        sums("0", "4"),
        {"eur": sums("0", "137961.56")},
    ),
    "a foreign write is unknown": ({FIRST: None}, {FIRST: AFTER}, sums(None, "2"), {"eur": sums(None, "68980.78")}),
    "nothing is staged": ({FIRST: AFTER}, {}, Sums(), {}),
    "only staged days are summed before": (
        {FIRST: AFTER, SECOND: AFTER},
        {SECOND: replace(BEFORE, rows=5)},
        sums("2", "5"),
        {},
    ),
    "totals by name, and no other metric": (
        {FIRST: OF_OLD},
        {FIRST: OF_NOW},
        sums("1", "1"),
        {"eur": sums("1.25", "3"), "usd": sums("1", "2.5")},
    ),
}


@pytest.mark.parametrize("days", BESIDE)
def test_what_is_published_beside_what_is_staged(days: str) -> None:
    """The true number, or none at all; rows first, then totals by their names."""
    published, staged, rows, totals = BESIDE[days]
    found = table_difference("fact", published, staged)
    assert list(found.sums.items()) == [("rows", rows), *totals.items()]


@pytest.mark.parametrize(
    ("published", "staged", "share"),
    [
        ({FIRST: nulls(2, 1), SECOND: nulls(6, 1)}, {FIRST: nulls(0, 0), SECOND: EMPTY}, sums("0.25", "0")),
        ({FIRST: BEFORE}, {FIRST: nulls(4, 1)}, sums(None, "0.25")),
        ({FIRST: None}, {FIRST: nulls(4, 1)}, sums(None, "0.25")),
    ],
    ids=["of all rows, and not the mean of days", "not counted", "rows are not known"],
)
def test_a_share_of_nulls_is_one_of_all_rows(published: Contents, staged: dict[date, DayContent], share: Sums) -> None:
    assert table_difference("fact", published, staged).nulls == {"rate": share}


def test_days_are_changed_or_unchanged_by_their_rows() -> None:
    """Ascending. The count and the checksum decide: other logic that gives the same rows changes nothing."""
    same = replace(BEFORE, code_version="v2", inputs="other")
    published = {FIRST: BEFORE, SECOND: BEFORE, LATE: BEFORE}
    found = table_difference("fact", published, {LATE: same, SECOND: replace(BEFORE, rows=3), FIRST: AFTER})
    assert (found.table, found.changed, found.unchanged) == ("fact", (FIRST, SECOND), (LATE,))


def a_change(table: str, days: dict[date, DayContent | None]) -> TableChange:
    brought = tuple(DayChange(day=day, content=content) for day, content in days.items())
    return TableChange(table=table, table_schema="", days=brought)


def test_a_publication_is_compared_table_by_table() -> None:
    """In its order; a day whose content is not known afterwards is left out."""
    tables = (a_change("report", {SECOND: AFTER, FIRST: None}), a_change("fact", {FIRST: BEFORE}))
    publication = Publication(id="p", kind="replace", tables=tables)
    report, fact = changes(publication, {"fact": {FIRST: BEFORE}, "other": {FIRST: AFTER}})
    assert (report.table, report.changed, report.sums["rows"]) == ("report", (SECOND,), sums("0", "2"))
    assert fact == TableDifference("fact", unchanged=(FIRST,), sums={"rows": sums("2", "2")})
    assert changes(Publication(id="p", kind="replace", tables=()), {"fact": {FIRST: BEFORE}}) == []
