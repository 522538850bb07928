"""The rows and lines of a difference, alike for terminal, Markdown and report: each number once, each value as text."""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal

import pytest

from backfill_assets.days import Cadence
from backfill_assets.difference.records import (
    Cell,
    ChangedRow,
    DayCompared,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
)
from backfill_assets.difference.text import (
    COUNT_COLUMNS,
    COUNT_NUMBERS,
    GROUP_COLUMNS,
    SAMPLE_COLUMNS,
    SUM_COLUMNS,
    VERDICT_COLUMNS,
    count_row,
    day_columns,
    day_rows,
    difference_markdown,
    group_rows,
    key_text,
    more_groups,
    notes,
    sample_rows,
    side_by_side,
    sum_rows,
    verdict_rows,
    where_not,
)
from backfill_assets.difference.verdicts import Deviation, ExpectationVerdict
from backfill_assets_tests.difference.compared_month import (
    MARCH,
    NASTY,
    a_day,
    a_sample,
    by,
    canary,
    difference,
    month,
    unmeasured,
)

FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)
EMPTY = TableCompared(table="report")
UNMEASURED = month(0, days=(a_day(MARCH.first, "99.43"), unmeasured(MARCH.last)))


def test_a_row_of_counts() -> None:
    """Each number below its column."""
    found = month(2, days=[*month(2).days[:4], a_day(date(2017, 3, 7), "99", "held back")])
    which = "2017-03-01..2017-03-02, 2017-03-07"
    assert count_row(found) == ("report", "5", "3", "1", "0", "0", "0", "9", "16", which)
    assert [len(count_row(found)), len(COUNT_NUMBERS)] == [len(COUNT_COLUMNS), 8], "all but the names"


def test_a_row_of_counts_of_a_canary_and_of_nothing() -> None:
    """Rows of days that are not staged yet are not counted."""
    assert count_row(canary())[1:9] == ("31", "1", "0", "29", "0", "0", "3", "7")
    assert count_row(EMPTY) == ("report", *(["0"] * 8), "")


def test_a_row_of_counts_has_commas_and_the_first_three_ranges() -> None:
    days = [a_day(FIRST + timedelta(2 * n), "99") for n in range(4)]
    big = DayCompared(day=FIRST, how="compared", rows=RowCounts(added=1000, removed=20000))
    assert count_row(month(0, days=days))[-1] == "2017-03-01, 2017-03-03, 2017-03-05 and 1 more"
    assert count_row(month(0, days=[big]))[5:7] == ("1,000", "20,000")


def test_the_sums_of_a_table() -> None:
    """Rows first, then each measure; an unknown sum is called so on both sides."""
    rows = ("report", "rows", "155", "155", "unchanged")
    assert sum_rows(month(22)) == [rows, ("report", "revenue_eur", "3,100", "3,087.46", "-0.40 %")]
    assert sum_rows(UNMEASURED)[1] == ("report", "revenue_eur", "unknown", "unknown", "unknown")
    assert sum_rows(EMPTY) == [("report", "rows", "0", "0", "unchanged")]
    assert len(SUM_COLUMNS) == len(rows)


def test_a_day_is_shown_by_the_first_measure_that_changes() -> None:
    """Its columns say which one; a column that is named for its id is named for what it is of."""
    table = month(1)
    assert day_columns(table) == (
        *("day", "is", "added", "removed", "changed", "unchanged"),
        *("revenue eur before", "revenue eur after", "change"),
    )
    assert day_rows(table, table.days[:1])[0] == (
        *("2017-03-01", "compared", "0", "0", "3", "2"),
        *("100", "99.43", "-0.57 %"),
    )
    assert day_rows(table, [unmeasured(SECOND)])[0][-3:] == ("unknown", "unknown", "unknown")


def test_a_day_is_shown_by_its_rows_if_no_measure_changes() -> None:
    """A week is called a week."""
    day = DayCompared(day=date(2017, 2, 27), how="equal", rows=RowCounts(unchanged=1200))
    table = TableCompared(table="report", cadence=Cadence.WEEKLY, measures=("revenue_eur",), days=(day,))
    assert (day_columns(table)[0], *day_columns(table)[-3:]) == ("week", "rows before", "rows after", "change")
    assert day_rows(table, [day])[0] == ("2017-02-27", "equal", "0", "0", "0", "1,200", "1,200", "1,200", "unchanged")


def test_the_groups_that_differ_most_of_each_column() -> None:
    """At most so many, by the first measure; one that does not differ is none of them."""
    table = month(1, (by("department", ("MEAT", 1200), ("FISH", 0), (None, 2), ("DELI", 1)), by("store_id", ("7", 1))))
    sums = ("100", "99.43", "-0.57 %")
    assert group_rows(table, 2) == [
        ("department", "MEAT", "1,200", *sums),
        ("department", "(none)", "2", *sums),
        ("store_id", "7", "1", *sums),
    ]
    assert len(group_rows(table, 9)) == 4 and group_rows(table, 0) == []
    named = dict(zip(GROUP_COLUMNS, group_rows(table, 1)[0], strict=True))
    assert (named["column"], named["rows that differ"]) == ("department", "1,200")


def test_groups_of_a_table_without_measures_are_counted() -> None:
    group = GroupCompared(value="", rows=RowCounts(added=1, unchanged=2))
    groups = GroupsCompared(column="store_id", groups=1, differing=1, most=(group,))
    table = TableCompared(table="report", groups=(groups,))
    assert group_rows(table, 5) == [("store_id", "", "1", "2", "3", "+50.0 %")]


@pytest.mark.parametrize(
    ("differing", "listed", "shown", "text"),
    [
        (9, 5, 3, "and 6 stores more"),
        (9, 5, 7, "and 4 stores more"),
        (6, 5, 5, "and 1 store more"),
        (1200, 1, 0, "and 1,200 stores more"),
        (5, 5, 5, ""),
        (0, 0, 5, ""),
    ],
)
def test_groups_that_are_not_shown_are_counted(differing: int, listed: int, shown: int, text: str) -> None:
    """Those that were listed and not shown, and those that were not listed; one that does not differ is not shown."""
    most = by("store_id", *((str(n), 1) for n in range(listed)), ("same", 0)).most
    groups = GroupsCompared(column="store_id", groups=2000, differing=differing, most=most)
    assert more_groups(groups, shown) == text


def test_a_changed_row_side_by_side() -> None:
    """A row for each column that differs; of a personal one only that it does."""
    (row,) = a_sample(1)
    assert list(side_by_side(row)) == [
        ("2017-03-01", "id row-0", "rate", "1.20", "1.25"),
        ("2017-03-01", "id row-0", "rate_day", "(none)", "2017-03-01"),
        ("2017-03-01", "id row-0", "household_token", "(personal, differs)", ""),
    ]
    emptied = ChangedRow(day=FIRST, key={}, cells=(Cell(column="rate", before="", after=None),))
    assert list(side_by_side(emptied)) == [("2017-03-01", "", "rate", "", "(none)")]


def test_a_key_is_written_with_its_columns() -> None:
    """In their order; a column without a value is not left out."""
    assert key_text(ChangedRow(day=FIRST, key={"store": "7", "id": None})) == "store 7, id (none)"


def test_a_sample_is_cut_by_rows() -> None:
    """Not by columns: the last row is shown whole."""
    table = month(1, sample=a_sample(3))
    assert [row[:2] for row in sample_rows(table, 2)] == [
        ("2017-03-01", key) for key in ("id row-0", "id row-1") for _ in range(3)
    ]
    assert len(sample_rows(table, 9)) == 9 and sample_rows(table, 0) == sample_rows(EMPTY, 9) == []
    named = dict(zip(SAMPLE_COLUMNS, sample_rows(table, 1)[0], strict=True))
    assert (named["key"], named["after"]) == ("id row-0", "1.25")


def broken(deviations: int) -> ExpectationVerdict:
    found = tuple(
        Deviation(table="report", day=FIRST + timedelta(n), observed=f"{n} rows would differ")
        for n in range(deviations)
    )
    return ExpectationVerdict(expectation="rows unchanged", tables=("report",), deviations=found)


def test_where_an_expectation_is_broken() -> None:
    """On the first three days, and how many more there are; all days together have no day."""
    three = "; ".join(f"report 2017-03-0{n + 1}: {n} rows would differ" for n in range(3))
    assert [where_not(broken(n)) for n in (0, 3, 4, 1203)] == [
        "",
        three,
        f"{three}; and 1 more",
        f"{three}; and 1,200 more",
    ]
    together = Deviation(table="report", day=None, observed="100 -> 103 (+3.0 %)")
    verdict = ExpectationVerdict(expectation="rows < 1", tables=("report",), deviations=(together,))
    assert where_not(verdict) == "report: 100 -> 103 (+3.0 %)"
    assert where_not(ExpectationVerdict(expectation="rows < 1", tables=())) == "the plan has no such day or measure"


def test_a_row_for_each_expectation() -> None:
    found = difference(month(1), expected=("rows unchanged", "everything unchanged", "usd unchanged"))
    assert verdict_rows(found) == [
        ("rows unchanged", "met", ""),
        ("everything unchanged", "not met", "report 2017-03-01: 3 rows would differ"),
        ("usd unchanged", "not met", "the plan has no such day or measure"),
    ]
    assert {len(row) for row in verdict_rows(found)} == {len(VERDICT_COLUMNS)}
    assert verdict_rows(difference(month(1))) == []


def test_notes_say_what_the_numbers_leave_out() -> None:
    """Days that are held back, days that are not staged, and that rows are compared as a whole."""
    assert notes(month(22)) == notes(EMPTY) == []
    assert notes(canary()) == ["Not staged yet: 29 days. No sum or count here includes them."]
    weeks = [a_day(date(2017, 3, 6), "99"), a_day(date(2017, 3, 13), "100", "held back")]
    weekly = month(0, days=[*weeks, a_day(date(2017, 3, 20), "100", "not staged")], cadence="weekly", whole_rows=True)
    assert notes(weekly) == [
        "1 week failed the gates and would not be published.",
        "Not staged yet: 1 week. No sum or count here includes them.",
        "Rows are compared as a whole: there is no key that stands for one row, so none counts as changed.",
    ]
    assert notes(month(0, whole_rows=True)) == [], "nothing differs"


SMALL_PAGE = """\
## Difference of {plan}

**report, 2017-03-01: revenue eur -0.57 %, 1 of 1 day, department MEAT. 1 of 2 tables changes. It is as expected.**

| expected |  | where not |
| --- | --- | --- |
| rows unchanged | met |  |

| table | periods | differ | held back | not staged | added | removed | changed | unchanged | days that differ |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| report | 1 | 1 | 0 | 0 | 0 | 0 | 3 | 2 | 2017-03-01 |
| other | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 5 |  |

| table | measure | before | after | change |
| --- | --- | ---: | ---: | ---: |
| report | rows | 5 | 5 | unchanged |
| report | revenue_eur | 100 | 99.43 | -0.57 % |
| other | rows | 5 | 5 | unchanged |
| other | revenue_eur | 100 | 100 | unchanged |

### report

2017-03-01: revenue eur -0.57 %, 1 of 1 day, department MEAT.

| day | is | added | removed | changed | unchanged | revenue eur before | revenue eur after | change |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| 2017-03-01 | compared | 0 | 0 | 3 | 2 | 100 | 99.43 | -0.57 % |

| column | value | rows that differ | before | after | change |
| --- | --- | ---: | ---: | ---: | ---: |
| department | MEAT | 3 | 100 | 99.43 | -0.57 % |

| day | key | column | before | after |
| --- | --- | --- | --- | --- |
| 2017-03-01 | id row-0 | rate | 1.20 | 1.25 |
| 2017-03-01 | id row-0 | rate_day | (none) | 2017-03-01 |
| 2017-03-01 | id row-0 | household_token | (personal, differs) |  |

As of entry 7 of the publication log.
"""


def test_markdown_of_a_small_difference() -> None:
    """All of it: a table that does not change has no part of its own."""
    changed = month(0, (by("department", ("MEAT", 3), ("DELI", 0)),), days=[a_day(FIRST, "99.43")], sample=a_sample(1))
    same = month(0, table="other", days=[a_day(FIRST, "100")])
    found = difference(changed, same, expected=("rows unchanged",))
    assert difference_markdown(found) == SMALL_PAGE.format(plan=found.plan)


def test_markdown_without_tables_says_that_nothing_is_rebuilt() -> None:
    parts = difference_markdown(difference()).split("\n\n")
    assert parts[1] == "**Nothing is rebuilt.**" and parts[-1] == "As of entry 7 of the publication log.\n"
    assert len(parts) == 5


def test_markdown_of_many_days_shows_a_month_of_them() -> None:
    """And says how many more there are; of groups five, of rows three, with the notes above them."""
    groups = (by("store_id", *((f"s{n}", 1) for n in range(6))),)
    days = [a_day(FIRST + timedelta(n), "99") for n in range(32)]
    page = difference_markdown(difference(month(0, groups, days=days, sample=a_sample(4))))
    assert page.count("| compared |") == 31 and "\n\nand 1 day more\n\n" in page
    assert page.count("| store_id | s") == 5 and page.count("household_token") == 3
    whole = difference_markdown(difference(month(0, groups, days=days[:31], whole_rows=True)))
    assert whole.count("| compared |") == 31 and "more\n" not in whole
    assert "\n\nRows are compared as a whole: " in whole


def test_markdown_calls_an_unmeasured_total_unknown() -> None:
    page = difference_markdown(difference(UNMEASURED))
    assert "| report | revenue_eur | unknown | unknown | unknown |" in page


def test_markdown_shows_values_as_text() -> None:
    """For any value in a row: no tag, no column of its own."""
    table = month(3, (by("department", (NASTY, 2), ("MEAT", 0)),), sample=a_sample(1, NASTY))
    page = difference_markdown(difference(table, expected=("weekends unchanged",)))
    assert "<script" not in page
    assert "| met |" in page and "| 2017-03-01 | id row-0 | household_token | (personal, differs) |" in page
    rows = [re.sub(r"\\\|", "", line) for line in page.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} <= {4, 6, 7, 10, 11}


def test_a_change_to_something_that_was_nothing_is_no_share() -> None:
    day = DayCompared(
        day=FIRST, how="compared", rows=RowCounts(added=2), sums={"revenue_eur": Sums(after=Decimal("1234.50"))}
    )
    assert sum_rows(month(0, days=[day])) == [
        ("report", "rows", "0", "2", "2 where there was nothing"),
        ("report", "revenue_eur", "0", "1,234.50", "1,234.50 where there was nothing"),
    ]
