"""Errors and values in Markdown are read literally."""

from __future__ import annotations

from datetime import date

from backfill_assets.campaign import text as campaign_text
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.text import (
    bullets,
    days_options,
    escaped,
    format_first,
    format_ranges,
    markdown_table,
    suggest_name,
    suggest_or_list,
)

DAYS = [date(2017, 3, day) for day in (6, 1, 2, 3, 9)]
ERROR = "t: <b>no</b> column | `a_b` [x](y) *z*\n  -> Put it back"


def test_an_error_is_one_literal_line() -> None:
    """No tag, no link, no column and no line of its own; words with underscores stay readable."""
    found = escaped(ERROR)
    assert "\n" not in found and "<b>" not in found
    assert found == "t: &lt;b>no&lt;/b> column \\| \\`a_b\\` \\[x\\](y) \\*z\\* -> Put it back"
    assert escaped("_a_ fact_daily_revenue") == "\\_a\\_ fact_daily_revenue"


def test_a_table_and_a_list_keep_their_shape() -> None:
    """Whatever is in a cell."""
    assert len(markdown_table(("what", "why"), [("t", ERROR)]).splitlines()) == 3
    assert len(bullets([ERROR, "b"]).splitlines()) == 2


def test_what_a_step_tells_is_literal_but_the_difference() -> None:
    """That one is a page of its own."""
    page = campaign_text.markdown(
        CampaignStep.VERIFY_SOURCE,
        {
            "reason": ERROR,
            "days": [ERROR],
            "by": {"t": ERROR},
            "difference": "## Difference\n\n| a |",
            "t": {"x": {"y": ERROR}},
        },
    )
    assert "<b>" not in page and "## Difference\n\n| a |" in page
    assert sum("Put it back" in line for line in page.splitlines()) == 4


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
    assert suggest_or_list("x", [], "Datasets") == "Datasets: none."
    assert (suggest_name("x", ["sales"]), suggest_name("x", ["sales"], "Make one.")) == ("", "Make one.")
