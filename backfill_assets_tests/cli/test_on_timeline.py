"""``--on NAME``: what a person reads of days on a timeline, and what is refused before anything is built."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.rebuild import decide
from backfill_assets_tests.cli.command import Backfill

RAW, BRONZE, REVENUE = "raw_sales", "bronze_sales", "fact_daily_revenue"
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)
DAYS = f"{FIRST}..{SECOND}"


@pytest.fixture
def placed(backfill: Backfill) -> Backfill:
    """Two days of raw, one of bronze. ``then`` has the state of then; main has another row since."""
    backfill.lakehouse.publish("raw", {RAW: {FIRST: [1], SECOND: [2]}})
    step = CATALOG.step(BRONZE)
    inputs = decide.wanted(step, step.version(), [FIRST], {RAW: {FIRST: "1:1"}})[FIRST].inputs
    rows = {BRONZE: {FIRST: [1]}, "quarantine_sales": {FIRST: [1]}}
    backfill.lakehouse.publish("bronze", rows, code=step.current, inputs={FIRST: inputs})
    backfill("timeline", "create", "then", "--at", "bronze")
    backfill.lakehouse.publish("late", {RAW: {FIRST: [1, 7]}})
    return backfill


def by_status(backfill: Backfill, table: str, *on: str) -> dict[str, list[str]]:
    return backfill.statuses(*on)[table]


def test_statuses_are_those_of_the_timeline(placed: Backfill) -> None:
    assert by_status(placed, BRONZE) == {"missing": [str(SECOND)], "stale: input changed": [str(FIRST)]}
    assert by_status(placed, BRONZE, "--on", "then") == {"missing": [str(SECOND)], "fresh": [str(FIRST)]}
    one = placed.json("status", BRONZE, "--on", "then")
    assert (one["timeline"], one["as_of_entry"]) == ("then", 4)
    assert [row["of_its_own"] for row in one["tables"] if row["table"] == BRONZE] == [[], []]
    assert [row["publication"] for row in one[BRONZE]["days"] if row["day"] == str(FIRST)] == ["bronze"]
    assert "There is no timeline" in placed("status", "--on", "elsewhere", exit_code=1).stderr


def test_days_of_its_own_are_named(placed: Backfill) -> None:
    placed("timeline", "rewind", BRONZE, "--to", "bronze", "--days", FIRST, "--as", "back")
    (row,) = [row for row in placed.json("status", BRONZE, "--on", "back")["tables"] if row["of_its_own"]]
    assert (row["status"], row["of_its_own"]) == ("stale: input changed", [str(FIRST)]), "raw is read as of its base"
    assert "of its own" in placed("status", BRONZE, "--on", "back").output


def test_a_dry_run_plans_by_the_timeline(placed: Backfill) -> None:
    asked = ("run", REVENUE, "--upstream", "--days", DAYS, "--on", "then", "--dry-run")
    found = placed.json(*asked)
    steps = {step["table"]: step for step in found["steps"]}
    assert (steps[BRONZE]["unchanged"], steps[BRONZE]["why"]) == ([str(FIRST)], {"missing": [str(SECOND)]})
    assert RAW not in steps and found["timeline"] == "then" and "revision" not in found
    assert f"{RAW} is left out: raw is shared" in placed(*asked).output


def test_unchanged_days_start_no_spark(placed: Backfill) -> None:
    done = placed.json("run", BRONZE, "--days", FIRST, "--on", "then")
    assert done["steps"][0]["kept"] == [str(FIRST)] and done["revision"] == 0 and "stale" not in done
    assert done["next"] == ["backfill run TABLE --days A..B --on then"], "it has no day of its own"
    assert "Nothing was computed" in placed("run", BRONZE, "--days", FIRST, "--on", "then").output


def test_a_run_names_the_days_that_were_computed_from_others_than_the_timeline_shows(placed: Backfill) -> None:
    """It builds the second day alone: the first one is bronze of then, beside raw of now."""
    step = CATALOG.step(BRONZE)
    inputs = {SECOND: decide.wanted(step, step.version(), [SECOND], {RAW: {SECOND: "1:2"}})[SECOND].inputs}
    rows: dict[str, dict[date, list[int]]] = {BRONZE: {SECOND: [2]}, "quarantine_sales": {SECOND: []}}
    placed.lakehouse.publish("second", rows, code=step.current, inputs=inputs)
    placed("timeline", "rewind", BRONZE, "--to", "bronze", "--days", FIRST, "--as", "back")
    typed = ("run", BRONZE, "--days", SECOND, "--on", "back")
    why = f"was computed from other days of {RAW} than the timeline shows"
    found = placed.json(*typed)
    assert found["steps"][0]["kept"] == [str(SECOND)]
    stale = [{"table": table, "days": [str(FIRST)], "why": why} for table in (BRONZE, "quarantine_sales")]
    assert found["stale"] == stale and found["next"][0] == "backfill timeline forward back"


def test_what_cannot_be_done_on_a_timeline_is_refused(placed: Backfill) -> None:
    refused = placed("run", RAW, "--days", DAYS, "--on", "then", exit_code=1).stderr
    assert "raw is only ever appended to, and is shared" in refused and "backfill timeline forward then" in refused
    assert "--verify" in placed("run", BRONZE, "--days", DAYS, "--on", "then", "--verify", exit_code=2).stderr
    assert "--on" in placed("run", "plan-0123456789abcdef", "--on", "then", exit_code=2).stderr
    assert "There is no timeline" in placed("run", BRONZE, "--days", DAYS, "--on", "x", exit_code=1).stderr
