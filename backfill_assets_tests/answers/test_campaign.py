"""What the steps of a campaign report: in a sentence, for page and terminal; and in full, where values are literal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from backfill_assets.answers.campaign import entry_sentence, step_answer, step_sentence
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry
from backfill_assets.report.markdown import markdown

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


def test_what_a_step_reports_is_literal_and_without_the_difference() -> None:
    """That one is a page of its own."""
    values = {"reason": ERROR, "days": [ERROR, ERROR], "by": {"t": ERROR}, "t": {"x": {"y": ERROR}}}
    page = markdown(step_answer(CampaignStep.VERIFY_SOURCE, {**values, "difference": "**2**"}))
    assert page.startswith("## source verified") and "<b>" not in page and "**2**" not in page
    assert page.count("Put it back") == 5


def test_plain_values_are_facts_and_values_by_name_and_column_a_table() -> None:
    """Each column that any row has, in the order in which they come; a cell that a row lacks is empty."""
    tables = {"fact": {"rows": 3, "days": ["a", "b"]}, "report": {"sum": "1|2"}}
    found = step_answer(CampaignStep.SHADOW, {"by": "ana", "tables": tables, "days": ["a", "b"], "none": {}}).as_json()
    assert (found["by"], found["days"]) == ("ana", [{"days": "a"}, {"days": "b"}])
    assert "none" not in found
    assert found["tables"] == [
        {"": "fact", "rows": 3, "days": ["a", "b"], "sum": None},
        {"": "report", "rows": None, "days": None, "sum": "1|2"},
    ]
    assert step_answer(CampaignStep.SHADOW, {}).parts == ()
