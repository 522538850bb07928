"""``backfill maintain``: says what it would do and does it; gives up what is stuck; sends the notices that are due."""

from __future__ import annotations

import json
import os
from datetime import date

import pytest

from backfill_assets.lakehouse.records import Notice
from backfill_assets.publish.outbox import announce
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.protocol.foreign import demand_feature

DAY = date(2017, 3, 1)
NOTICE = Notice(title="March is rebuilt", lines=("revenue -0.4 %",), reports=("fact_daily_revenue",))


def test_planned_done_and_nothing_left(backfill: Backfill) -> None:
    """Five small files of one day become one."""
    assert "nothing to do" in backfill("maintain").output
    for number in range(5):
        backfill.lakehouse.publish(f"a{number}", {"raw_sales": {DAY: [number]}}, mode="append")
    (task,) = backfill.json("maintain", "--dry-run")["chores"]
    assert (task["chore"], task["table"], task["items"], task["outcome"]) == ("compact", "raw_sales", [str(DAY)], "")
    assert task["files"] == 5 and task["bytes"]
    assert "Nothing was done" in backfill("maintain", "--dry-run").output
    assert len(backfill.lakehouse.newest("raw_sales").file_uris()) == 5
    assert "1 day compacted" in backfill("maintain").output
    assert len(backfill.lakehouse.newest("raw_sales").file_uris()) == 1
    assert backfill.json("maintain")["chores"] == []


def test_after_a_long_pause_a_person_who_checked_the_clock_frees_more(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The small lakehouse's log is of 2017: what it bears out is not the years since."""
    for number in range(2):
        backfill.lakehouse.publish(f"p{number}", {"bronze_sales": {DAY: [number]}})
    replaced = min((backfill.home / "lakehouse").glob("bronze_sales/_timelines/run-p0/day=*/*.parquet"))
    for file in replaced.parents[1].rglob("*"):
        os.utime(file, (0, 0))
    assert backfill.json("maintain")["chores"] == [] and replaced.exists()
    monkeypatch.setenv("BACKFILL_CLOCK", "checked")
    (task,) = backfill.json("maintain")["chores"]
    assert task["chore"] == "reclaim files" and not replaced.exists()


@pytest.fixture
def stuck(backfill: Backfill) -> Backfill:
    """``dead`` writes two tables; one of them takes no commit any more."""
    lakehouse = backfill.lakehouse
    lakehouse.publish("first", {"bronze_sales": {DAY: [1]}, "quarantine_sales": {DAY: [10]}})
    lakehouse.crash(
        "dead", {"bronze_sales": {DAY: [2]}, "quarantine_sales": {DAY: [20]}}, at=CrashPoint.TABLE_COMMITTED
    )
    demand_feature(lakehouse.storage, "quarantine_sales", "rowTracking")
    return backfill


def test_an_entry_that_cannot_be_finished_is_given_up(stuck: Backfill) -> None:
    """The plan comes first, then what could not be put back and why."""
    output = stuck("maintain", "--abort", "dead", "--yes", "row tracking").output
    assert "giving up\tdead\nkind\treplace" in output and "Left as it is\ntable\twhy\nquarantine_sales\t" in output
    assert "RowTracking" in output
    assert stuck.ids("bronze_sales") == [1]
    newest = stuck.json("history")["publications"][0]
    assert newest["outcome"] == "aborted" and ": row tracking" in newest["reason"]


def test_only_open_publications_are_given_up_and_only_after_a_yes(stuck: Backfill) -> None:
    """A mistyped name gets the nearest one, what is done the command that puts it back, what is aborted none."""
    assert "add --yes" in stuck("maintain", "--abort", "dead", exit_code=2).stderr
    assert stuck.json("history")["publications"][0]["outcome"] == "open"
    assert "Did you mean dead?" in stuck("maintain", "--abort", "deda", "--yes", exit_code=1).stderr
    assert "backfill rollback first" in stuck("maintain", "--abort", "first", exit_code=1).stderr, "before it asks"
    stuck("maintain", "--abort", "dead", "--yes")
    again = stuck("maintain", "--abort", "dead", "--yes", exit_code=1).stderr
    assert "dead is not open: it is aborted" in again and "rollback" not in again and "nothing is left to do" in again


@pytest.fixture
def due(backfill: Backfill) -> Backfill:
    """One announced, one of a publication."""
    announce(backfill.lakehouse.storage, "campaign-x.start", NOTICE)
    request = backfill.lakehouse.request("cut", {"bronze_sales": {date(2017, 3, 1): [1]}})
    backfill.lakehouse.publish_request(request.model_copy(update={"notice": NOTICE}))
    return backfill


def test_notices_are_listed_sent_and_gone(due: Backfill) -> None:
    """With the log sender a notice is printed: beside JSON on standard error, so that standard output stays JSON."""
    both = ["campaign-x.start", "cut"]
    assert [each["key"] for each in due.json("maintain", "--send-notices", "--dry-run")["due"]] == both
    result = due("maintain", "--send-notices", "--json")
    assert json.loads(result.stdout)["sent"] == both and result.stderr.count("revenue -0.4 %") == 2
    assert due.json("maintain", "--send-notices", "--dry-run")["due"] == []
    assert "No notice is due." in due("maintain", "--send-notices").output


def test_a_file_gets_them(due: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """BACKFILL_NOTICES says where."""
    path = due.home / "notices.jsonl"
    monkeypatch.setenv("BACKFILL_NOTICES", f"file:{path}")
    found = due.json("maintain", "--send-notices")
    assert (found["sent"], found["failed"]) == (["campaign-x.start", "cut"], {})
    assert [json.loads(line)["title"] for line in path.read_text().splitlines()] == [NOTICE.title] * 2


def test_what_is_not_delivered_fails_the_command_and_stays_due(due: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without showing the webhook's secret."""
    monkeypatch.setenv("BACKFILL_NOTICES", "webhook:http://127.0.0.1:9/hook?token=secret")
    result = due("maintain", "--send-notices", exit_code=1)
    assert "Not sent, and still due: 2 notices." in result.stderr
    assert "127.0.0.1:9 did not answer" in result.output and "secret" not in result.output + result.stderr
    assert len(due.json("maintain", "--send-notices", "--dry-run")["due"]) == 2
    assert "takes no notices since" in result.output and "Last tried at" in result.output
    said = due.json("maintain", "--send-notices", exit_code=1)
    ((name, words),) = said["failing"].items()
    assert name.startswith("webhook-") and "secret" not in words
    assert set(said["failed"].values()) == {"127.0.0.1:9 did not answer (ConnectionRefusedError)"}, "a person asks"
