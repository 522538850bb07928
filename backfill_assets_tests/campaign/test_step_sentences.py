"""What the steps of a campaign report: in a sentence, for page and terminal; and in full, where values are literal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from backfill_assets.campaign.step_sentences import entry_sentence, step_markdown, step_sentence
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry

ERROR = "t: <b>no</b> column | `a_b` [x](y) *z*\n  -> Put it back"
DAYS = {"staged": 2, "unchanged": 1, "held back": 1}


def entry(kind: str, **more: Any) -> JournalEntry:
    return JournalEntry.model_validate({"kind": kind, "at": datetime(2017, 6, 1, tzinfo=UTC), **more})


@pytest.mark.parametrize(
    ("step", "report", "sentence"),
    [
        (CampaignStep.ANNOUNCE, {"notice": "It is announced to two people"}, "It is announced to two people."),
        (
            CampaignStep.VERIFY_SOURCE,
            {"inputs": {"a": {"days": 2}, "b": {"days": 1}}},
            "3 days of 2 inputs hold what was published.",
        ),
        (
            CampaignStep.PIN,
            {"versions": {"a": 1}, "not taken in": {"raw": {"2017-03-01": 2}}},
            "The versions of 1 input are recorded; 2 landed files that are not ingested are no part of them.",
        ),
        (
            CampaignStep.SHADOW,
            {"days": {"a": DAYS, "b": DAYS}},
            "4 days of tables are staged, 2 would not change, 2 are held back.",
        ),
        (CampaignStep.VALIDATE, {"sentence": "Revenue falls."}, "Revenue falls."),
        (
            CampaignStep.CUT_OVER,
            {"days": {"a": ["2017-03-01..2017-03-02"]}, "publication": "p"},
            "Published 2 days of 1 table at once, by p.",
        ),
        (
            CampaignStep.DOWNSTREAM,
            {"checked": 3, "rebuilt": ["c"]},
            "3 published days of tables were read again: they are as staged. Built as well: c.",
        ),
        (CampaignStep.NOTIFY, {"still due": {"n": "no answer"}}, "The notice did not arrive: no answer."),
        (CampaignStep.DECOMMISSION, {"closed": ["t"]}, "1 timeline is closed."),
    ],
)
def test_a_step_says_what_it_found(step: CampaignStep, report: dict[str, Any], sentence: str) -> None:
    assert step_sentence(step, report) == sentence


@pytest.mark.parametrize("step", STEPS)
def test_an_older_report_may_lack_all_of_it(step: CampaignStep) -> None:
    assert step_sentence(step, {}).endswith(".")


def test_an_entry_of_the_journal_is_a_sentence_and_never_the_report_itself() -> None:
    """A wave with its warnings; of what only happened, nothing beside who did it; a reason before all."""
    wave = entry("wave", wave=0, report={"days": {"a": DAYS}, "warnings": ["It takes longer."]})
    assert entry_sentence(wave) == "2 days of tables are staged, 1 would not change, 1 is held back. It takes longer."
    assert entry_sentence(entry("step", step="validated", report={"sentence": "Same."})) == "Same."
    assert entry_sentence(entry("started", report={"name": "ana", "uid": 1000})) == ""
    assert entry_sentence(entry("stopped", reason="the canary differs", report={"days": {"a": DAYS}})) == (
        "the canary differs"
    )


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Below the title."""
    title, empty, *lines = step_markdown(CampaignStep.VERIFY_SOURCE, report).splitlines()
    assert (title, empty) == ("### source verified", "")
    return lines


def test_what_a_step_reports_is_literal_but_the_difference() -> None:
    """That one is a page of its own."""
    page = step_markdown(
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
    assert step_markdown(CampaignStep.SHADOW, {}) == "### shadow backfilled\n\n"


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
