"""Each page of a campaign says what was found, what comes next and what to do, with the command and the link."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets.defs.campaigns.next_step import (
    SHOWN_AT_MOST,
    Entries,
    after_failure,
    after_plan,
    after_start,
    after_step,
    after_undo,
    effect_of_approval,
)
from backfill_assets.defs.campaigns.pages import Pages
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep
from backfill_assets.plan.records import PlanFinding, PlanTerms
from backfill_assets.settings import ApprovalRule
from backfill_assets_tests.defs.campaigns.campaigns import plan, started

PAGES = Pages()


def complete(entries: Entries) -> str:
    """All of it, after a look at its parts: each is short enough for the UI to show it where it is."""
    assert list(entries)[:3] == ["found", "next", "to do"] and all(entries.values())
    assert max(map(len, entries.values())) < SHOWN_AT_MOST
    return "\n".join(f"{label}: {text}" for label, text in entries.items())


def test_a_plan_has_the_link_that_starts_it() -> None:
    page = complete(after_plan(plan(), PAGES))
    assert PAGES.start(plan().id) in page and f"`backfill run {plan().id} --daemon`" in page


def test_a_plan_that_cannot_be_started_says_why_and_has_no_link_to_start_it() -> None:
    stops = PlanFinding(kind="damaged", severity="stops", message="A day is damaged.", next_step="Put it back.")
    page = complete(after_plan(plan(findings=(stops,)), PAGES))
    assert "A day is damaged" in page and "Put it back" in page and "playground" not in page


def test_a_plan_without_days_asks_for_nothing() -> None:
    page = complete(after_plan(plan().model_copy(update={"steps": ()}), PAGES))
    assert "playground" not in page and "`" not in page


def test_a_plan_that_was_started_names_the_run_and_the_page_to_come_back_to() -> None:
    page = complete(after_start(plan(), 2, PAGES, "a-run"))
    assert "(/runs/a-run)" in page and "/assets/campaign/validated?" in page and "2 waves" in page


@pytest.mark.parametrize("step", STEPS)
def test_the_page_of_each_step_is_complete(step: CampaignStep, tmp_path: Path) -> None:
    """Also from a report that has nothing in it, as an older one may."""
    complete(after_step(started(tmp_path, step), step, {}, PAGES, ""))


def test_a_campaign_that_waits_says_what_approving_does_and_how(tmp_path: Path) -> None:
    """The exact command, the page to click, and how to give it up."""
    at = started(tmp_path, CampaignStep.VALIDATE)
    page = complete(after_step(at, CampaignStep.VALIDATE, {"sentence": "2 days differ."}, PAGES, ""))
    assert effect_of_approval(at) == "publishes 2 days of 1 table at once, for every reader"
    assert PAGES.approve(at.campaign, effect_of_approval(at)) in page
    for words in (
        "2 days differ.",
        "It waits for your approval",
        f"`backfill approve {at.plan.id}`",
        "timeline delete",
    ):
        assert words in page
    assert "`user`" not in page


def test_what_approving_publishes_are_the_days_that_were_staged(tmp_path: Path) -> None:
    """The same count as on the pages of what was published, and of what was put back."""
    at = started(tmp_path, CampaignStep.VALIDATE)
    (step,) = at.plan.steps
    at.record_step(CampaignStep.VALIDATE, {"days": {step.name: {"staged": 1, "unchanged": 1, "held back": 0}}})
    assert effect_of_approval(at) == "publishes 1 day of 1 table at once, for every reader"


def test_a_campaign_with_approvers_has_a_launchpad_for_each(tmp_path: Path) -> None:
    """Without the tag with the name the run would be refused."""
    terms = PlanTerms(approvers=("bela", "ana"), approvals=2)
    at = started(tmp_path, CampaignStep.VALIDATE, of=plan(terms))
    entries = after_step(at, CampaignStep.VALIDATE, {}, PAGES, "")
    page = complete(entries)
    assert "2 of these: ana, bela." in page and "tag `user`" in page
    for name in ("ana", "bela"):
        link = PAGES.approve(at.campaign, effect_of_approval(at), user=name)
        assert f"[approve as {name}]({link})" in entries[f"if you are {name}"]


def test_a_place_that_asks_for_another_person_says_so(tmp_path: Path) -> None:
    at = started(tmp_path, CampaignStep.VALIDATE)
    at.approval_by = ApprovalRule.ANOTHER_PERSON
    entries = after_step(at, CampaignStep.VALIDATE, {}, PAGES, "")
    assert "Who may approve: " in entries["to do"] and "tag `user`" in entries["to do"]
    assert not [label for label in entries if label.startswith("if you are")]


def test_what_is_held_back_is_left_out_by_the_link(tmp_path: Path) -> None:
    """And said, with the number of days."""
    at = started(tmp_path, CampaignStep.VALIDATE)
    report = {"held_back": ["fact 2017-03-01: a rule failed"], "sentence": "1 day differs."}
    at.record_step(CampaignStep.VALIDATE, report)
    do = after_step(at, CampaignStep.VALIDATE, report, PAGES, "")["to do"]
    assert "1 day is held back and left out" in do
    assert PAGES.approve(at.campaign, effect_of_approval(at), without_held_back=True) in do


def test_what_is_published_can_be_undone_from_its_page(tmp_path: Path) -> None:
    at = started(tmp_path, CampaignStep.NOTIFY)
    for step in (CampaignStep.CUT_OVER, CampaignStep.NOTIFY):
        page = complete(
            after_step(at, step, {"publication": "p1", "days": {"t": ["2017-03-01..2017-03-02"]}}, PAGES, "a-run")
        )
        assert "/jobs/undo_a_campaign/" in page and f"`backfill rollback {at.plan.id}`" in page
    assert "(/runs/a-run)" in complete(after_step(at, CampaignStep.CUT_OVER, {}, PAGES, "a-run"))


def test_a_campaign_that_was_stopped_says_how_it_goes_on(tmp_path: Path) -> None:
    at = started(tmp_path, CampaignStep.PIN)
    at.stop(CampaignStep.SHADOW, "too many nulls")
    page = complete(after_failure(at, PAGES))
    assert "too many nulls" in page and PAGES.start(at.plan.id) in page and "timeline delete" in page


def test_a_run_that_died_asks_for_nothing(tmp_path: Path) -> None:
    page = complete(after_failure(started(tmp_path, CampaignStep.PIN), PAGES))
    assert "by itself" in page and "playground" not in page


def test_an_undo_can_be_undone() -> None:
    page = complete(after_undo("plan-1", "p2", 3, 1, PAGES))
    assert "4 days" in page and "1 of them computed again" in page and "`backfill rollback p2`" in page
