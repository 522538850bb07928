"""``backfill rollback`` says what it will do, asks, does it, and can be undone."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime

import pytest
from click.testing import CliRunner

from backfill_assets.cli import main, output
from backfill_assets.cli.verbs.rollback import new_rollback_id
from backfill_assets.lakehouse.records import Provenance
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets.rebuild.outcome import os_person
from backfill_assets_tests import two_versions
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.protocol.foreign import demand_feature

DAY, NEXT = date(2017, 3, 1), date(2017, 3, 2)
CAMPAIGN, PLAN = "campaign-0123456789abcdef", "plan-0123456789abcdef"


@pytest.fixture
def two(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    """Two publications of two tables, within the rollback window on any date."""
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    backfill.lakehouse.publish("first", {"bronze_sales": {DAY: [1]}, "quarantine_sales": {DAY: [10]}})
    backfill.lakehouse.publish("second", {"bronze_sales": {DAY: [2, 3], NEXT: [4]}, "quarantine_sales": {DAY: [20]}})
    return backfill


def ids(backfill: Backfill, table: str) -> list[int]:
    return sorted(backfill.lakehouse.newest(table).to_pyarrow_table().column("id").to_pylist())


def test_puts_back_all_tables_and_can_be_undone(two: Backfill) -> None:
    """The plan is shown first; the id to undo it with comes last."""
    output = two("rollback", "second", "--yes").output
    assert re.search(r"bronze_sales\t2\t2017-03-01..2017-03-02\t3\t1\tfirst", output)
    assert ids(two, "bronze_sales") == [1] and ids(two, "quarantine_sales") == [10]
    undo = re.search(r"publication\t(rollback-[a-z0-9-]+)", output)
    assert undo
    two("rollback", undo[1], "--yes")
    assert ids(two, "bronze_sales") == [2, 3, 4] and ids(two, "quarantine_sales") == [20]
    newest = two.json("history")["publications"][0]
    assert newest["kind"] == "rollback" and newest["reason"] == f"rollback of {undo[1]}" and newest["by"]


def test_a_first_publication_is_withdrawn(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """There was nothing before: the plan says so, and the days are missing again."""
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    backfill.lakehouse.publish("first", {"raw_sales": {DAY: [1]}})
    assert "nothing: never published" in backfill("rollback", "first", "--yes").output
    assert backfill.statuses("raw_sales")["raw_sales"] == {"missing": [str(DAY)]}


def test_without_a_terminal_it_wants_yes(two: Backfill) -> None:
    """A script must say that it means it."""
    assert "add --yes" in two("rollback", "second", exit_code=2).stderr
    assert ids(two, "bronze_sales") == [2, 3, 4]


@pytest.mark.parametrize(("answer", "left"), [("n", [2, 3, 4]), ("y", [1])])
def test_asks_on_a_terminal(two: Backfill, monkeypatch: pytest.MonkeyPatch, answer: str, left: list[int]) -> None:
    """After the plan, before anything is done."""
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    result = CliRunner().invoke(main, ["rollback", "second"], input=f"{answer}\n")
    assert "Put this back?" in result.output and result.exit_code == (0 if answer == "y" else 1)
    assert ids(two, "bronze_sales") == left


def test_later_publications_come_first(two: Backfill) -> None:
    """Rolling back an overwritten publication would undo the later one too."""
    error = two("rollback", "first", "--yes", exit_code=1).stderr
    assert "first cannot be rolled back" in error and "Roll back the later publications first" in error


def test_what_would_be_refused_is_refused_by_the_dry_run_and_before_asking(two: Backfill) -> None:
    """A dry run that ends well is a promise; of many days the first few are named."""
    for options in (["--dry-run"], []):
        refused = two("rollback", "first", *options, exit_code=1)
        assert "first cannot be rolled back" in refused.stderr and "Nothing was done" not in refused.output
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


def test_the_window_is_reported(backfill: Backfill) -> None:
    """Files are kept for the window only."""
    backfill.lakehouse.publish("first", {"raw_sales": {DAY: [1]}})
    for option in ("--yes", "--dry-run"):
        refused = backfill("rollback", "first", option, exit_code=1)
        assert "rollback window of first is over" in refused.stderr and "Nothing was done" not in refused.output


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


def test_nothing_is_created_by_a_rollback_in_an_empty_place(backfill: Backfill) -> None:
    """A mistyped path must not become a lakehouse."""
    backfill("rollback", "first", "--yes", exit_code=1)
    assert not (backfill.home / "lakehouse").exists()


def test_ids_sort_by_time_and_can_name_a_timeline() -> None:
    """Lower case letters, digits, hyphens; two in one second differ."""
    at = datetime(2017, 3, 1, 11, 20, tzinfo=UTC)
    assert re.fullmatch(r"rollback-20170301t112000-[0-9a-f]{6}", new_rollback_id(at))
    assert new_rollback_id(at) != new_rollback_id(at)


@pytest.fixture
def campaign(two: Backfill) -> Backfill:
    """A campaign that brought other rows to both tables."""
    rows = {"bronze_sales": {DAY: [7]}, "quarantine_sales": {DAY: [70]}}
    request = two.lakehouse.request("cut", rows, code="v0")
    two.lakehouse.publisher.publish(request.model_copy(update={"provenance": Provenance(campaign=CAMPAIGN)}))
    return two


def test_a_campaign_is_undone_by_its_plan_and_people_are_notified(
    campaign: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No day has to be staged again; the dry run says how long it takes, and does nothing."""
    told = campaign.home / "sent.jsonl"
    monkeypatch.setenv("BACKFILL_NOTICES", f"file:{told}")
    shown = campaign("rollback", PLAN, "--dry-run").output
    assert re.search(r"bronze_sales\tput back\t1\t2017-03-01", shown) and "It takes about a second" in shown
    assert ids(campaign, "bronze_sales") == [4, 7] and not told.exists()
    undone = campaign.json("rollback", PLAN, "--yes")
    assert (undone["campaign"], undone["undoes"], undone["seconds"]) == (CAMPAIGN, "cut", 0)
    assert ids(campaign, "bronze_sales") == [2, 3, 4] and ids(campaign, "quarantine_sales") == [20]
    assert [json.loads(line)["key"] for line in told.read_text().splitlines()] == [undone["publication"]]
    for name in (CAMPAIGN, "cut"):
        error = campaign("rollback", name, "--yes", exit_code=1).stderr
        assert f"To bring it back: backfill rollback {undone['publication']}" in error
    assert "restores" not in undone
    shown = campaign("rollback", undone["publication"], "--yes").output
    assert "Bringing back a campaign that was undone" in shown and f"campaign\t{CAMPAIGN}" in shown
    assert ids(campaign, "bronze_sales") == [4, 7]
    titles = [json.loads(line)["title"] for line in told.read_text().splitlines()]
    assert titles == [f"Undone: {CAMPAIGN}", f"In force again: {CAMPAIGN}"]
    back = campaign.json("history")["publications"][0]["publication"]
    for options in (["--yes"], ["--dry-run"]):
        error = campaign("rollback", undone["publication"], *options, exit_code=1).stderr
        assert f"{undone['publication']} is undone already: {back} did it on " in error
    campaign("rollback", back, "--yes")
    assert json.loads(told.read_text().splitlines()[-1])["title"] == f"Undone: {CAMPAIGN}"


def test_a_day_that_moved_and_cannot_be_staged_again_is_refused_before_asking(campaign: Backfill) -> None:
    """With the reason, in the plan and in the error."""
    campaign.lakehouse.publish("since", {"bronze_sales": {DAY: [8]}, "quarantine_sales": {DAY: []}})
    assert "again since by since" in campaign("rollback", PLAN, "--dry-run").output
    error = campaign("rollback", PLAN, exit_code=1).stderr
    assert "bronze_sales 2017-03-01 cannot be put back: bronze_sales was published again since by since" in error
    assert ids(campaign, "bronze_sales") == [4, 8]


def test_one_that_is_undone_says_by_what_and_how_it_is_brought_back(two: Backfill) -> None:
    """The refusal of a later publication would send people to publications that are not in force either."""
    undone = two.json("rollback", "second", "--yes")["publication"]
    for options in (["--yes"], ["--dry-run"]):
        error = two("rollback", "second", *options, exit_code=1).stderr
        assert f"second is undone already: {undone} did it on 2" in error
        assert f"To bring it back: backfill rollback {undone}" in error
    two("rollback", undone, "--yes")
    assert "Nothing was done" in two("rollback", "second", "--dry-run").output, "it is in force again"


def test_history_says_alike_who_rolled_back_a_publication_and_a_campaign(campaign: Backfill) -> None:
    """The person, and the command."""
    campaign("rollback", PLAN, "--yes")
    campaign("rollback", "second", "--yes")
    undone = [each for each in campaign.json("history")["publications"] if each["kind"] == "rollback"]
    assert len({each["publication"] for each in undone}) == 2
    assert {each["by"] for each in undone} == {f"{os_person().name}: backfill rollback"}
    assert all(each["run"] for each in undone) and len({each["git"] for each in undone}) == 1


def test_the_dry_run_of_a_plain_publication_does_nothing(two: Backfill) -> None:
    assert "Nothing was done" in two("rollback", "second", "--dry-run").output
    assert ids(two, "bronze_sales") == [2, 3, 4]
    assert "has published nothing" in two("rollback", PLAN, exit_code=1).stderr


def test_the_days_that_read_what_is_put_back_are_named(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it asks, afterwards, to programs, and in the log: revenue was built from the facts that go."""
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    days = two_versions.DAYS
    two_versions.publish_inputs(backfill.lakehouse, "in", days)
    two_versions.publish_facts(backfill.lakehouse, "one", days, "v1", 100)
    two_versions.publish_facts(backfill.lakehouse, "two", days, "v2", 200)
    fact = f"two-{two_versions.FACT.replace('_', '-')}"
    stale = {two_versions.REVENUE: [f"{days[0]}..{days[-1]}"]}
    words = f"leaves stale\t{two_versions.REVENUE} {days[0]}..{days[-1]}"
    assert backfill.json("rollback", fact, "--dry-run")["leaves_stale"] == stale
    assert words in backfill("rollback", fact, "--dry-run").output
    assert words in backfill("rollback", fact, "--yes").output
    newest, *_ = backfill.json("history", "--limit", 1)["publications"]
    assert newest["leaves_stale"] == {two_versions.REVENUE: [f"{days[0]}..{days[-1]}"]}
    assert set(backfill.statuses()[two_versions.REVENUE]) == {"stale: input changed"}


def test_a_rollback_to_something_older_than_its_inputs_is_refused_before_it_asks(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Revenue of facts that are not there any more: the run to roll back first is named."""
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    two_versions.publish_inputs(backfill.lakehouse, "in", two_versions.DAYS)
    for id, version, number in (("one", "v1", 100), ("two", "v2", 200)):
        two_versions.publish_facts(backfill.lakehouse, id, two_versions.DAYS, version, number)
    refused = backfill("rollback", f"two-{two_versions.REVENUE.replace('_', '-')}", "--dry-run", exit_code=1)
    assert "would be older than what it is made of" in refused.stderr
    assert f"Roll back two-{two_versions.FACT.replace('_', '-')} first" in refused.stderr
