"""Each page of a campaign says what was found, what comes next and what to do, with the command and the link."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets.defs.campaigns.next_step import (
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
from backfill_assets_tests.defs.campaigns.campaigns import plan, started

PAGES = Pages()
PARTS = ("**Found:** ", "**Next:** ", "**To do:** ")


def assert_is_complete(page: str) -> None:
    assert [line[: len(part)] for part, line in zip(PARTS, page.split("\n\n"), strict=False)] == list(PARTS)


def test_a_plan_has_the_link_that_starts_it() -> None:
    page = after_plan(plan(), PAGES)
    assert_is_complete(page)
    assert PAGES.start(plan().id) in page and f"`backfill run {plan().id} --daemon`" in page


def test_a_plan_that_cannot_be_started_says_why_and_has_no_link_to_start_it() -> None:
    stops = PlanFinding(kind="damaged", severity="stops", message="A day is damaged.", next_step="Put it back.")
    page = after_plan(plan(findings=(stops,)), PAGES)
    assert_is_complete(page)
    assert "A day is damaged" in page and "Put it back" in page and "playground" not in page


def test_a_plan_without_days_asks_for_nothing() -> None:
    page = after_plan(plan().model_copy(update={"steps": ()}), PAGES)
    assert_is_complete(page)
    assert "playground" not in page and "`" not in page


def test_a_plan_that_was_started_names_the_run_and_the_page_to_come_back_to() -> None:
    page = after_start(plan(), 2, PAGES, "a-run")
    assert_is_complete(page)
    assert "(/runs/a-run)" in page and "/assets/campaign/validated?" in page and "2 waves" in page


@pytest.mark.parametrize("step", STEPS)
def test_the_page_of_each_step_is_complete(step: CampaignStep, tmp_path: Path) -> None:
    """Also from a report that has nothing in it, as an older one may."""
    assert_is_complete(after_step(started(tmp_path, step), step, {}, PAGES, ""))


def test_a_campaign_that_waits_says_what_approving_does_and_how(tmp_path: Path) -> None:
    """The exact command, the page to click, and how to give it up."""
    at = started(tmp_path, CampaignStep.VALIDATE)
    page = after_step(at, CampaignStep.VALIDATE, {"sentence": "2 days differ."}, PAGES, "")
    assert effect_of_approval(at) == "publishes 2 days of 1 table at once, for every reader"
    assert PAGES.approve(at.campaign, effect_of_approval(at)) in page
    for words in ("2 days differ.", "It waits for your approval", f"`backfill approve {at.plan.id}`", "--abandon"):
        assert words in page
    assert "`user`" not in page


def test_a_campaign_with_approvers_asks_for_a_name(tmp_path: Path) -> None:
    """Without the tag the run would be refused."""
    terms = PlanTerms(approvers=("ana", "bela"), approvals=2)
    at = started(tmp_path, CampaignStep.VALIDATE, of=plan(terms))
    page = after_step(at, CampaignStep.VALIDATE, {}, PAGES, "")
    assert "2 of ana, bela" in page and "user" in page


def test_what_is_published_can_be_undone_from_its_page(tmp_path: Path) -> None:
    at = started(tmp_path, CampaignStep.NOTIFY)
    for step in (CampaignStep.CUT_OVER, CampaignStep.NOTIFY):
        page = after_step(at, step, {"publication": "p1", "days": {"t": ["2017-03-01..2017-03-02"]}}, PAGES, "a-run")
        assert "/jobs/undo_a_campaign/" in page and f"`backfill rollback {at.plan.id}`" in page
    assert "(/runs/a-run)" in after_step(at, CampaignStep.CUT_OVER, {}, PAGES, "a-run")


def test_a_campaign_that_was_stopped_says_how_it_goes_on(tmp_path: Path) -> None:
    at = started(tmp_path, CampaignStep.PIN)
    at.stop(CampaignStep.SHADOW, "too many nulls")
    page = after_failure(at, PAGES)
    assert_is_complete(page)
    assert "too many nulls" in page and PAGES.start(at.plan.id) in page and "--abandon" in page


def test_a_run_that_died_asks_for_nothing(tmp_path: Path) -> None:
    page = after_failure(started(tmp_path, CampaignStep.PIN), PAGES)
    assert_is_complete(page)
    assert "by itself" in page and "playground" not in page


def test_an_undo_can_be_undone() -> None:
    page = after_undo("plan-1", "p2", 3, 1, PAGES)
    assert_is_complete(page)
    assert "4 days" in page and "1 of them computed again" in page and "`backfill rollback p2`" in page
