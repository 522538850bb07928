"""``backfill run``: what a person is told before anything is built, and how it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.backfill.campaign_course import STEPS, CampaignStep
from backfill_assets.cli.run import _STEPS
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.strategies.landed_sales import land

WEEK = "2017-03-01..2017-03-07"


def test_a_dry_run_tells_what_would_be_built_and_why(backfill: Backfill) -> None:
    """From the logs alone: nothing is created, not even the lakehouse."""
    told = backfill("run", "fact_sales_transactions", "--downstream", "--days", WEEK, "--dry-run")
    for words in ("fact_sales_transactions", "report_store_ranking", "missing: 2017-02-27, 2017-03-06"):
        assert words in told.stdout
    plan = backfill.json("run", "report_monthly_close", "--days", WEEK, "--dry-run")
    (step,) = plan["steps"]
    assert step == {
        "step": "report_monthly_close",
        "cadence": "monthly",
        "days": {"2017-03-01": "missing"},
        "unchanged": [],
    }
    assert not (backfill.home / "lakehouse" / "_publications").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fact_daily_revenu", "--days", WEEK], "Did you mean fact_daily_revenue?"),
        (["fact_daily_revenue", "--days", "2017-03-07..2017-03-01"], "Did you mean 2017-03-01..2017-03-07?"),
        (["fact_daily_revenue", "--days", WEEK, "--version", "v9"], "Versions: v1."),
        (["fact_daily_revenue", "--days", f"2017-03-01..{datetime.now(UTC).date()}"], "End them with yesterday"),
        (["fact_daily_revenue", "--days", f"{datetime.now(UTC).date() + timedelta(days=400)}"], "which is not over"),
    ],
    ids=["typo", "wrong way round", "unknown version", "today", "far future"],
)
def test_what_cannot_be_meant_is_refused_with_what_was_probably_meant(
    backfill: Backfill, words: list[str], says: str
) -> None:
    """Before Spark starts, and with exit code 1."""
    assert says in backfill("run", *words, exit_code=1).stderr


def test_tables_and_days_have_to_be_given(backfill: Backfill) -> None:
    """A range that nobody named is not guessed."""
    assert "TABLES" in backfill("run", exit_code=2).stderr
    assert "--days" in backfill("run", "fact_daily_revenue", exit_code=2).stderr


def test_files_that_wait_are_told_by_the_days_they_landed_on(backfill: Backfill) -> None:
    """Late rows of a day arrive on later days: whoever runs the one and not the other would not see them counted."""
    for day in ("2017-03-01", "2017-03-06", "2017-04-08"):
        land(backfill.home / "landing", "sales", day, "late", [])
    plan = ("--days", "2017-03-01..2017-03-03", "--dry-run")
    told = backfill("run", "raw_sales", "bronze_sales", *plan).stdout
    assert "raw_sales: landed on 2017-03-06 and not taken in: 1 file(s)" in told and "add --days 2017-03-06" in told
    told = backfill("run", "bronze_sales", *plan).stdout
    assert "first backfill run raw_sales --days 2017-03-01 --days 2017-03-06" in told
    assert backfill.json("run", "raw_sales", *plan)["not_taken_in"] == [
        {"table": "raw_sales", "files": {"2017-03-06": 1}, "problem": ""}
    ]


def test_a_landing_zone_that_cannot_be_listed_is_told_and_stops_nothing(backfill: Backfill) -> None:
    """What a table is built from is in the lakehouse; what has landed is only news about it."""
    (backfill.home / "landing" / "sales" / "notes").mkdir(parents=True)
    told = backfill("run", "bronze_sales", "--days", WEEK, "--dry-run").stdout
    assert "raw_sales: sales/notes is not the folder of a day." in told


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["plan-0123456789abcdef", "--version", "v1"], "--version cannot be given with a plan"),
        (["plan-0123456789abcdef", "--days", WEEK], "--days cannot be given with a plan"),
        (["plan-0123456789abcdef", "--force"], "--force cannot be given with a plan"),
        (["fact_daily_revenue", "--days", WEEK, "--waves", "100%"], "--waves cannot be given with a table"),
        (["fact_daily_revenue", "--days", WEEK, "--from", "validated"], "--from cannot be given with a table"),
    ],
)
def test_what_would_be_ignored_is_refused(backfill: Backfill, words: list[str], option: str) -> None:
    """A kept plan does not change, and a table has no waves."""
    assert option in backfill("run", *words, exit_code=2).stderr


def test_the_steps_that_a_plan_can_begin_again_at_are_those_of_a_campaign() -> None:
    """They are written down for the help; cutting over needs an approval, and decommissioning its time."""
    others = {CampaignStep.CUT_OVER, CampaignStep.DECOMMISSION}
    assert list(_STEPS) == [step.value for step in STEPS if step not in others]
