"""``backfill plan -f``: a file is a plan with one id, and `--check` says what would come of it without a trace."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry, campaign_of, entries, write
from backfill_assets.lakehouse.campaign_reports import ByPerson, ComparedReport
from backfill_assets.lakehouse.plans import plan_ids
from backfill_assets.lakehouse.records import Notice
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.plan.keep import plan_as_kept
from backfill_assets.publish.notice_forms import as_json
from backfill_assets.publish.outbox import announce, begins_key, due_notices
from backfill_assets.publish.senders import LogSender
from backfill_assets.rebuild import outcome as person
from backfill_assets.rebuild.outcome import Person
from backfill_assets.settings import Settings
from backfill_assets_tests.begun_campaign import going
from backfill_assets_tests.cli.command import Backfill

FACT = "fact_sales_transactions"
EXAMPLES = Path(__file__).parents[3] / "backfills"
ANA, BELA, CHEN = (Person(name, f"OS user, uid {uid}") for uid, name in enumerate(("ana", "bela", "chen"), 1000))
LINES = [
    "title: Rates of a Sunday",
    f"target: {FACT}",
    "days: 2017-03-05",
    "scope: whole",
    "expectations: [rows unchanged, amount_eur < 2% a day]",
    "waves: [50%, 100%]",
    "limits: {deviation: 2%}",
    "approvers: [bela, ana]",
    "notices: [managers]",
]


@pytest.fixture(autouse=True)
def planned_by_ana(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(person, "os_person", lambda: ANA)
    backfill.land_a_sunday()


def file(folder: Path, *lines: str, name: str = "plan.yaml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(lines or LINES) + "\n")
    return folder / name


def planned(backfill: Backfill, path: Path, exit_code: int = 0) -> str:
    return str(backfill.json("plan", "-f", path, exit_code=exit_code)["plan"]["plan"])


def test_the_same_file_is_the_same_plan_in_any_order_folder_and_layout(backfill: Backfill, tmp_path: Path) -> None:
    """Only what it says counts; what it says about the campaign counts too."""
    id = planned(backfill, file(tmp_path))
    for seed in range(3):
        shuffled = ["# " + str(seed), *random.Random(seed).sample(LINES, len(LINES))]
        assert planned(backfill, file(tmp_path / str(seed), *shuffled, name=f"other-{seed}.yml")) == id
    text = "\n".join(LINES).replace("{deviation: 2%}", "\n    deviation:   2.00%  # at most")
    assert planned(backfill, file(tmp_path / "laid-out", text.replace("[bela, ana]", "[ana, bela]"))) == id
    assert plan_ids(backfill.lakehouse.storage) == [id]
    assert plan_as_kept(Settings.at(backfill.home), id).terms.waves == "50%,100%"
    for changed in LINES[:1] + LINES[4:]:
        others = [line for line in LINES if line != changed]
        assert planned(backfill, file(tmp_path, *others)) != id, f"without {changed} it is another plan"


def test_a_file_that_says_what_a_command_says_is_the_plan_of_the_command(backfill: Backfill, tmp_path: Path) -> None:
    """So plans that are made without a file keep their ids."""
    asked = ("plan", FACT, "--days", "2017-03-05", "--scope", "whole", "--expect", "rows unchanged")
    id = backfill.json(*asked)["plan"]
    assert planned(backfill, file(tmp_path, *LINES[1:4], "expectations: [rows unchanged]")) == id


def test_a_check_says_what_would_happen_and_leaves_no_trace(
    backfill: Backfill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, by no way of writing; the id is that of the plan that is made later."""
    path = file(tmp_path)
    written: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("write_bytes", "replace_bytes", "put_if_absent", "write_parquet", "parquet_writer", "delete"):
            patch.setattr(Storage, name, lambda _, path, *__: written.append(path))
        before = _tree(backfill.home)
        checked = backfill.json("plan", "-f", path, "--check")
        output = backfill("plan", "-f", path, "--check").stdout
        page = backfill("plan", "-f", path, "--check", "--markdown").stdout
        assert (written, _tree(backfill.home)) == ([], before)
    assert (checked["valid"], checked["may_be_carried_out"]) == (True, True) and "notes" not in checked
    for line in ("Rates of a Sunday", "50%,100%", "bela"):
        assert line in output and line in page
    assert f"{path} may be carried out." in output
    assert page.startswith(f"## {path} may be carried out.\n")
    assert plan_ids(backfill.lakehouse.storage) == going(backfill.lakehouse.storage) == []
    assert planned(backfill, path) == checked["plan"]["plan"]


def _tree(home: Path) -> dict[str, tuple[int, int]]:
    return {str(each): (each.stat().st_size, each.stat().st_mtime_ns) for each in sorted(home.rglob("*"))}


@pytest.mark.parametrize(
    ("was", "now", "exit_code", "message"),
    [
        ("days: 2017-03-05", "days: 2017-03-08", 1, "Nothing has landed for"),
        ("days: 2017-03-05", "days: 2999-01-01", 1, "has not ended"),
        ("target", "version: v9\ntarget", 2, "has no version 'v9'"),
        ("amount_eur <", "amount_euro <", 1, "'amount_euro' is no measure."),
        ("target", "taget", 2, ": taget (line 2): There is no such key"),
        ("days: 2017-03-05", "days: 2017-02-31", 2, ": days (line 3): '2017-02-31' is not a day."),
        ("waves: [50%, 100%]", "waves: [50%", 2, ": It is not YAML"),
    ],
)
def test_the_exit_code_says_whether_it_may_be_carried_out(
    backfill: Backfill, tmp_path: Path, was: str, now: str, exit_code: int, message: str
) -> None:
    """1 for a plan that may not, 2 for a file that is no plan; as JSON and as a page."""
    path = file(tmp_path, "\n".join(LINES).replace(was, now))
    told = backfill("plan", "-f", path, "--check", "--json", exit_code=exit_code)
    found = json.loads(told.stdout)
    assert message in told.output and plan_ids(backfill.lakehouse.storage) == []
    assert (found["valid"], found["may_be_carried_out"]) == (exit_code == 1, False)
    page = backfill("plan", "-f", path, "--check", "--markdown", exit_code=exit_code).stdout
    assert ("may not be carried out" if exit_code == 1 else "is not a valid plan file") in page.splitlines()[0]
    backfill("plan", "-f", path, exit_code=exit_code)


def test_too_few_approvers_are_found_before_anything_is_staged(
    backfill: Backfill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one who plans in CI counts as the planner."""
    alone, none = file(tmp_path / "alone", *LINES[1:4], "approvers: [ana]"), file(tmp_path / "none", *LINES[1:4])
    for path in (alone, none):
        backfill("plan", "-f", path, "--check")
    monkeypatch.setenv("BACKFILL_APPROVAL_BY", "another-person")
    refused = backfill("plan", "-f", alone, "--check", exit_code=1).output
    assert "0 of its approvers may approve it, because ana plans it" in refused
    backfill("plan", "-f", none, "--check")
    monkeypatch.setenv("BACKFILL_APPROVAL_BY", "listed")
    backfill("plan", "-f", alone, "--check")
    assert "The plan lists no approvers" in backfill("plan", "-f", none, "--check", exit_code=1).output
    monkeypatch.setenv("BACKFILL_APPROVAL_BY", "the boss")
    assert "It takes anyone, another-person or listed." in backfill("plan", "-f", none, exit_code=1).stderr


def test_a_folder_is_checked_file_by_file_and_the_worst_counts(backfill: Backfill, tmp_path: Path) -> None:
    """In CI one line checks all of them."""
    folder = tmp_path / "backfills"
    file(folder, name="1-good.yaml")
    assert [each["may_be_carried_out"] for each in backfill.json("plan", "-f", folder, "--check")["files"]] == [True]
    file(folder, *LINES[1:2], "days: 2017-03-08", name="2-stops.yml")
    (folder / "README.md").write_text("no plan")
    backfill("plan", "-f", folder, "--check", exit_code=1)
    file(folder, "nothing: good", name="3-invalid.yaml")
    found = backfill.json("plan", "-f", folder, "--check", exit_code=2)
    assert [(Path(each["file"]).name, each["valid"], each["may_be_carried_out"]) for each in found["files"]] == [
        ("1-good.yaml", True, True),
        ("2-stops.yml", True, False),
        ("3-invalid.yaml", False, False),
    ]
    assert backfill("plan", "-f", folder, "--check", "--markdown", exit_code=2).stdout.count("\n### ") == 3
    assert "only --check takes one" in backfill("plan", "-f", folder, exit_code=2).stderr
    (tmp_path / "empty").mkdir()
    assert "There is no plan file in" in backfill("plan", "-f", tmp_path / "empty", "--check", exit_code=1).stderr


def test_what_is_typed_wrong_is_named(backfill: Backfill, tmp_path: Path) -> None:
    """What is said beside the file would be in no review."""
    for option in (
        FACT,
        "--days=2017-03-05",
        "--version=v1",
        "--scope=whole",
        "--force",
        "--where=a = 1",
        "--newest-first",
        "--expect=rows unchanged",
    ):
        named = "TABLE|PLAN" if option == FACT else option.partition("=")[0]
        refused = backfill("plan", "-f", file(tmp_path), option, exit_code=2).stderr
        assert f"{named} cannot be given with -f or --check: the file says it." in refused
    assert "Name a TABLE, or a file with -f FILE." in backfill("plan", exit_code=2).stderr
    assert "add -f FILE" in backfill("plan", "--check", exit_code=2).stderr
    backfill("plan", "-f", "gone.yaml", exit_code=2)
    assert "backfill plan -f rates.yaml" in backfill("plan", "rates.yaml", exit_code=2).stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: str(path.name))
def test_each_example_is_valid(backfill: Backfill, path: Path) -> None:
    """Their days are not built here, so a finding may stop them; a real lakehouse is planned on in a story."""
    found = json.loads(CliRunner().invoke(main, ["plan", "-f", str(path), "--json", "--check"]).stdout)
    assert found["valid"] and found["plan"]["title"]


# ------------------------------------------------------------------ carried out as the file says


def started(backfill: Backfill) -> Any:
    """The newest entry that starts or resumes a campaign."""
    storage = backfill.lakehouse.storage
    (id,) = plan_ids(storage)
    return next(each for each in reversed(entries(storage, campaign_of(id))) if each.kind in ("started", "resumed"))


def test_it_is_run_with_the_waves_and_limits_of_its_file_and_with_no_others(backfill: Backfill, tmp_path: Path) -> None:
    """A kept plan does not change: neither at its start, nor when it is taken up again."""
    id = planned(backfill, file(tmp_path))
    for option, value in (("--waves", "1%,100%"), ("--limits", "deviation=50%")):
        refused = backfill("run", id, "--daemon", option, value, exit_code=1).stderr
        assert f"{id} has {option.strip('-')} of its own" in refused and "change them in the file" in refused
    assert entries(backfill.lakehouse.storage, campaign_of(id)) == []
    backfill("run", id, "--daemon")
    assert started(backfill).report.waves == "50%,100%"
    assert started(backfill).report.limits == "errors=5%,gates=10%,nulls=1%,deviation=2%,seconds=none,money=none"
    backfill("run", id, "--daemon", "--waves", "50.0%,100%", "--limits", "deviation=2.0%")
    assert (started(backfill).kind, started(backfill).report.waves) == ("resumed", "50%,100%")
    backfill("run", id, "--daemon", "--waves", "100%", exit_code=1)


def test_a_plan_without_waves_takes_those_of_the_command(backfill: Backfill, tmp_path: Path) -> None:
    id = planned(backfill, file(tmp_path, *LINES[1:4]))
    backfill("run", id, "--daemon", "--waves", "20%,100%", "--limits", "deviation=50%")
    assert (started(backfill).report.waves, started(backfill).report.who) == ("20%,100%", "ana")
    backfill("run", id, "--daemon")
    assert started(backfill).report.waves == "1%,10%,50%,100%"


def waiting(backfill: Backfill, path: Path) -> str:
    """A campaign that Dagster's daemon has carried to where it waits for approval."""
    id = planned(backfill, path)
    backfill("run", id, "--daemon")
    for step in list(CampaignStep)[: list(CampaignStep).index(CampaignStep.CUT_OVER)]:
        entry = JournalEntry(kind="step", step=step, at=started(backfill).at, report=ComparedReport(fingerprint="f"))
        write(backfill.lakehouse.storage, campaign_of(id), entry)
    return id


def approvals(backfill: Backfill, id: str) -> list[str]:
    found = entries(backfill.lakehouse.storage, campaign_of(id))
    return [str(Person.of(entry.reported(ByPerson))) for entry in found if entry.kind == "approved"]


def test_only_those_whom_the_plan_lists_approve_it(
    backfill: Backfill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the user of the operating system, and by any setting; the refusal says who may."""
    id = waiting(backfill, file(tmp_path))
    monkeypatch.setattr(person, "os_person", lambda: CHEN)
    monkeypatch.setenv("LOGNAME", "bela")
    refused = backfill("approve", id, "--yes", exit_code=1).stderr
    assert f"{id} cannot be approved by chen (OS user, uid 1002): the plan lists as approvers: ana, bela." in refused
    assert "These may: ana, bela." in refused and approvals(backfill, id) == []
    monkeypatch.setattr(person, "os_person", lambda: BELA)
    assert backfill.json("approve", id, "--yes")["standing"] == "approved"
    assert approvals(backfill, id) == ["bela (OS user, uid 1001)"]
    found = backfill.json("status", id)
    assert found["planned_by"] == found["started_by"] == "ana (OS user, uid 1000)"
    assert (found["approved_by"], found["approvers"]) == ("bela (OS user, uid 1001)", ["ana", "bela"])
    assert (found["who_may_approve"], found["carried_on_by"]) == ("anyone", "Dagster's daemon")


def test_another_person_has_to_approve_where_that_is_set(
    backfill: Backfill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither who planned it nor who started it; the first one to plan it stays the planner."""
    monkeypatch.setenv("BACKFILL_APPROVAL_BY", "another-person")
    path = file(tmp_path, *LINES[1:4])
    planned(backfill, path)
    monkeypatch.setattr(person, "os_person", lambda: BELA)
    id = waiting(backfill, path)
    for by, what in ((ANA, "ana (OS user, uid 1000) planned it"), (BELA, "bela (OS user, uid 1001) started it")):
        monkeypatch.setattr(person, "os_person", lambda by=by: by)
        refused = backfill("approve", id, "--yes", exit_code=1).stderr
        assert what in refused and "Ask someone else than ana and bela" in refused
    monkeypatch.setattr(person, "os_person", lambda: CHEN)
    backfill("approve", id, "--yes")
    assert approvals(backfill, id) == ["chen (OS user, uid 1002)"]


def test_two_approvals_come_from_two_people(
    backfill: Backfill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One person who approves twice is one."""
    id = waiting(backfill, file(tmp_path, *LINES, "approvals: 2"))
    for _ in range(2):
        waits = backfill.json("approve", id, "--yes")["waits"]
        assert waits == "it waits for approval: 1 of 2 given, by ana (OS user, uid 1000)"
    monkeypatch.setattr(person, "os_person", lambda: BELA)
    assert backfill.json("approve", id, "--yes")["standing"] == "approved"
    assert backfill.json("status", id)["approved_by"] == "ana (OS user, uid 1000), bela (OS user, uid 1001)"


def test_notices_name_those_whom_the_file_names(backfill: Backfill, tmp_path: Path) -> None:
    """The receiver passes them on: there is one place that notices are sent to."""
    id = planned(backfill, file(tmp_path))
    storage = backfill.lakehouse.storage
    announce(storage, begins_key(campaign_of(id)), Notice(title="It begins"))
    announce(storage, "something-else", Notice(title="Something else"))
    found = {due.notice.title: due for due in due_notices(backfill.lakehouse.publisher)}
    assert as_json(found["It begins"])["recipients"] == ["managers"]
    assert "recipients" not in as_json(found["Something else"])
    lines: list[str] = []
    LogSender(lines.append).send(found["It begins"])
    assert "\n  For managers" in lines[0]
