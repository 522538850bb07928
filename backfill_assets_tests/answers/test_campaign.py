"""What the steps of a campaign report: in a sentence, for page and terminal; and in full, where values are literal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from backfill_assets.answers.campaign import entry_sentence, found_sentence, step_answer
from backfill_assets.answers.plan import headline
from backfill_assets.campaign.notice import begins
from backfill_assets.days import Cadence
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry
from backfill_assets.lakehouse.campaign_reports import (
    ComparedReport,
    PinnedReport,
    StagedReport,
    StepCounts,
    ToldReport,
)
from backfill_assets.plan.records import Plan, PlannedStep, PlanRequest
from backfill_assets.report.markdown import markdown
from backfill_assets.state.diagnosis import Cause

ERROR = "t: <b>no</b> column | `a_b` [x](y) *z*\n  -> Put it back"
TWELVE, TWO_WEEKS, MONTH = ["2017-03-01..2017-03-12"], ["2017-02-27", "2017-03-06"], ["2017-03-01"]
"""Twelve days, the weeks that they touch, and their month."""
REBUILT = {"fact": TWELVE, "side": TWELVE, "daily": TWELVE, "weekly": TWO_WEEKS, "monthly": MONTH}
IN_ONE_COUNT = "12 days, 2 weeks and 1 month in 5 tables"


def a_step(*tables: str, cadence: Cadence = Cadence.DAILY) -> PlannedStep:
    why = {Cause.INPUT_REBUILT: tuple(REBUILT[tables[0]])}
    return PlannedStep(tables=tables, version="v2", cadence=cadence, rebuild=why)


PLAN = Plan(
    asked=PlanRequest(target="fact", days=TWELVE[0]),
    steps=(
        a_step("fact", "side"),
        a_step("daily"),
        a_step("weekly", cadence=Cadence.WEEKLY),
        a_step("monthly", cadence=Cadence.MONTHLY),
    ),
    made_at=datetime(2017, 6, 1, tzinfo=UTC),
)


def entry(kind: str, **more: Any) -> JournalEntry:
    return JournalEntry.model_validate({"kind": kind, "at": datetime(2017, 6, 1, tzinfo=UTC), **more})


@pytest.mark.parametrize(
    ("step", "report", "sentence"),
    [
        (CampaignStep.ANNOUNCE, {"notice": "It is announced to two people"}, "It is announced to two people."),
        (
            CampaignStep.VERIFY_SOURCE,
            {"inputs": {"a": {"days": 2, "rows": 9}, "b": {"days": 1, "rows": 0}}},
            "All that it reads was read again: it is as it was published.",
        ),
        (
            CampaignStep.PIN,
            {"versions": {"a": 1}, "not taken in": {"raw": {"2017-03-01": 2}}},
            "The versions of 1 input are recorded; 2 landed files that are not ingested are no part of them.",
        ),
        (CampaignStep.SHADOW, {"staged": REBUILT}, f"Staged: {IN_ONE_COUNT}."),
        (
            CampaignStep.SHADOW,
            {"staged": {"fact": MONTH}, "unchanged": {"weekly": TWO_WEEKS}, "held back days": {"fact": ["2017-03-02"]}},
            "Staged: 1 day in 1 table. Unchanged: 2 weeks in 1 table. Held back: 1 day in 1 table.",
        ),
        (CampaignStep.VALIDATE, {"sentence": "Revenue falls."}, "Revenue falls."),
        (CampaignStep.CUT_OVER, {"days": REBUILT, "publication": "p"}, f"Published: {IN_ONE_COUNT}, all at once."),
        (
            CampaignStep.DOWNSTREAM,
            {"checked": 3, "rebuilt": {"c": ["2017-03-01"]}},
            "All of it was read again: it is as staged. Built as well: c.",
        ),
        (CampaignStep.NOTIFY, {"still due": {"n": "no answer"}}, "The notice did not arrive: no answer."),
        (CampaignStep.DECOMMISSION, {"closed": ["t"]}, "1 timeline is closed."),
    ],
)
def test_a_step_says_what_it_found(step: CampaignStep, report: dict[str, Any], sentence: str) -> None:
    assert found_sentence(entry("step", step=step, report=report).report, PLAN) == sentence


def test_a_plan_counts_as_all_that_follows_it_does() -> None:
    """Days of two tables are the same days, before it begins as after it was published."""
    assert headline(PLAN).endswith(f": {IN_ONE_COUNT}.")
    assert PLAN.scope_of(REBUILT) == IN_ONE_COUNT
    assert begins(PLAN, []).lines[0].startswith(f"{IN_ONE_COUNT}: fact, side, ")


@pytest.mark.parametrize("step", STEPS)
def test_an_older_report_may_lack_all_of_it(step: CampaignStep) -> None:
    assert found_sentence(entry("step", step=step).report, PLAN).endswith(".")


def test_an_entry_of_the_journal_is_a_sentence_and_never_the_report_itself() -> None:
    """A wave with its warnings; of what only happened, nothing beside who did it; a reason before all."""
    wave = entry("wave", wave=0, report={"staged": {"fact": MONTH}, "warnings": ["It takes longer."]})
    assert entry_sentence(PLAN, wave) == "Staged: 1 day in 1 table. It takes longer."
    assert entry_sentence(PLAN, entry("step", step="validated", report={"sentence": "Same."})) == "Same."
    assert entry_sentence(PLAN, entry("started", report={"name": "ana", "uid": 1000})) == ""
    stopped = entry("stopped", reason="the canary differs", report={"staged": {"fact": MONTH}})
    assert entry_sentence(PLAN, stopped) == "the canary differs"


def test_what_a_step_reports_is_literal_and_without_the_difference() -> None:
    """That one is a page of its own."""
    told = ToldReport(reports=(ERROR,), still_due={"n": ERROR}, delivered=("**2**",))
    page = markdown(step_answer(CampaignStep.NOTIFY, told))
    assert page.startswith("## completion told") and "<b>" not in page and "**2**" not in page
    assert page.count("Put it back") == 2
    staged = StagedReport(held_back=(ERROR, ERROR), days={ERROR: StepCounts(staged=1)})
    compared = ComparedReport.of(staged, sentence=ERROR, page="", fingerprint="", difference="**2**")
    page = markdown(step_answer(CampaignStep.VALIDATE, compared))
    assert page.count("Put it back") == 4 and "<b>" not in page and "**2**" not in page


def test_plain_values_are_facts_and_values_by_name_and_column_a_table() -> None:
    """Each column that any row has, in the order in which they come; a cell that a row lacks is empty."""
    waiting = {"raw": {"2017-03-01": 2, "2017-03-02": 3}, "more": {"2017-03-03": 4}}
    read = ("raw up to 3", "more up to 4")
    report = PinnedReport(sequence=7, versions={}, not_ingested=waiting, read_up_to=read)
    found = step_answer(CampaignStep.PIN, report).as_json()
    assert (found["sequence"], found["read_up_to"]) == (7, [{"read_up_to": each} for each in read])
    assert "versions" not in found
    assert found["not_taken_in"] == [
        {"": "raw", "2017_03_01": 2, "2017_03_02": 3, "2017_03_03": None},
        {"": "more", "2017_03_01": None, "2017_03_02": None, "2017_03_03": 4},
    ]
    assert step_answer(CampaignStep.SHADOW, StagedReport()).parts == ()
