"""Words that mean several tables, where a command takes them; refused in words where it does not."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets_tests.cli.command import Backfill, built_once

DAY = date(2017, 3, 1)
FACT = "fact_sales_transactions"


@built_once
def known(backfill: Backfill) -> None:
    backfill.lakehouse.publish("first", {"bronze_sales": {DAY: [1]}, FACT: {DAY: [1]}}, code="v0")


def test_status_and_run_take_selections(known: Backfill) -> None:
    assert {*known.statuses("stale:")} == {"bronze_sales", FACT}
    assert {*known.statuses("tag:weekly")} == {"report_store_ranking"}
    shown = known.json("run", f"{FACT}+", "--days", DAY, "--dry-run")["steps"]
    assert [each["table"] for each in shown][:2] == [FACT, "fact_daily_revenue"]


def test_a_plan_begins_at_one_table_and_a_plus_is_its_scope(known: Backfill) -> None:
    assert known.json("plan", f"+{FACT}", "--days", DAY, exit_code=1)["scope"] == "whole"
    assert known.json("plan", f"{FACT}+", "--days", DAY, exit_code=1)["scope"] == "onwards"
    said = known("plan", "stale:", "--days", DAY, exit_code=1).stderr
    assert "stale: means 2 tables, and a plan begins at one" in said and "backfill plan bronze_sales --days" in said
    assert "says the scope" in known("plan", f"+{FACT}", "--days", DAY, "--scope", "source", exit_code=2).stderr


@pytest.mark.parametrize("typed", [f"show +{FACT} {DAY}", f"history {FACT}+", "raw refresh tag:raw 2017-03-01"])
def test_where_one_table_is_meant_a_selection_is_refused_in_words(known: Backfill, typed: str) -> None:
    said = known(*typed.split(), exit_code=1).stderr
    assert "may mean several tables, and this is about one." in said and "backfill status, plan and run take" in said


def test_a_selection_of_nothing_says_so(backfill: Backfill) -> None:
    assert "none has a stale day" in backfill("status", "stale:", exit_code=1).stderr
