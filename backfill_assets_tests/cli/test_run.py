"""``backfill run``: what a person is told before anything is built, and how it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets_tests.cli.command import Backfill

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
