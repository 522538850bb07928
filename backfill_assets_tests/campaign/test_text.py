"""The report of a campaign step is read literally: values as lines, tables of values as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from backfill_assets.campaign.text import markdown
from backfill_assets.lakehouse.campaign_journal import CampaignStep

ERROR = "t: <b>no</b> column | `a_b` [x](y) *z*\n  -> Put it back"


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Below the title."""
    title, empty, *lines = markdown(CampaignStep.VERIFY_SOURCE, report).splitlines()
    assert (title, empty) == ("### source verified", "")
    return lines


def test_what_a_step_reports_is_literal_but_the_difference() -> None:
    """That one is a page of its own."""
    page = markdown(
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


def test_a_step_without_a_report_has_a_title() -> None:
    assert markdown(CampaignStep.SHADOW, {}) == "### shadow backfilled\n\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("by ana", "by ana"),
        (1200, "1200"),
        (None, "None"),
        (False, "False"),
        ("", ""),
        ("a_b *c*", "a_b \\*c\\*"),
        ({}, "none"),
        ({"fact": 3, "report": "v2"}, "fact 3, report v2"),
        ({"fact": ["a", "b", "c"], "report": ["a", "b", "c", "d"]}, "fact a, b, c, report 4"),
        ({"fact": {"rows": 1, "days": ["a", "b"]}, "report": "*"}, "fact rows: 1; days: a, b, report \\*"),
    ],
)
def test_a_plain_value_is_a_line(value: object, text: str) -> None:
    """Of a short list the values, of a long one how many there are."""
    assert report_lines({"found": value}) == [f"- found: {text}"]


def test_a_list_is_counted_and_its_values_are_below() -> None:
    """The first fifty of them."""
    assert report_lines({"days": []}) == ["- days: none"]
    assert report_lines({"days": ["2017-03-01", {"fact": ["a"], "n": 2}]}) == [
        "- days: 2",
        "    - 2017-03-01",
        "    - fact: a; n: 2",
    ]
    long = report_lines({"days": list(range(51))})
    assert (long[0], long[-1], len(long)) == ("- days: 51", "    - 49", 51)
    assert len(report_lines({"days": list(range(50))})) == 51


def test_values_by_name_and_column_are_a_table() -> None:
    """Each column that any row has, in the order in which they come; a cell that a row lacks is empty."""
    tables = {"fact": {"rows": 3, "days": ["a", "b", "c", "d"]}, "report": {"sum": "1|2", "rows": None}}
    assert report_lines({"by": "ana", "tables": tables, "to": "main"}) == [
        "- by: ana",
        "",
        "**tables**",
        "",
        "|  | rows | days | sum |",
        "| --- | --- | --- | --- |",
        "| fact | 3 | 4 |  |",
        "| report | None |  | 1\\|2 |",
        "",
        "- to: main",
    ]


def test_only_the_difference_is_markdown_already() -> None:
    """A value of any other name may be the text of an error."""
    assert report_lines({"difference": "**2** | days", "reason": "**2** | days"}) == [
        "",
        "**2** | days",
        "",
        "- reason: \\*\\*2\\*\\* \\| days",
    ]
