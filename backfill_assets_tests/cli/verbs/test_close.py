"""``backfill close`` and ``reopen``: days that nothing changes, who said so, and where one reads it."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.publish.closed_days import DaysClosed
from backfill_assets_tests.cli.command import Backfill, built_once

FIRST, LATER = date(2017, 3, 1), date(2017, 4, 1)
WHY = "the quarter is reported"


@built_once
def built(backfill: Backfill) -> None:
    for id, table in (("raw", "raw_sales"), ("bronze", "bronze_sales"), ("fact", "fact_sales_transactions")):
        backfill.lakehouse.publish(id, {table: {FIRST: [1], LATER: [1]}})


def test_a_month_is_closed_and_reopened_and_history_says_by_whom_and_why(
    built: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "36500")
    said = built.json("close", "2017-03", "--reason", WHY)
    assert (said["days"], said["tables"], said["reason"]) == ("2017-03-01..2017-03-31", "every table", WHY)
    assert said["next"] == ['backfill reopen 2017-03-01..2017-03-31 --reason "..."']
    built.lakehouse.publish("more", {"raw_sales": {FIRST: [2]}}, mode="append")
    with pytest.raises(DaysClosed, match=WHY):
        built.lakehouse.publish("again", {"fact_sales_transactions": {FIRST: [2], LATER: [2]}})
    refused = built("rollback", "fact", "--yes", exit_code=1).output
    assert "fact_sales_transactions 2017-03-01 is closed by" in refused and "-> backfill reopen 2017-03-01.." in refused
    assert "is closed by" in built("close", "2017-03-02", "--reason", "again", exit_code=1).output

    built.json("reopen", "2017-03", "fact_sales_transactions", "--reason", "a wrong rate")
    built.lakehouse.publish("again", {"fact_sales_transactions": {FIRST: [2]}})
    found = built.json("history", "--days", FIRST)["books"]
    assert [(each["what"], each["tables"], each["reason"]) for each in found] == [
        ("reopened", "fact_sales_transactions", "a wrong rate"),
        ("closed", "every table", WHY),
    ]
    assert "books" not in built.json("history", "--days", LATER)
    assert WHY in built("history").output
    assert "is not closed" in built("reopen", "2017-05", "--reason", "x", exit_code=1).output


def test_what_cannot_be_closed_says_what_can(built: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "takes rows in at any time" in built("close", "2017-03", "raw_sales", "--reason", WHY, exit_code=1).output
    assert "Why is not said." in built("close", "2017-03", "--reason", " ", exit_code=1).output
    assert "'2017-13' is not a day" in built("close", "2017-13", "--reason", WHY, exit_code=1).output
    monkeypatch.setenv("BACKFILL_APPROVAL_BY", "another-person")
    asked = built.json("close", "2017-03", "--reason", WHY)
    status = built("status").output
    assert "has asked to close 2017-03-01..2017-03-31 (31 days) of every table" in " ".join(status.split())
    assert asked["title"] == "Asked for" and "another person" in asked["notes"][0]["text"]
    assert "has asked for this already" in built("close", "2017-03", "--reason", WHY, exit_code=1).output
    built.lakehouse.publish("again", {"fact_sales_transactions": {FIRST: [2]}})


def test_status_says_which_days_are_closed_by_whom_and_why(built: Backfill) -> None:
    built("close", "2017-03", "--reason", WHY)
    built.lakehouse.publish("late", {"raw_sales": {FIRST: [2]}}, mode="append")
    found = built.json("status", "bronze_sales")
    (closed,) = found["closed"]
    assert (closed["which_days"], closed["tables"], closed["reason"]) == ("2017-03-01..2017-03-31", "every table", WHY)
    assert {each["status"] for each in found["tables"] if str(FIRST) in each["which_days"]} == {"closed"}
    days = {each["day"]: each.get("closed_by", "") for each in found["bronze_sales"]["days"]}
    assert days == {str(FIRST): closed["closed_by"], str(LATER): ""}
    assert "closed" not in built.json("status", "raw_sales")
    shown = built("show", "bronze_sales", FIRST).output
    assert WHY in shown and "backfill reopen 2017-03-01..2017-03-31" in shown
    assert built.json("show", "bronze_sales", FIRST)["status"] == "closed"
