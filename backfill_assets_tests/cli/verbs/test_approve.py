"""What the commands of a campaign say: its difference, the notice to readers, and what comes next."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backfill_assets.answers import campaign as answers
from backfill_assets.cli import campaigns
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import JournalEntry, campaign_of
from backfill_assets.lakehouse.plans import keep_plan, open_plan
from backfill_assets.lakehouse.records import Notice
from backfill_assets.publish.outbox import announce, begins_key
from backfill_assets.report.answer import Line
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.golden import DAYS, MADE, PLAN, REVENUE, STYLE, golden_home

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
    (said,) = [part for part in answers.approval_answer(at, {}).parts if isinstance(part, Line)][:1]
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
    open_plan(storage, damaged)
    found = staged.json("status")
    assert found[PLAN.id.replace("-", "_")]["days"] and found[damaged.replace("-", "_")]["plan"] == damaged
