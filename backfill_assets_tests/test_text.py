"""Markdown is read literally; days, counts and names are written in one way."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from backfill_assets.days import Cadence
from backfill_assets.text import (
    days_options,
    escape_markdown,
    format_changing,
    format_count,
    format_duration,
    format_first,
    format_ranges,
    format_scope,
    format_size,
    markdown_table,
    percent,
    period,
    pluralize,
    suggest_name,
    suggest_or_list,
)

DAYS = [date(2017, 3, day) for day in (6, 1, 2, 3, 9)]
ERROR = "t: <b>no</b> column | `a_b` [x](y) *z*\n  -> Put it back"


def test_an_error_is_one_literal_line() -> None:
    """No tag, no link, no column and no line of its own; words with underscores stay readable."""
    found = escape_markdown(ERROR)
    assert "\n" not in found and "<b>" not in found
    assert found == "t: &lt;b>no&lt;/b> column \\| \\`a_b\\` \\[x\\](y) \\*z\\* -> Put it back"
    assert escape_markdown("_a_ fact_daily_revenue") == "\\_a\\_ fact_daily_revenue"


def test_a_table_keeps_its_shape() -> None:
    """For any text in a cell."""
    assert len(markdown_table(("what", "why"), [("t", ERROR)]).splitlines()) == 3


def test_days_are_written_as_ranges() -> None:
    """In order, one day as it is; of many ranges the first."""
    assert format_ranges(DAYS) == "2017-03-01..2017-03-03, 2017-03-06, 2017-03-09"
    assert format_ranges(DAYS, 3) == format_ranges(DAYS)
    assert format_ranges(DAYS, 1) == "2017-03-01..2017-03-03 and 2 more"
    assert days_options(DAYS, 2) == "--days 2017-03-01..2017-03-03 --days 2017-03-06"
    assert format_ranges([]) == days_options([]) == format_first([], 2) == ""


def test_the_nearest_name_is_suggested() -> None:
    """Where none is near, all are listed, or the text of the caller is the hint."""
    assert suggest_or_list("sale", ["fx_rates", "sales"], "Datasets") == "Did you mean sales?"
    assert suggest_or_list("x", ["fx_rates", "sales"], "Datasets") == "Datasets: fx_rates, sales."
    assert suggest_name("fact", ["raw_fact", "fact_a", "fact_b"]) == "Did you mean fact_a or fact_b?"
    assert suggest_or_list("x", [], "Datasets") == "Datasets: none."
    assert (suggest_name("x", ["sales"]), suggest_name("x", ["sales"], "Make one.")) == ("", "Make one.")


def test_periods_have_names() -> None:
    """A month by its name, a week by its days."""
    first = date(2017, 3, 1)
    assert period([first]) == "2017-03-01"
    assert period([first, date(2017, 3, 31)]) == "March 2017"
    assert period([first, date(2017, 3, 30)]) == "2017-03-01..2017-03-30", "part of a month is not the month"
    assert period([date(2017, 3, 2), date(2017, 3, 31)]) == "2017-03-02..2017-03-31"
    assert period([first, date(2017, 5, 29)]) == "2017-03-01..2017-05-29"
    assert period([date(2017, 2, 27), date(2017, 3, 6)], Cadence.WEEKLY) == "2017-02-27..2017-03-12"
    assert period([first], Cadence.MONTHLY) == "March 2017"
    assert period([first, date(2017, 5, 1)], Cadence.MONTHLY) == "March 2017 to May 2017"


def test_counts_have_their_noun() -> None:
    assert [format_count(count, "day") for count in (0, 1, 1200)] == ["0 days", "1 day", "1,200 days"]
    assert [pluralize(noun) for noun in ("currency", "store", "day", "class")] == [
        "currencies",
        "stores",
        "days",
        "classes",
    ]


def test_days_of_several_tables_are_counted_once() -> None:
    """Weeks and months beside them; a table without days is none of them."""
    days, weeks = [date(2017, 3, day) for day in range(1, 13)], [date(2017, 2, 27), date(2017, 3, 6)]
    daily, weekly, monthly = (Cadence.DAILY, days), (Cadence.WEEKLY, weeks), (Cadence.MONTHLY, days[:1])
    assert format_scope([daily, daily, daily, weekly, monthly]) == "12 days, 2 weeks and 1 month in 5 tables"
    assert format_scope([daily, (Cadence.DAILY, days[3:]), (Cadence.WEEKLY, ())]) == "12 days in 2 tables"
    assert format_scope([weekly, monthly]) == "2 weeks and 1 month in 2 tables"
    assert format_scope([]) == "0 days in 0 tables"


def test_sizes_and_durations_have_a_fitting_unit() -> None:
    assert [format_size(size) for size in (None, 1000, 2**10, 1_500_000, 2**40)] == [
        "unknown",
        "1000 B",
        "1.0 KiB",
        "1.4 MiB",
        "1,024.0 GiB",
    ]
    assert [format_duration(seconds) for seconds in (8.26, 45.2, 125)] == ["8.3 s", "45 s", "0:02:05"]


@pytest.mark.parametrize(
    ("share", "told"),
    [
        ("0.1234", "+12.3 %"),
        ("-0.0041", "-0.41 %"),
        ("0.0000041", "+0.00041 %"),
        ("0", "0 %"),
        ("1E-12", "under 0.000001 %"),
        ("-25", "-2,500.0 %"),
    ],
)
def test_shares_keep_digits_that_say_something(share: str, told: str) -> None:
    """A change is never shown as none."""
    assert percent(Decimal(share)) == told


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [
        (2, 3, "2 of 3 days change"),
        (0, 3, "0 of 3 days change"),
        (1, 3, "1 of 3 days changes"),
        (1, 1, "1 of 1 day changes"),
        (0, 1, "0 of 1 day changes"),
    ],
)
def test_one_changes_and_several_change(count: int, total: int, text: str) -> None:
    assert format_changing(count, total, "day") == text
