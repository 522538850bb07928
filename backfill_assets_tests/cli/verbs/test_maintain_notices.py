"""``backfill maintain --send-notices``: what is due, where it goes, and what a failed delivery leaves."""

from __future__ import annotations

import json
from datetime import date

import pytest

from backfill_assets.lakehouse.records import Notice
from backfill_assets.publish.outbox import announce
from backfill_assets_tests.cli.command import Backfill

NOTICE = Notice(title="March is rebuilt", lines=("revenue -0.4 %",), reports=("fact_daily_revenue",))


@pytest.fixture
def due(backfill: Backfill) -> Backfill:
    """One announced, one of a publication."""
    announce(backfill.lakehouse.storage, "campaign-x.start", NOTICE)
    request = backfill.lakehouse.request("cut", {"bronze_sales": {date(2017, 3, 1): [1]}})
    backfill.lakehouse.publisher.publish(request.model_copy(update={"notice": NOTICE}))
    return backfill


def test_listed_sent_and_gone(due: Backfill) -> None:
    """With the log sender, a notice is printed."""
    assert [each["key"] for each in due.json("maintain", "--send-notices", "--dry-run")["due"]] == [
        "campaign-x.start",
        "cut",
    ]
    assert "revenue -0.4 %" in due("maintain", "--send-notices").output
    assert due.json("maintain", "--send-notices", "--dry-run")["due"] == []
    assert "No notice is due." in due("maintain", "--send-notices").output


def test_beside_json_the_notice_is_on_standard_error(due: Backfill) -> None:
    """It counts as delivered, so it has to be seen somewhere; standard output stays JSON."""
    result = due("maintain", "--send-notices", "--json")
    assert json.loads(result.stdout)["sent"] == ["campaign-x.start", "cut"]
    assert result.stderr.count("revenue -0.4 %") == 2


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
