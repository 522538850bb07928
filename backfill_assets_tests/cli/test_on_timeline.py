"""``--on NAME``: what a person reads of days on a timeline, and what is refused before anything is built."""

from __future__ import annotations

from datetime import date

from backfill_assets_tests.cli.command import Backfill, built_once

RAW, BRONZE, REVENUE = "raw_sales", "bronze_sales", "fact_daily_revenue"
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)
DAYS = f"{FIRST}..{SECOND}"


@built_once
def placed(backfill: Backfill) -> None:
    """Two days of raw, one of bronze. ``then`` has the state of then; main has another row since."""
    backfill.lakehouse.publish("raw", {RAW: {FIRST: [1], SECOND: [2]}})
    backfill.publish_bronze("bronze", FIRST, 1)
    backfill("timeline", "create", "then", "--at", "bronze")
    backfill.lakehouse.publish("late", {RAW: {FIRST: [1, 7]}})


def test_statuses_are_those_of_the_timeline_and_days_of_its_own_are_named(placed: Backfill) -> None:
    assert placed.statuses()[BRONZE] == {"missing": [str(SECOND)], "stale: late rows": [str(FIRST)]}
    one = placed.json("status", BRONZE, "--on", "then")
    assert (one["timeline"], one["as_of_entry"]) == ("then", 4)
    bronze = {row["status"]: (row["which_days"], row["of_its_own"]) for row in one["tables"] if row["table"] == BRONZE}
    assert bronze == {"missing": ([str(SECOND)], []), "fresh": ([str(FIRST)], [])}
    assert [row["publication"] for row in one[BRONZE]["days"] if row["day"] == str(FIRST)] == ["bronze"]
    placed("timeline", "rewind", BRONZE, "--to", "bronze", "--days", FIRST, "--as", "back")
    (row,) = [row for row in placed.json("status", BRONZE, "--on", "back")["tables"] if row["of_its_own"]]
    assert (row["status"], row["of_its_own"]) == ("stale: late rows", [str(FIRST)]), "raw is read as of its base"
    assert "of its own" in placed("status", BRONZE, "--on", "back").output


def test_a_run_plans_by_the_timeline_and_unchanged_days_start_no_spark(placed: Backfill) -> None:
    asked = ("run", f"+{REVENUE}", "--days", DAYS, "--on", "then", "--dry-run")
    found = placed.json(*asked)
    steps = {step["table"]: step for step in found["steps"]}
    assert (steps[BRONZE]["unchanged"], steps[BRONZE]["why"]) == ([str(FIRST)], {"missing": [str(SECOND)]})
    assert RAW not in steps and found["timeline"] == "then" and "revision" not in found
    assert f"{RAW} is left out: raw is shared" in placed(*asked).output
    done = placed.json("run", BRONZE, "--days", FIRST, "--on", "then")
    assert done["steps"][0]["kept"] == [str(FIRST)] and done["revision"] == 0 and "stale" not in done
    assert done["next"] == ["backfill run TABLE --days A..B --on then"], "it has no day of its own"


def test_a_run_names_the_days_that_were_computed_from_others_than_the_timeline_shows(placed: Backfill) -> None:
    """It builds the second day alone: the first one is bronze of then, beside raw of now."""
    placed.publish_bronze("second", SECOND, 2)
    placed("timeline", "rewind", BRONZE, "--to", "bronze", "--days", FIRST, "--as", "back")
    found = placed.json("run", BRONZE, "--days", SECOND, "--on", "back")
    assert found["steps"][0]["kept"] == [str(SECOND)]
    why = f"was computed from other days of {RAW} than the timeline shows"
    stale = [{"table": table, "days": [str(FIRST)], "why": why} for table in (BRONZE, "quarantine_sales")]
    assert found["stale"] == stale and found["next"][0] == "backfill timeline forward back"


def test_what_cannot_be_done_on_a_timeline_is_refused(placed: Backfill) -> None:
    refused = placed("run", RAW, "--days", DAYS, "--on", "then", exit_code=1).stderr
    assert "raw is only ever appended to, and is shared" in refused and "backfill timeline forward then" in refused
    assert "--verify" in placed("run", BRONZE, "--days", DAYS, "--on", "then", "--verify", exit_code=2).stderr
    assert "--on" in placed("run", "plan-0123456789abcdef", "--on", "then", exit_code=2).stderr
    for typed in (("run", BRONZE, "--days", DAYS), ("status",)):
        assert "There is no timeline" in placed(*typed, "--on", "x", exit_code=1).stderr
