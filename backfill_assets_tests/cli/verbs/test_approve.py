"""What the commands of a campaign say: its difference, the notice to readers, and what comes next."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backfill_assets.answers import campaign as answers
from backfill_assets.campaign import standing as standings
from backfill_assets.campaign import steps
from backfill_assets.campaign.course import CampaignState
from backfill_assets.campaign.later_decisions import LaterDecisions
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.standing import PlanFacts, PlanStanding
from backfill_assets.cli import campaigns
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry, campaign_of
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.lakehouse.records import Notice
from backfill_assets.publish.outbox import announce, begins_key
from backfill_assets.report.answer import Line
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.golden import DAYS, MADE, PLAN, REVENUE, STYLE, DeclaredLakehouse, golden_home

SHORT = PLAN.id[:12]
APPROVE = f"Nothing of it is published yet. To publish all of it at once: backfill approve {PLAN.id}"


@pytest.fixture(scope="module")
def built() -> Iterator[Path]:
    """A lakehouse with a campaign that waits for approval."""
    with golden_home() as home:
        yield home


@pytest.fixture
def staged(backfill: Backfill, built: Path, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    shutil.copytree(built, backfill.home)
    return backfill


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has nothing to do: all is staged and compared."""
    monkeypatch.setattr(campaigns, "carry_on", lambda *_, **__: None)


def test_a_run_shows_what_the_difference_shows_and_what_comes_next(staged: Backfill, waiting: None) -> None:
    """The sums are of all days compared: a share of the staged days alone would be another under the same name."""
    now, ran = staged.json("status", SHORT), staged.json("run", SHORT)
    (row,) = now["difference"]["tables"]
    assert (row["table"], row["before"], row["after"]) == (REVENUE, "300.00", "298.86")
    assert (now["standing"], now["waits"]) == ("waiting for approval", "it waits for approval")
    assert now["next"] == [APPROVE] and now["days"][0]["staged"] == [f"{DAYS[0]}..{DAYS[-1]}"]
    assert ran["difference"] == now["difference"] and "entries" in now and "entries" not in ran


def test_a_campaign_that_was_stopped_says_why_and_names_no_approval(staged: Backfill) -> None:
    journal.write(
        staged.lakehouse.storage, campaign_of(PLAN.id), JournalEntry(kind="stopped", at=MADE, reason="a limit")
    )
    found = staged.json("status", SHORT)
    assert found["standing"] == "stopped" and "backfill approve" not in found["next"][0]
    assert {"text": "stopped: a limit"} in found["notes"]


def test_a_campaign_that_was_stopped_before_it_could_be_approved_says_why(backfill: Backfill) -> None:
    """To stage it again would stop it again."""
    storage, name = backfill.lakehouse.storage, campaign_of(PLAN.id)
    keep_plan(storage, PLAN.id, PLAN.to_json())
    journal.write(storage, name, JournalEntry(kind="started", at=MADE))
    journal.write(storage, name, JournalEntry(kind="stopped", at=MADE, reason="Not as expected."))
    said = backfill("approve", PLAN.id, exit_code=1).stderr
    assert f"{PLAN.id} was stopped: Not as expected." in said and "backfill run" not in said


def test_with_two_approvals_the_first_yes_is_not_said_to_publish(
    staged: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is the first learns that another person is needed."""
    monkeypatch.setattr(answers, "staged_notice", lambda _: Notice(title="It was rebuilt"))
    terms = PLAN.terms.model_copy(update={"approvals": 2})
    plan = PLAN.model_copy(update={"asked": PLAN.asked.model_copy(update={"terms": terms})})
    builder = SimpleNamespace(lake=SimpleNamespace(storage=staged.lakehouse.storage))
    at: Any = SimpleNamespace(builder=builder, plan=plan, state=SimpleNamespace(given=()))
    (said,) = [part for part in answers.approval_answer(at, LaterDecisions({}, ())).parts if isinstance(part, Line)][:1]
    assert said.text.startswith("2 people have to say yes, 0 have. The last one publishes ")


def test_a_run_names_the_notice_that_could_not_be_sent(
    staged: Backfill, monkeypatch: pytest.MonkeyPatch, waiting: None
) -> None:
    """Its announcement is the first thing that fails when a webhook is not there; the campaign goes on."""
    announce(staged.lakehouse.storage, begins_key(campaign_of(PLAN.id)), Notice(title="It is going to be rebuilt"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("BACKFILL_NOTICES", f"webhook:http://127.0.0.1:{port}/hook")
    unsent = f"Not sent yet: {begins_key(campaign_of(PLAN.id))}: 127.0.0.1:{port} did not answer"
    lines = STYLE.sub("", staged("run", SHORT).output).splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith(unsent)]
    assert lines[at + 1].strip() == "-> backfill maintain --send-notices"


def test_a_damaged_journal_hides_no_other_campaign(staged: Backfill) -> None:
    """A process that is killed at its first entry leaves a folder, with a part of a file in it."""
    damaged, storage = f"plan-{1:016x}", staged.lakehouse.storage
    storage.write_bytes(f"_campaigns/{campaign_of(damaged)}/000000.json", b'{"kind": "sta')
    keep_plan(storage, damaged, PLAN.to_json())
    found = staged.json("status")
    assert found[PLAN.id.replace("-", "_")]["days"] and found[damaged.replace("-", "_")]["plan"] == damaged


# ------------------------------------------------------------------ Ctrl-C


def _interrupted_at(monkeypatch: pytest.MonkeyPatch, staged: Backfill, at: CampaignStep) -> list[CampaignStep]:
    """Ctrl-C comes at the step ``at``; the cut-over publishes a row. Returns the steps that were begun."""
    begun: list[CampaignStep] = []
    lakehouse = DeclaredLakehouse(staged.home / "lakehouse")
    lakehouse.minutes = 60

    def do_step(at_work: CampaignRun, step: CampaignStep, *_: object) -> None:
        begun.append(step)
        if step is at:
            raise KeyboardInterrupt
        made = lakehouse.request(f"cut-{len(begun)}", {REVENUE: {DAYS[0]: [5]}})
        of_campaign = made.provenance.model_copy(update={"campaign": campaign_of(PLAN.id)})
        lakehouse.publish_request(made.model_copy(update={"provenance": of_campaign}))
        at_work.settle()

    monkeypatch.setattr(steps, "do_step", do_step)
    return begun


def test_ctrl_c_after_a_yes_says_what_stands_and_the_same_command_goes_on(
    staged: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a run does it: exit code 130."""
    begun = _interrupted_at(monkeypatch, staged, CampaignStep.CUT_OVER)
    for _ in range(2):
        said = staged("approve", PLAN.id, "--yes", exit_code=130).stderr
        assert f"Interrupted: {PLAN.id} is approved, and nothing of it is published yet." in said
        assert "-> Run the same command again: it goes on." in said
    assert begun == [CampaignStep.CUT_OVER] * 2 and staged.json("status", SHORT)["standing"] == "approved"


def test_ctrl_c_after_the_cut_over_says_that_it_is_published(staged: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command goes on with what is left, and asks for no second yes."""
    begun = _interrupted_at(monkeypatch, staged, CampaignStep.DOWNSTREAM)
    monkeypatch.setattr(steps, "deliver", lambda *_: None)
    for cut in ("cut-1", "cut-1"):
        said = staged("approve", PLAN.id, "--yes", exit_code=130).stderr
        assert f"Interrupted: {PLAN.id} is published, as {cut}. Not done yet: step 7 of 9: downstream rebuilt." in said
    assert begun == [CampaignStep.CUT_OVER, CampaignStep.DOWNSTREAM, CampaignStep.DOWNSTREAM]


@pytest.mark.parametrize("standing", PlanStanding)
def test_each_standing_has_a_sentence_for_ctrl_c(standing: PlanStanding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standings, "standing_of", lambda _: standing)
    facts = PlanFacts(plan=PLAN.id, course=CampaignState("campaign"), left="step 7", publication="cut", half_done="cut")
    said = campaigns.interrupted_sentence(facts)
    assert said.startswith("Interrupted") and said.endswith(".") and PLAN.id in said


def test_an_error_is_json_where_json_is_asked_for(staged: Backfill) -> None:
    """One line on standard error, with what to do; no answer on standard output, and the same exit code."""
    said = staged("approve", "plan-nosuch", "--json", exit_code=1)
    found = json.loads(said.stderr)
    assert (found["exit_code"], said.stdout) == (1, "") and found["error"].startswith("There is no plan 'plan-nosuch'")
    assert found["hint"].startswith("Plans: plan-")
