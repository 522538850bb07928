"""What the commands of a campaign say to a person: the sums, the notice to readers, and what comes next."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from backfill_assets.campaign.course import Move
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.cli import main
from backfill_assets.cli.commands import campaign
from backfill_assets.difference.metadata import table_difference
from backfill_assets.difference.records import TableDifference
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import JournalEntry, campaign_of
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.lakehouse.records import Notice
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publication.outbox import announce, begins_key
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.replace import ReplaceBuild
from backfill_assets.rebuild.shadow import HeldBack, ShadowedStep
from backfill_assets.settings import Settings
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.golden import DAYS, MADE, PLAN, REVENUE, golden_home
from backfill_assets_tests.cli.terminal import terminal

SUMS = [f"{REVENUE}\trows\t15\t16\t+6.7 %", f"{REVENUE}\trevenue_eur\t300\t298.86\t-0.38 %"]
SHORT = PLAN.id[:12]
APPROVE = f"Nothing of it is published yet. To publish all of it at once: backfill approve {PLAN.id}"


@pytest.fixture(scope="module")
def built() -> Iterator[Path]:
    """A lakehouse with a campaign that waits for approval."""
    with golden_home() as home:
        yield home


@pytest.fixture
def storage(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    home = tmp_path / "home"
    shutil.copytree(built, home)
    monkeypatch.setenv("BACKFILL_HOME", str(home))
    return Storage(str(home / "lakehouse"))


def _lines(*words: str, exit_code: int = 0, answer: str = "") -> list[str]:
    done = CliRunner().invoke(main, words, input=answer)
    assert done.exit_code == exit_code, done.output
    return [line.rstrip() for line in done.output.splitlines()]


def _staged_again(at: CampaignRun, **_: Any) -> Move:
    build = SimpleNamespace(tables=[REVENUE], step=SimpleNamespace(name=REVENUE))
    step: Any = SimpleNamespace(build=build, staged=DAYS[:2], unchanged=DAYS[2:], held_back=[])
    at.shadowed = [step]
    return Move("it waits for approval")


def test_a_run_shows_the_sums_that_the_difference_shows(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all days compared: a share of the staged days alone would be another under the same name."""
    monkeypatch.setattr(campaign, "_carry_on", _staged_again)
    changed = TableDifference(REVENUE, changed=(DAYS[0],), unchanged=(DAYS[1],))
    monkeypatch.setattr(campaign, "_beside_published", lambda _: [changed])
    ran, compared = _lines("run", SHORT), _lines("diff", SHORT, "--kept")
    for lines in (ran, compared):
        assert [line for line in lines if line.startswith((f"{REVENUE}\trows", f"{REVENUE}\trevenue"))] == SUMS
    assert f"{REVENUE}\t2\t1\t2\t0\t{DAYS[0]}" in ran


def test_a_narrow_terminal_keeps_the_change(storage: Storage) -> None:
    with terminal(60):
        lines = _lines("diff", SHORT, "--kept")
    assert any("revenue_eur" in line and "-0.38 %" in line for line in lines)


def test_a_difference_names_what_comes_next(storage: Storage) -> None:
    """Only if that is an approval; a campaign that was stopped says why, and the difference what is wrong."""
    assert _lines("diff", SHORT, "--kept")[-1] == APPROVE
    assert APPROVE in _lines("campaign", SHORT)
    journal.write(storage, campaign_of(PLAN.id), JournalEntry(kind="stopped", at=MADE, reason="a limit"))
    assert not any("backfill approve" in line for line in _lines("diff", SHORT, "--kept"))


def test_a_campaign_that_was_stopped_before_it_could_be_approved_says_why(backfill: Backfill) -> None:
    """To stage it again would stop it again."""
    storage, name = backfill.lakehouse.storage, campaign_of(PLAN.id)
    keep_plan(storage, PLAN.id, PLAN.to_json())
    journal.write(storage, name, JournalEntry(kind="started", at=MADE))
    journal.write(storage, name, JournalEntry(kind="stopped", at=MADE, reason="Not as expected."))
    said = backfill("approve", PLAN.id, exit_code=1).stderr
    assert f"{PLAN.id} was stopped: Not as expected." in said and "backfill run" not in said


def test_the_notice_to_readers_is_shown_before_a_yes(storage: Storage) -> None:
    with terminal(80):
        lines = _lines("approve", SHORT, exit_code=1, answer="n\n")
    at = lines.index("The notice that is sent then:")
    assert lines[at + 1] == f"  {REVENUE} of {PLAN.asked.days} was rebuilt ({PLAN.id})"
    assert lines[at + 2] == "  Rates of the right day: v1 took those of the day before"
    assert lines[at + 3].startswith(f"  {REVENUE}: 3 of 3 published days change; on these 3 days rows +100")
    assert f"  To undo: backfill rollback {PLAN.id}" in lines and lines[-2].startswith("Publish this?")


def test_with_two_approvals_the_first_yes_is_not_said_to_publish(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who is the first learns that another person is needed."""
    monkeypatch.setattr("backfill_assets.campaign.steps.staged_notice", lambda _: Notice(title="It was rebuilt"))
    plan = PLAN.model_copy(update={"terms": PLAN.terms.model_copy(update={"approvals": 2})})
    builder = SimpleNamespace(lake=SimpleNamespace(storage=storage))
    at: Any = SimpleNamespace(builder=builder, plan=plan, state=SimpleNamespace(given=()))
    campaign._say_what_is_published(at, {}, quiet=False)
    said = capsys.readouterr().out.splitlines()[0]
    assert said.startswith("2 people have to say yes, 0 have. The last one publishes ") and "A yes" not in said


def test_a_run_names_the_notice_that_could_not_be_sent(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its announcement is the first thing that fails when a webhook is not there; the campaign goes on."""
    monkeypatch.setattr(campaign, "_carry_on", _staged_again)
    monkeypatch.setattr(campaign, "_beside_published", lambda _: [])
    announce(storage, begins_key(campaign_of(PLAN.id)), Notice(title="It is going to be rebuilt"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("BACKFILL_NOTICES", f"webhook:http://127.0.0.1:{port}/hook")
    unsent = f"Not sent yet: {begins_key(campaign_of(PLAN.id))}: 127.0.0.1:{port} did not answer"
    lines = list(_lines("run", SHORT))
    (at,) = [number for number, line in enumerate(lines) if line.startswith(unsent)]
    assert lines[at + 1].strip() == "-> backfill maintain --send-notices"


def test_a_day_is_held_back_in_each_table_of_its_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After staging, as in what `backfill campaign` shows."""
    step, settings = CATALOG.step("bronze_sales"), Settings.at(tmp_path)
    lake = Builder.from_settings(settings, CATALOG, lambda: pytest.fail("no Spark is needed for that")).lake
    build = ReplaceBuild(lake, step, step.version(), RunInfo("r"), force=False, progress=print)
    done = [ShadowedStep(build, (), (), (HeldBack("bronze_sales", date(2017, 3, 5), because_of="raw_sales"),))]
    changes = [table_difference(table.name, {}, {}) for table in step.tables]
    campaign._say(done, changes, [], None)
    assert capsys.readouterr().out.splitlines()[1:] == [f"{table.name}\t0\t0\t0\t1\t" for table in step.tables]


def test_a_damaged_journal_and_one_that_never_began_hide_no_other_campaign(storage: Storage) -> None:
    """A process that is killed at its first entry leaves a folder, with a part of a file in it."""
    damaged, begun = (campaign_of(f"plan-{number:016x}") for number in (1, 2))
    storage.write_bytes(f"_campaigns/{damaged}/000000.json", b'{"kind": "sta')
    storage.write_bytes(f"_campaigns/{begun}/000000.json.1234abcd.tmp", b"")
    lines = _lines("campaign")
    assert any(line.startswith(f"{campaign_of(PLAN.id)}\t5 of 9") for line in lines), lines
    assert any(line.startswith(f"{damaged}\t\tcannot be read") for line in lines)
    assert any(f"_campaigns/{damaged}/000000.json is of a later version, or damaged" in line for line in lines)
    assert not any(begun in line for line in lines)
