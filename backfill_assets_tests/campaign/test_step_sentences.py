"""What the steps of a campaign report, in a sentence each: for its page and for the terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from backfill_assets.campaign.step_sentences import entry_sentence, step_sentence
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry

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
