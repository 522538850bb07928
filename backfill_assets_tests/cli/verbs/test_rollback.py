"""``backfill rollback`` says what it will do, asks, does it, and can be undone."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime

import pytest
from click.testing import CliRunner

from backfill_assets import clock
from backfill_assets.cli import main, output
from backfill_assets.cli.verbs.rollback import new_rollback_id
from backfill_assets.lakehouse.records import Provenance
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets.rebuild.outcome import os_person
from backfill_assets_tests import two_versions
from backfill_assets_tests.cli.command import Backfill, built_once
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.protocol.foreign import demand_feature

DAY, NEXT = date(2017, 3, 1), date(2017, 3, 2)
BRONZE, QUARANTINE = "bronze_sales", "quarantine_sales"
CAMPAIGN, PLAN = "campaign-0123456789abcdef", "plan-0123456789abcdef"


@built_once
def published(backfill: Backfill) -> None:
    """Two publications of two tables."""
    backfill.lakehouse.publish("first", {BRONZE: {DAY: [1]}, QUARANTINE: {DAY: [10]}})
    backfill.lakehouse.publish("second", {BRONZE: {DAY: [2, 3], NEXT: [4]}, QUARANTINE: {DAY: [20]}})


@pytest.fixture
def two(published: Backfill, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    """They are within the rollback window on any date."""
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    return published


def test_puts_back_all_tables_and_can_be_undone(two: Backfill) -> None:
    """Who did it is in the history; one that is undone says by what, and how it is brought back."""
    assert two.json("rollback", "second", "--dry-run")["rolls_back"] == "second"
    assert two.ids(BRONZE) == [2, 3, 4]
    undo = two.json("rollback", "second", "--yes")["publication"]
    assert two.ids(BRONZE) == [1] and two.ids(QUARANTINE) == [10]
    newest, *_ = two.json("history")["publications"]
    assert (newest["kind"], newest["reason"]) == ("rollback", "rollback of second") and newest["by"]
    for option in ("--yes", "--dry-run"):
        error = two("rollback", "second", option, exit_code=1).stderr
        assert f"second is undone already: {undo} did it on 2" in error
        assert f"To bring it back: backfill rollback {undo}" in error
    two("rollback", undo, "--yes")
    assert two.ids(BRONZE) == [2, 3, 4] and two.ids(QUARANTINE) == [20]
    assert "Nothing was done" in two("rollback", "second", "--dry-run").output, "it is in force again"


def test_a_first_publication_is_withdrawn_within_the_window(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The days are missing again. Files are kept for the window only."""
    backfill.lakehouse.publish("first", {"raw_sales": {DAY: [1]}})
    for option in ("--yes", "--dry-run"):
        refused = backfill("rollback", "first", option, exit_code=1)
        assert "rollback window of first is over" in refused.stderr and "Nothing was done" not in refused.output
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    assert "nothing: never published" in backfill("rollback", "first", "--yes").output
    assert backfill.statuses("raw_sales")["raw_sales"] == {"missing": [str(DAY)]}


def test_it_asks_on_a_terminal_and_wants_yes_without_one(two: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the plan, before anything is done."""
    assert "add --yes" in two("rollback", "second", exit_code=2).stderr
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    for answer, exit_code, left in (("n", 1, [2, 3, 4]), ("y", 0, [1])):
        result = CliRunner().invoke(main, ["rollback", "second"], input=f"{answer}\n")
        assert "Put this back?" in result.output and result.exit_code == exit_code
        assert two.ids(BRONZE) == left


def test_what_would_be_refused_is_refused_by_the_dry_run_and_before_asking(two: Backfill) -> None:
    """A dry run that ends well is a promise; of many days the first few are named."""
    for options in (["--dry-run"], ["--yes"], []):
        refused = two("rollback", "first", *options, exit_code=1)
        assert "first cannot be rolled back" in refused.stderr and "Nothing was done" not in refused.output
        assert "Roll back the later publications first" in refused.stderr
    assert [each["publication"] for each in two.json("history")["publications"]][:1] == ["second"], (
        "the log is as it was"
    )
    days = {date(2017, 3, day): [day] for day in range(1, 11)}
    two.lakehouse.publish("third", {"bronze_sales": days})
    two.lakehouse.publish("fourth", {"bronze_sales": days})
    assert two("rollback", "third", "--dry-run", exit_code=1).stderr.count("another writer") == 3
    assert "Nothing was done" in two("rollback", "fourth", "--dry-run").output


def test_unknown_and_aborted_publications_are_refused_before_asking(two: Backfill) -> None:
    """With the nearest id."""
    assert "Did you mean second?" in two("rollback", "secnd", "--yes", exit_code=1).stderr
    assert "has published nothing" in two("rollback", PLAN, exit_code=1).stderr
    elsewhere = two.home / "elsewhere"
    two("--lakehouse", elsewhere, "rollback", "first", "--yes", exit_code=1)
    assert not elsewhere.exists(), "a mistyped path must not become a lakehouse"
    two.lakehouse.crash("dead", {"bronze_sales": {DAY: [7]}}, at=CrashPoint.PREPARED)
    two.lakehouse.write_past_the_protocol("bronze_sales", DAY, [9])
    two.lakehouse.publisher.recover()
    assert "dead was aborted" in two("rollback", "dead", exit_code=1).stderr


def test_one_that_cannot_be_finished_is_refused_with_what_to_do(two: Backfill) -> None:
    """Its process died, and a table takes no commit since: there is nothing to put back, and nothing was aborted."""
    third = date(2017, 3, 3)
    two.lakehouse.crash("dead", {"bronze_sales": {third: [7]}}, at=CrashPoint.PREPARED)
    demand_feature(two.lakehouse.storage, "bronze_sales", "rowTracking")
    for options in (["--yes"], ["--dry-run"]):
        error = two("rollback", "dead", *options, exit_code=1).stderr
        assert "dead is not finished: there is nothing to roll back yet" in error
        assert "backfill maintain --abort dead" in error


def test_a_rollback_after_the_window_says_so_when_maintenance_has_deleted_the_files(backfill: Backfill) -> None:
    """There may be no later publication that could be rolled back first."""
    backfill.lakehouse.publish("first", {"bronze_sales": {DAY: [1]}})
    (file,) = backfill.json("show", "bronze_sales", str(DAY))["files"]
    backfill.lakehouse.publish("second", {"bronze_sales": {DAY: [2]}})
    (backfill.home / "lakehouse" / "bronze_sales" / file["path"]).unlink()
    refused = backfill("rollback", "second", "--dry-run", exit_code=1).stderr
    assert "rollback window of second is over" in refused and "later publications" not in refused


def test_files_that_are_gone_are_no_reason_to_roll_back_later_publications(two: Backfill) -> None:
    """A VACUUM took them: another rollback does not bring them back."""
    (file,) = two.json("show", "bronze_sales", str(DAY), "--at", "first")["files"]
    (two.home / "lakehouse" / "bronze_sales" / file["path"]).unlink()
    refused = two("rollback", "second", "--dry-run", exit_code=1).stderr
    assert file["path"] in refused and "later publications" not in refused
    assert "Bring the files back from a copy" in refused and "rebuild the days" in refused


def test_ids_sort_by_time_and_can_name_a_timeline() -> None:
    """Lower case letters, digits, hyphens; two in one second differ."""
    with clock.use(FakeClock(datetime(2017, 3, 1, 11, 20, tzinfo=UTC))):
        assert re.fullmatch(r"rollback-20170301t112000-[0-9a-f]{6}", new_rollback_id())
        assert new_rollback_id() != new_rollback_id()


@pytest.fixture
def campaign(two: Backfill) -> Backfill:
    """A campaign that brought other rows to both tables."""
    rows = {"bronze_sales": {DAY: [7]}, "quarantine_sales": {DAY: [70]}}
    request = two.lakehouse.request("cut", rows, code="v0")
    two.lakehouse.publish_request(request.model_copy(update={"provenance": Provenance(campaign=CAMPAIGN)}))
    return two


def test_a_campaign_is_undone_by_its_plan_and_people_are_notified(
    campaign: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No day has to be staged again; the dry run says how long it takes, and does nothing."""
    told = campaign.home / "sent.jsonl"
    monkeypatch.setenv("BACKFILL_NOTICES", f"file:{told}")
    shown = campaign("rollback", PLAN, "--dry-run").output
    assert re.search(r"bronze_sales\tput back\t1\t2017-03-01", shown) and "It takes about a second" in shown
    assert campaign.ids("bronze_sales") == [4, 7] and not told.exists()
    undone = campaign.json("rollback", PLAN, "--yes")
    assert (undone["plan"], undone["undoes"], undone["seconds"]) == (PLAN, "cut", 0)
    assert campaign.ids("bronze_sales") == [2, 3, 4] and campaign.ids("quarantine_sales") == [20]
    assert [json.loads(line)["key"] for line in told.read_text().splitlines()] == [undone["publication"]]
    for name in (CAMPAIGN, "cut"):
        error = campaign("rollback", name, "--yes", exit_code=1).stderr
        assert f"To bring it back: backfill rollback {undone['publication']}" in error
    assert "restores" not in undone
    shown = campaign("rollback", undone["publication"], "--yes").output
    assert "Bringing back a campaign that was undone" in shown and f"plan\t{PLAN}" in shown
    assert campaign.ids("bronze_sales") == [4, 7]
    titles = [json.loads(line)["title"] for line in told.read_text().splitlines()]
    assert titles == [f"Undone: {PLAN}", f"In force again: {PLAN}"]
    back = campaign.json("history")["publications"][0]["publication"]
    for options in (["--yes"], ["--dry-run"]):
        error = campaign("rollback", undone["publication"], *options, exit_code=1).stderr
        assert f"{undone['publication']} is undone already: {back} did it on " in error
    campaign("rollback", back, "--yes")
    assert json.loads(told.read_text().splitlines()[-1])["title"] == f"Undone: {PLAN}"


def test_a_day_that_moved_and_cannot_be_staged_again_is_refused_before_asking(campaign: Backfill) -> None:
    """With the reason, in the plan and in the error."""
    campaign.lakehouse.publish("since", {"bronze_sales": {DAY: [8]}, "quarantine_sales": {DAY: []}})
    assert "again since by since" in campaign("rollback", PLAN, "--dry-run").output
    error = campaign("rollback", PLAN, exit_code=1).stderr
    assert "bronze_sales 2017-03-01 cannot be put back: bronze_sales was published again since by since" in error
    assert campaign.ids("bronze_sales") == [4, 8]


def test_history_says_alike_who_rolled_back_a_publication_and_a_campaign(campaign: Backfill) -> None:
    """The person, and the command."""
    campaign("rollback", PLAN, "--yes")
    campaign("rollback", "second", "--yes")
    undone = [each for each in campaign.json("history")["publications"] if each["kind"] == "rollback"]
    assert len({each["publication"] for each in undone}) == 2
    assert {each["by"] for each in undone} == {f"{os_person().name}: backfill rollback"}
    assert all(each["run"] for each in undone) and len({each["git"] for each in undone}) == 1


def test_the_days_that_read_what_is_put_back_are_named(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it asks, afterwards, and in the log: revenue was built from the facts that go.

    Revenue of facts that are not there any more is refused: the run to roll back first is named.
    """
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    days, revenue = two_versions.DAYS, two_versions.REVENUE
    two_versions.publish_inputs(backfill.lakehouse, "in", days)
    for id, version, number in (("one", "v1", 100), ("two", "v2", 200)):
        two_versions.publish_facts(backfill.lakehouse, id, days, version, number)
    fact, of_revenue = (f"two-{table.replace('_', '-')}" for table in (two_versions.FACT, revenue))
    refused = backfill("rollback", of_revenue, "--dry-run", exit_code=1).stderr
    assert "would be older than what it is made of" in refused and f"Roll back {fact} first" in refused
    stale = {revenue: [f"{days[0]}..{days[-1]}"]}
    assert backfill.json("rollback", fact, "--dry-run")["leaves_stale"] == stale
    assert f"leaves stale\t{revenue} {days[0]}..{days[-1]}" in backfill("rollback", fact, "--yes").output
    newest, *_ = backfill.json("history", "--limit", 1)["publications"]
    assert newest["leaves_stale"] == stale
    assert set(backfill.statuses()[revenue]) == {"stale: input changed"}
