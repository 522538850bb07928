"""The page of a campaign says what was found, what comes next and what to do, with the command and the link."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from backfill_assets.campaign.ends import record_step, record_stop
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.defs.campaigns.pages import (
    EFFECT_TAG,
    Entries,
    Launchpads,
    effect_of_approval,
    letter_link,
    plan_page,
    standing_page,
    step_page,
    undo_page,
)
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry, Spent
from backfill_assets.lakehouse.campaign_reports import ComparedReport, PublicationReport, StagedReport, ToldReport
from backfill_assets.plan.records import Cost, PlanFinding, PlanTerms
from backfill_assets.settings import ApprovalRule
from backfill_assets.upkeep.incidents import IncidentBook
from backfill_assets_tests.defs.campaigns.campaigns import FACT, RANGE, plan, started
from backfill_assets_tests.upkeep.incident import incident

PADS = Launchpads("a_location")


def complete(entries: Entries) -> str:
    """All of it, after a look at its parts: each is short enough for the UI to show it where it is."""
    assert list(entries)[:3] == ["found", "next", "to do"] and all(entries.values())
    assert max(map(len, entries.values())) < 1000
    return "\n".join(f"{label}: {text}" for label, text in entries.items())


def filled(link: str) -> tuple[str, dict[str, object], dict[str, str]]:
    """The job of a launchpad, the configuration of its one step, and its tags."""
    url = urlsplit(link)
    found = parse_qs(url.query)
    (step,) = yaml.safe_load(found["config"][0])["ops"].values()
    keys = sorted(name for name in found if name.endswith("[key]"))
    tags = {found[name][0]: found[name.replace("[key]", "[value]")][0] for name in keys}
    return url.path.split("/")[4], step["config"], tags


def test_the_launchpads_open_filled_in_and_say_what_happens() -> None:
    assert filled(PADS.start("plan-1")) == ("campaign", {"plan": "plan-1", "start": True}, {})
    assert filled(PADS.undo("plan-1", "puts back")) == ("undo_campaign", {"plan": "plan-1"}, {EFFECT_TAG: "puts back"})
    approve = PADS.approve("plan-1", "publishes 2 days", user="ana o", without_held_back=True)
    assert " " not in approve and "(" not in approve and ")" not in approve, "Markdown would end the link there"
    config = {"plan": "plan-1", "without_held_back": True}
    assert filled(approve) == ("approve_campaign", config, {EFFECT_TAG: "publishes 2 days", "user": "ana o"})


def test_a_plan_has_the_link_that_starts_it() -> None:
    page = complete(plan_page(plan(), PADS))
    assert PADS.start(plan().id) in page and f"`backfill run {plan().id} --daemon`" in page


def test_a_plan_that_cannot_be_started_says_why_and_has_no_link_to_start_it() -> None:
    stops = PlanFinding(kind="damaged", severity="stops", message="A day is damaged.", next_step="Put it back.")
    page = complete(plan_page(plan(findings=(stops,)), PADS))
    assert "A day is damaged" in page and "Put it back" in page and "playground" not in page


def test_a_plan_without_days_asks_for_nothing() -> None:
    page = complete(plan_page(plan().model_copy(update={"steps": ()}), PADS))
    assert "playground" not in page and "`" not in page


@pytest.mark.parametrize("step", STEPS)
def test_the_page_of_each_step_is_complete(step: CampaignStep, tmp_path: Path) -> None:
    """With the report in full: of the step that compares the difference alone, and no names of tables of the last."""
    found = step_page(started(tmp_path, step), step, PADS)
    complete({name: str(found[name].value) for name in ("found", "next", "to do")})
    expected = {CampaignStep.VALIDATE: {"the difference"}, CampaignStep.NOTIFY: set()}.get(step, {"report"})
    assert found.keys() & {"report", "the difference"} == expected


def test_what_it_has_cost_is_one_figure_with_its_unit(tmp_path: Path) -> None:
    """All steps together, Spark's start with them; money where a core hour has a price."""
    priced = plan().model_copy(update={"cost": Cost(cores=2, price_per_core_hour=Decimal("0.9"))})
    for number, (of, cost) in enumerate(((plan(), "40 s on 1 core"), (priced, "0.0200 for 40 s on 2 cores"))):
        at = started(tmp_path / str(number), of=of)
        for spent in (Spent(seconds=10, spark_start=4), Spent(seconds=30)):
            at.write(JournalEntry(kind="step", step=CampaignStep.SHADOW, at=of.made_at, spent=spent))
        page = step_page(at, CampaignStep.SHADOW, PADS)
        assert page["cost"].value == cost
        assert not [label for label in page if label.startswith(("spent", "estimated"))]


def test_the_difference_begins_with_what_changes_for_people(tmp_path: Path) -> None:
    """No fingerprint, and no list of what was staged before it."""
    at = started(tmp_path, CampaignStep.VALIDATE)
    staged = StagedReport(staged={FACT: (RANGE,)})
    report = ComparedReport.of(staged, sentence="", difference="## Amount falls.", fingerprint="1a2b", page="/x.html")
    record_step(at, CampaignStep.VALIDATE, report)
    assert step_page(at, CampaignStep.VALIDATE, PADS)["the difference"].value == "## Amount falls."


def test_a_campaign_that_waits_says_what_approving_does_and_how(tmp_path: Path) -> None:
    """The exact command, the page to click, and how to give it up."""
    at = started(tmp_path, CampaignStep.VALIDATE)
    page = complete(standing_page(at, "2 days differ.", PADS))
    assert effect_of_approval(at) == "publishes 2 days in 1 table at once, for every reader"
    assert PADS.approve(at.plan.id, effect_of_approval(at)) in page
    for words in ("2 days differ.", "It waits for approval", f"`backfill approve {at.plan.id}`", "timeline delete"):
        assert words in page
    assert "`user`" not in page


def test_days_that_are_wrong_on_main_meanwhile_are_named(tmp_path: Path) -> None:
    """The first three, and how many more are left to this campaign. No repair rebuilds what the campaign does."""
    at = started(tmp_path, CampaignStep.VALIDATE)
    assert "meanwhile" not in standing_page(at, "2 days differ.", PADS)
    book = IncidentBook(at.builder.lake.storage)
    for number in range(5):
        book.write(incident(id=f"i{number}", table=f"t{number}", left_to=at.plan.id))
    for number, plan_id in enumerate(("plan-1", ""), 5):
        book.write(incident(id=f"i{number}", table=f"other{number}", left_to=plan_id))
    meanwhile = standing_page(at, "2 days differ.", PADS)["meanwhile"]
    assert "t0 2017-03-04 on main: late rows. It is left to this campaign." in meanwhile
    assert meanwhile.endswith("And 2 more: `backfill incident list`.") and "t3" not in meanwhile


def test_what_approving_publishes_are_the_days_that_were_staged(tmp_path: Path) -> None:
    """The same count as on the pages of what was published, and of what was put back."""
    at = started(tmp_path, CampaignStep.VALIDATE)
    found = ComparedReport(staged={FACT: ("2017-03-01",)}, unchanged={FACT: ("2017-03-02",)})
    record_step(at, CampaignStep.VALIDATE, found)
    assert effect_of_approval(at) == "publishes 1 day in 1 table at once, for every reader"


def test_a_campaign_with_approvers_has_a_launchpad_for_each(tmp_path: Path) -> None:
    """Without the tag with the name the run would be refused."""
    at = started(tmp_path, CampaignStep.VALIDATE, of=plan(PlanTerms(approvers=("bela", "ana"), approvals=2)))
    entries = standing_page(at, "2 days differ.", PADS)
    page = complete(entries)
    assert "2 of these: ana, bela." in page and "tag `user`" in page
    for name in ("ana", "bela"):
        link = PADS.approve(at.plan.id, effect_of_approval(at), user=name)
        assert f"[approve as {name}]({link})" in entries[f"if you are {name}"]


def test_a_place_that_asks_for_another_person_says_so(tmp_path: Path) -> None:
    at = started(tmp_path, CampaignStep.VALIDATE)
    at.approval_by = ApprovalRule.ANOTHER_PERSON
    entries = standing_page(at, "2 days differ.", PADS)
    assert "Who may approve: " in entries["to do"] and "tag `user`" in entries["to do"]
    assert not [label for label in entries if label.startswith("if you are")]


def test_what_is_held_back_is_left_out_by_the_link(tmp_path: Path) -> None:
    """And said, with the number of days."""
    at = started(tmp_path, CampaignStep.VALIDATE)
    record_step(at, CampaignStep.VALIDATE, ComparedReport(held_back=("fact 2017-03-01: a rule failed",)))
    do = standing_page(at, "1 day differs.", PADS)["to do"]
    assert "1 day held back and left out" in do
    assert PADS.approve(at.plan.id, effect_of_approval(at), without_held_back=True) in do


def test_the_page_says_how_a_campaign_goes_on_from_where_it_is(tmp_path: Path) -> None:
    """By itself, undone once it is published, and started again after a stop or a rollback."""

    def page(at: CampaignRun) -> str:
        return complete(standing_page(at, "This run failed.", PADS))

    at = started(tmp_path / "under way", CampaignStep.PIN)
    assert "by itself" in page(at) and "playground" not in page(at)
    record_stop(at, CampaignStep.SHADOW, "too many nulls")
    assert all(words in page(at) for words in ("too many nulls", PADS.start(at.plan.id), "timeline delete"))
    at = started(tmp_path / "published", CampaignStep.NOTIFY)
    undo = ("/jobs/undo_campaign/", f"`backfill rollback {plan().id}`", "You can undo it until")
    assert all(words in page(at) for words in undo)
    at.write(JournalEntry(kind="rolled back", at=at.entries()[-1].at, report=PublicationReport(publication="p2")))
    assert PADS.start(at.plan.id) in page(at)


def test_after_the_publication_each_page_says_what_was_published(tmp_path: Path) -> None:
    """A page that begins with the notice hides what people look for; what a step leaves empty is no line of it."""
    at = started(tmp_path, CampaignStep.DOWNSTREAM)
    record_step(at, CampaignStep.NOTIFY, ToldReport(still_due={}))
    page = step_page(at, CampaignStep.NOTIFY, PADS)
    assert str(page["found"].value).startswith("Published: ") and "The notice is sent" in str(page["found"].value)
    assert "still due" not in str(page)


def test_an_undo_can_be_undone() -> None:
    page = complete(undo_page("plan-1", "p2", "Undone: 4 days in 1 table are as before.", PADS))
    assert "Undone: 4 days in 1 table are as before." in page and "`backfill rollback p2`" in page


def test_the_letter_is_linked_where_a_browser_can_open_it() -> None:
    """A browser opens no file from a page of the network; without a server the file or object is named."""
    report = "/data/lake house/_plans/plan-x.difference.html"
    assert letter_link(report, "plan-x", "http://127.0.0.1:3001")["letter"].value == "http://127.0.0.1:3001/plan-x"
    file = letter_link(report, "plan-x", "")["letter"].value
    assert file == "file:///data/lake%20house/_plans/plan-x.difference.html"
    assert letter_link("s3://lake/x.html", "plan-x", "")["letter"].value == "s3://lake/x.html"
    assert letter_link("", "plan-x", "http://127.0.0.1:3001") == {}
