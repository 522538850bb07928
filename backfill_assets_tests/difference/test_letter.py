"""What a difference says first: how much, of what, on which days, in which reports; who decides; then the detail."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from backfill_assets.days import Cadence
from backfill_assets.difference.difference import (
    Cell,
    ChangedRow,
    DayCompared,
    DayIs,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
)
from backfill_assets.difference.find import declared_of
from backfill_assets.difference.letter import (
    DeclaredOfTables,
    LetterTerms,
    difference_answer,
    even,
    first_measure,
    headline,
    holds_back,
    notes,
    reports_line,
    side_by_side,
    where_not,
)
from backfill_assets.difference.verdict import Deviation, Difference, ExpectationVerdict
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.report.answer import plain
from backfill_assets.report.markdown import markdown
from backfill_assets.text import measure_name, money
from backfill_assets_tests.difference.compared_month import (
    MARCH,
    NASTY,
    a_day,
    a_sample,
    by,
    canary,
    difference,
    month,
    terms_of,
    unmeasured,
)

FIRST, SECOND, THIRD = (date(2017, 3, day) for day in (1, 2, 3))
NEW = DayCompared(day=FIRST, how="compared", rows=RowCounts(added=2), sums={"revenue_eur": Sums(after=Decimal(7))})


def told(found: Difference, terms: LetterTerms | None = None) -> dict[str, Any]:
    return difference_answer(found, DeclaredOfTables(), terms).as_json()


def in_markdown(found: Difference) -> str:
    return markdown(difference_answer(found, DeclaredOfTables()))


# ------------------------------------------------------------------ the headline


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


def test_numbers_that_stand_together_have_the_same_digits() -> None:
    """Each of them is exact, also one of more digits than decimals have by default."""
    long = Decimal("1234567890123456789012345678901234567.25")
    alike = even(Decimal("136178.9910"), Decimal("136099.3811"), None)
    assert list(map(str, alike)) == ["136178.9910", "136099.3811", "None"]
    assert list(map(str, even(Decimal("3.100"), Decimal("1E+3"), long))) == ["3.10", "1000.00", str(long)]
    assert even() == ()


# ------------------------------------------------------------------ in a minute


def test_every_planned_day_is_in_one_line() -> None:
    """Changed, unchanged however that is known, held back, left out, and waiting: together all of them."""
    kept: list[DayIs] = ["compared", "unchanged", "equal", "held back", "left out", "left out", "not staged"]
    days = [a_day(FIRST, "99"), *(a_day(SECOND + timedelta(n), "100", how) for n, how in enumerate(kept))]
    assert told(difference(month(0, days=days)))["which_days"] == [
        "1 of 8 days changes: 2017-03-01.",
        "3 days keep their rows.",
        "1 day failed its gates and keeps its rows.",
        "2 days read what failed, and keep their rows.",
        "1 day is not staged yet.",
    ]
    assert told(difference(month(0)))["which_days"] == ["0 of 31 days change.", "31 days keep their rows."]
    assert told(difference(canary()))["which_days"][-1] == "29 days are not staged yet: what they become is not known."
    assert told(difference())["which_days"] == ["None."]


def test_reports_that_change_are_named() -> None:
    """Others are no reports, or stay the same."""
    other, third = month(0, table="other"), month(1, table="third")
    found = difference(month(1), other, third)
    assert reports_line(found, {"report", "other"}) == "1 of 2 reports: report. other stays the same."
    assert reports_line(found, {"report", "third"}) == "2 of 2 reports: report, third."
    assert reports_line(found, {"other"}) == "None of 1 report changes."
    assert reports_line(found, set()) == "None: no report is computed from it here."


def test_tables_that_have_to_agree_are_compared_by_the_declared_rules() -> None:
    fact, revenue = "fact_sales_transactions", "fact_daily_revenue"
    days = [_sold(day) for day in month(1).days]
    found = difference(month(1, table=fact, days=days), month(1, table=revenue, days=days))
    agree = difference_answer(found, declared_of(CATALOG.steps)).facts()["do tables agree"]
    assert agree == f"Yes. 93 totals of 1 table are what {fact} adds up to, to the last digit."


def _sold(day: DayCompared) -> DayCompared:
    """The same money in the fact and in what is made of it."""
    sums = {name: day.of("revenue_eur") for name in ("amount_eur", "revenue_eur", "quantity")}
    return day.model_copy(update={"sums": {**sums, "lines": day.of("rows")}})


def test_expectations_are_met_or_not_and_where() -> None:
    found = difference(month(1), expected=("rows unchanged", "everything unchanged", "usd unchanged"))
    assert told(found)["expected"] == [
        {"expected": "rows unchanged", "outcome": "met", "where_not": []},
        {
            "expected": "everything unchanged",
            "outcome": "not met",
            "where_not": ["report 2017-03-01: 3 rows would differ"],
        },
        {"expected": "usd unchanged", "outcome": "not met", "where_not": ["the plan has no such day or measure"]},
    ]
    assert "expected" not in told(difference(month(1)))


def broken(deviations: int) -> ExpectationVerdict:
    found = tuple(
        Deviation(table="report", day=FIRST + timedelta(n), observed=f"{n} rows would differ")
        for n in range(deviations)
    )
    return ExpectationVerdict(expectation="rows unchanged", tables=("report",), deviations=found)


def test_where_an_expectation_is_broken() -> None:
    """On the first three days, and how many more there are; all days together have no day."""
    three = [f"report 2017-03-0{n + 1}: {n} rows would differ" for n in range(3)]
    expected = [[], three, [*three, "and 1 more"], [*three, "and 1,200 more"]]
    assert [where_not(broken(n)) for n in (0, 3, 4, 1203)] == expected
    together = Deviation(table="report", day=None, observed="100 -> 103 (+3.0 %)")
    verdict = ExpectationVerdict(expectation="rows < 1", tables=("report",), deviations=(together,))
    assert where_not(verdict) == ["report: 100 -> 103 (+3.0 %)"]


# ------------------------------------------------------------------ who decides


def test_days_that_are_held_back_have_to_be_left_out_knowingly() -> None:
    found = difference(month(0, days=[a_day(MARCH.first, "99"), a_day(MARCH.last, "100", "held back")]))
    said = told(found, terms_of(found))
    assert said["next"][0] == f"backfill approve {found.plan} --without-held-back"
    assert any("without the days that are held back" in each["text"] for each in said["notes"])
    assert holds_back(difference(month(1), month(0, days=[a_day(FIRST, "100", "left out")])))
    assert not holds_back(difference(month(1), canary()))


# ------------------------------------------------------------------ tables


def test_a_row_for_each_table_by_the_first_measure_that_changes() -> None:
    tables = [
        month(22),
        month(0, table="same"),
        month(0, table="new", days=[NEW], cadence=Cadence.MONTHLY),
        month(0, table="unknown", days=[unmeasured(FIRST)]),
    ]
    rows = [
        (row["table"], row["differ"], row["of"], row["before"], row["after"], row["change"], row["in_percent"])
        for row in told(difference(*tables))["tables"]
    ]
    assert rows == [
        ("report", 22, 31, "3100.00", "3087.46", "-12.54", str(Decimal("-12.54") / 3100)),
        ("same", 0, 31, "3100", "3100", "0", "0"),
        ("new", 1, 1, "0", "7", "7", "from nothing"),
        ("unknown", 0, 1, None, None, None, None),
    ]
    assert first_measure(TableCompared(table="empty")) == "rows"


def test_rows_are_counted_by_what_becomes_of_them() -> None:
    """Rows of days that are not staged yet are not counted."""
    found = month(2, days=[*month(2).days[:4], a_day(date(2017, 3, 7), "99", "held back")])
    (row,) = told(difference(found))["rows"]
    counts = {"added": 0, "removed": 0, "changed": 9, "unchanged": 16, "held_back": 1, "not_staged": 0}
    assert row == {"table": "report", **counts}
    (waiting,) = told(difference(canary()))["rows"]
    assert (waiting["changed"], waiting["unchanged"], waiting["not_staged"]) == (3, 7, 29)


def test_the_detail_of_a_table_has_sums_days_groups_and_changed_rows() -> None:
    """Rows first among the sums; days by the first measure that changes; of a column only groups that differ."""
    groups = (by("department", ("MEAT", 1200), ("FISH", 0), (None, 2)),)
    detail = told(difference(month(1, groups, sample=a_sample(1))))["by_table"]["report"]
    assert [(row["measure"], row["change"]) for row in detail["sums"]] == [("rows", "0"), ("revenue_eur", "-0.57")]
    assert detail["days"][0] == {
        "day": "2017-03-01",
        "is": "compared",
        "added": 0,
        "removed": 0,
        "changed": 3,
        "unchanged": 2,
        "before": "100.00",
        "after": "99.43",
        "change": "-0.57",
        "in_percent": "-0.0057",
    }
    assert len(detail["days"]) == 31
    assert [(row["department"], row["rows_that_differ"]) for row in detail["by_department"]] == [
        ("MEAT", 1200),
        ("(none)", 2),
    ]
    assert len(detail["sample"]) == 3


def test_groups_of_a_table_without_measures_are_counted() -> None:
    """A week is called a week."""
    group = GroupCompared(value="", rows=RowCounts(added=1, unchanged=2))
    groups = GroupsCompared(column="store_id", groups=1, differing=1, most=(group,))
    day = DayCompared(day=date(2017, 2, 27), how="compared", rows=RowCounts(added=1, unchanged=2))
    table = TableCompared(table="report", cadence=Cadence.WEEKLY, groups=(groups,), days=(day,))
    detail = told(difference(table))["by_table"]["report"]
    assert (detail["by_store_id"][0]["before"], detail["by_store_id"][0]["after"]) == ("2", "3")
    assert detail["days"][0]["week"] == "2017-02-27"


def test_a_table_that_stays_the_same_has_no_detail() -> None:
    assert "by_table" not in told(difference(month(0)))
    assert set(told(difference(month(1), month(0, table="same")))["by_table"]) == {"title", "report"}


def test_a_changed_row_side_by_side() -> None:
    """A row for each column that differs; of a personal one only that it does."""
    (row,) = a_sample(1)
    assert plain(side_by_side(row)) == [
        ["2017-03-01", "id row-0", "rate", "1.20", "1.25"],
        ["2017-03-01", "id row-0", "rate_day", "(none)", "2017-03-01"],
        ["2017-03-01", "id row-0", "household_token", "(personal, differs)", ""],
    ]
    key = {"store": "7", "id": None}
    emptied = ChangedRow(day=FIRST, key=key, cells=(Cell(column="rate", before="", after=None),))
    assert plain(side_by_side(emptied)) == [["2017-03-01", "store 7, id (none)", "rate", "", "(none)"]]


def test_notes_say_what_the_numbers_leave_out() -> None:
    """Days that are held back, days that are not staged, and that rows are compared as a whole."""
    assert notes(month(22)) == notes(TableCompared(table="report")) == []
    assert notes(canary()) == ["Not staged yet: 29 days. No sum or count here includes them."]
    weeks = [a_day(date(2017, 3, 6), "99"), a_day(date(2017, 3, 13), "100", "held back")]
    weekly = month(0, days=[*weeks, a_day(date(2017, 3, 20), "100", "not staged")], cadence="weekly", whole_rows=True)
    assert notes(weekly) == [
        "1 week failed the gates and would not be published.",
        "Not staged yet: 1 week. No sum or count here includes them.",
        "Rows are compared as a whole: there is no key that stands for one row, so none counts as changed.",
    ]
    assert notes(month(0, whole_rows=True)) == [], "nothing differs"


def test_sums_say_which_days_they_are_of() -> None:
    """All of a campaign that is done; of a canary those that are staged."""
    assert "Sums of 31 days" in in_markdown(difference(month(1)))
    assert "Sums of the 2 of 31 days that are staged" in in_markdown(difference(canary()))


def test_markdown_of_many_days_shows_a_month_of_them() -> None:
    """And says how many more there are; of groups five. No value is a tag or a column of its own."""
    groups = (by("store_id", *((f"s{n}", 1) for n in range(6))), by("department", (NASTY, 2)))
    days = [a_day(FIRST + timedelta(n), "99") for n in range(32)]
    page = in_markdown(difference(month(0, groups, days=days, sample=a_sample(4, NASTY))))
    assert page.count("| compared |") == 31 and "and 1 more rows" in page
    assert page.count("| s") - page.count("| sum") >= 5 and "<script" not in page


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (difference(month(22)), "Revenue falls by 12.54 EUR (-0.40 %), from 3,100.00 to 3,087.46 EUR."),
        (
            difference(month(0, days=[a_day(FIRST, "102.50")])),
            "Revenue rises by 2.5 EUR (+2.5 %), from 100.0 to 102.5 EUR.",
        ),
        (difference(month(0)), "Nothing changes."),
        (difference(month(0, days=[NEW])), "Revenue becomes 7 EUR where there was nothing."),
        (difference(month(0, days=[a_day(FIRST, "101"), a_day(SECOND, "99")])), "6 rows change, and no sum does."),
        (
            difference(month(0, days=[a_day(FIRST, "99"), unmeasured(SECOND)])),
            "Revenue changes by an unknown amount: it was not measured.",
        ),
        (difference(), "Nothing is compared yet."),
    ],
    ids=["less", "more", "nothing", "something from nothing", "rows alone", "unknown", "not compared"],
)
def test_the_headline_has_money_and_percent(found: Difference, sentence: str) -> None:
    """And says in a word which way it goes."""
    assert headline(found) == sentence


def test_the_letter_asks_for_what_can_be_decided_now() -> None:
    """What waits can be approved or given up, what is not as expected only given up, what is published undone."""
    plan = difference(month(1)).plan
    approve, give_up, undo = (f"backfill {word} {plan}" for word in ("approve", "timeline delete", "rollback"))
    waits = difference(month(1), expected=("revenue_eur < 1%",)).model_copy(update={"plan": plan})
    said = told(waits, terms_of(waits, title="Rates of the right day", reason="v1 took those of the day before"))
    assert said["what_it_is_for"] == "Rates of the right day: v1 took those of the day before"
    assert said["who_may_approve"] == "Anyone but ana."
    assert said["can_be_undone_for"] == "30 days after it is published"
    assert said["next"] == [approve, give_up]
    broken = difference(month(1), expected=("rows unchanged", "everything unchanged")).model_copy(update={"plan": plan})
    said = told(broken, terms_of(broken))
    assert said["next"] == [give_up] and any(each["text"].startswith("It cannot be approved") for each in said["notes"])
    said = told(waits, terms_of(waits, outcome="It was published on 2017-06-02.", published=True))
    assert said["what_was_decided"] == "It was published on 2017-06-02."
    assert said["next"] == [undo] and "who_may_approve" not in said
    said = told(waits, terms_of(waits, outcome="It was rolled back."))
    assert "next" not in said and "can_be_undone_for" not in said
    states = waits.model_copy(update={"plan": "", "left": "main", "right": "with-v2"})
    said = told(states)
    assert (said["before"], said["after"]) == ("main", "with-v2"), "two states ask no one for approval"
    assert not {"next", "who_may_approve", "plan"} & said.keys()
    states = states.model_copy(update={"left": "publication 20170601t120300-fact-3c4d5e6f", "right": "main"})
    assert "backfill diff 20170601t120300-fact-3c4d5e6f main --long" in str(
        difference_answer(states, DeclaredOfTables()).brief
    ), "a state is named as it is typed"
