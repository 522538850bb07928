"""``backfill run``: what a person reads before anything is built, and how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from typing import Any

import click
import pytest

from backfill_assets import clock
from backfill_assets.answers.run import StepRan, ran_answer
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import LakehouseUnusable, SourceUnreadable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import Step
from backfill_assets.rebuild.lake import WAITING
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.two_versions import DAYS, FACT, REVENUE, publish_facts, publish_inputs

WEEK = "2017-03-01..2017-03-07"


def test_a_dry_run_shows_what_would_be_built_and_why(backfill: Backfill) -> None:
    """From the logs alone: nothing is created, not even the lakehouse."""
    (step,) = backfill.json("run", "report_monthly_close", "--days", WEEK, "--dry-run")["steps"]
    assert step == {
        "table": "report_monthly_close",
        "version": "v1",
        "periods": 1,
        "unchanged": [],
        "to_build": 1,
        "why": {"missing": ["2017-03-01"]},
        "earlier": [],
        "later": [],
    }
    assert not (backfill.home / "lakehouse" / "_publications").exists()


def test_downstream_reaches_the_published_days_that_look_back(backfill: Backfill) -> None:
    """A rate is used for a week: the later days that were built are built again; days never built stay out."""
    first = "2017-03-01"
    backfill.lakehouse.publish("rates", {"bronze_fx_rates": {date(2017, 3, 1): [1]}})
    backfill.lakehouse.publish(
        "facts", {"fact_sales_transactions": {date(2017, 3, n): [1] for n in (1, 8, 9)}}, code="v1"
    )
    asked, more = ("run", "bronze_fx_rates+", "--days", first, "--dry-run"), ("--version", "as published")
    steps = {step["table"]: step for step in backfill.json(*asked)["steps"]}
    later = "2017-03-08..2017-03-09"
    assert steps["fact_sales_transactions"]["later"] == [later], "the old logic looks back a day further"
    why = {"code changed": [first], "input changed": [later]}
    assert steps["fact_sales_transactions"]["why"] == why
    as_published = backfill.json(*asked, *more)["steps"]
    assert {"input changed": [first, later]} in [step["why"] for step in as_published], "no day is stale for its code"
    (alone,) = backfill.json("run", "bronze_fx_rates", *asked[2:])["steps"]
    assert alone["later"] == []


def test_upstream_brings_the_days_that_are_looked_back_to(backfill: Backfill) -> None:
    """A range that begins on a Sunday needs the rates of Friday; without them its days fail `rates_found`."""
    friday, sunday = "2017-03-03", "2017-03-05"
    rate = {"currency": "USD", "rate_day": friday, "rate": "1.05", "updated_at": f"{friday}T15:00:00Z"}
    land(backfill.home / "landing", "fx_rates", friday, "rates", [rate])
    land(backfill.home / "landing", "fx_rates", "2017-03-04", "rates", [])
    asked = ("run", "+fact_sales_transactions", "--days", f"{sunday}..2017-03-07", "--dry-run")
    steps = {step["table"]: step for step in backfill.json(*asked)["steps"]}
    assert {name: step["earlier"] for name, step in steps.items() if step["earlier"]} == {
        "raw_fx_rates": [f"{friday}..2017-03-04"],
        "bronze_fx_rates": [f"{friday}..2017-03-04"],
    }
    assert steps["raw_fx_rates"]["why"]["2 files to ingest"] == [f"{friday}..2017-03-04"]
    assert steps["bronze_fx_rates"]["periods"] == 5 and sunday not in steps["bronze_fx_rates"]["earlier"]
    (alone,) = backfill.json("run", "bronze_fx_rates", *asked[2:])["steps"]
    assert alone["earlier"] == []


def test_another_version_rebuilds_what_is_computed_from_it(backfill: Backfill) -> None:
    """Fresh as things stand, and to build when its turn comes: not zero days."""
    publish_inputs(backfill.lakehouse, "in", DAYS)
    publish_facts(backfill.lakehouse, "two", DAYS, "v2", 200)
    asked = ("run", f"{FACT}+", "--days", f"{DAYS[0]}..{DAYS[-1]}", "--dry-run")
    now = {step["table"]: step for step in backfill.json(*asked)["steps"]}
    every = [f"{DAYS[0]}..{DAYS[-1]}"]
    assert (now[REVENUE]["unchanged"], now[REVENUE]["why"]) == (every, {})
    other = {step["table"]: step for step in backfill.json(*asked, "--version", "v1")["steps"]}
    assert (other[REVENUE]["unchanged"], other[REVENUE]["why"]) == ([], {"an input is rebuilt": every})


TODAY = datetime.now(UTC).date()
PLAN = "plan-0123456789abcdef"


INVALID: Mapping[str, tuple[str, int, str]] = {
    "typo": (f"fact_daily_revenu --days {WEEK}", 1, "Did you mean fact_daily_revenue?"),
    "wrong way round": ("fact_daily_revenue --days 2017-03-07..2017-03-01", 1, f"Did you mean {WEEK}?"),
    "unknown version": (f"fact_daily_revenue --days {WEEK} --version v9", 2, "Versions: v1."),
    "today": (f"fact_daily_revenue --days 2017-03-01..{TODAY}", 1, "End them with yesterday"),
    "far future": (f"fact_daily_revenue --days {TODAY + timedelta(days=400)}", 1, "which is not over"),
    "no table": ("", 2, "TABLES"),
    "a range that was not named is not guessed": ("fact_daily_revenue", 2, "--days"),
    "a kept plan has its version": (f"{PLAN} --version v1", 2, "--version cannot be given with a plan"),
    "a kept plan has its days": (f"{PLAN} --days {WEEK}", 2, "--days cannot be given with a plan"),
    "a kept plan does not change": (f"{PLAN} --force", 2, "--force cannot be given with a plan"),
    "a table has no waves": (
        f"fact_daily_revenue --days {WEEK} --waves 100%",
        2,
        "--waves cannot be given with a table",
    ),
}


@pytest.mark.parametrize("request_", INVALID)
def test_an_invalid_request_is_refused_with_what_was_probably_meant(backfill: Backfill, request_: str) -> None:
    """Before Spark starts."""
    typed, exit_code, says = INVALID[request_]
    assert says in backfill("run", *typed.split(), exit_code=exit_code).stderr


def test_files_that_wait_are_reported_by_the_days_they_landed_on(backfill: Backfill) -> None:
    """Late rows of a day arrive on later days: a run of the one without the other would not count them."""
    for day in ("2017-03-01", "2017-03-06", "2017-04-08"):
        land(backfill.home / "landing", "sales", day, "late", [])
    plan = ("--days", "2017-03-01..2017-03-03", "--dry-run")
    told = backfill("run", "raw_sales", "bronze_sales", *plan).stdout
    assert "raw_sales: landed on 2017-03-06 and not ingested: 1 file" in told and "add --days 2017-03-06" in told
    told = backfill("run", "bronze_sales", *plan).stdout
    assert "first backfill run raw_sales --days 2017-03-01 --days 2017-03-06" in told


def test_the_table_counts_the_files_that_a_run_ingests(backfill: Backfill) -> None:
    """By the days they landed on; a raw table whose files are all ingested has nothing to do."""
    land(backfill.home / "landing", "sales", "2017-03-02", "first", [])
    asked = ("run", "raw_sales", "--days", "2017-03-02", "--dry-run")
    assert backfill.json(*asked)["steps"][0]["why"] == {"1 file to ingest": ["2017-03-02"]}
    backfill.lakehouse.publish("p1", {"raw_sales": {date(2017, 3, 2): [1]}})
    (landed,) = (backfill.home / "landing" / "sales" / "2017-03-02").iterdir()
    landed.unlink()
    assert "nothing new has landed" in backfill(*asked).stdout


def test_the_table_names_days_that_a_person_rolled_back(backfill: Backfill) -> None:
    """A run that builds them again undoes what that person did."""
    backfill.lakehouse.publish("p1", {"bronze_sales": {date(2017, 3, 1): [1], date(2017, 3, 2): [2]}})
    backfill.lakehouse.publish("p2", {"bronze_sales": {date(2017, 3, 2): [3]}})
    with clock.use(backfill.lakehouse.time):
        roll_back(backfill.lakehouse.publisher, "p2", id="undo", steps=CATALOG.steps)
    asked = ("run", "bronze_sales", "--days", "2017-03-01..2017-03-02", "--dry-run")
    told = backfill(*asked).stdout.replace("\n", " ")
    assert "rolled back on 2017-06-01 12:02:00Z by undo, would be built again: 2017-03-02" in told


def _built(table: str, day: date) -> BuiltDay:
    return BuiltDay(table, day, 1, "1", "p1", 1, "v1", reused=False, input_fingerprint="")


class _Builder:
    """Has no work, and says on standard error when it is asked."""

    def build(self, step: Step, days: Sequence[date], *, progress: Callable[[str], None], **_: object) -> BuildResult:
        click.echo(f"now {step.name} is built", err=True)
        progress("a chunk is done")
        progress(f"{WAITING}{step.name}: Spark computes a day, 60 s so far")
        return BuildResult(tuple(_built(table.name, day) for table in step.tables for day in days), ("p1",))


def use(monkeypatch: pytest.MonkeyPatch, builder: _Builder) -> None:
    monkeypatch.setattr("backfill_assets.cli.verbs.run.foreground_builder", lambda: nullcontext(builder))


def test_without_a_terminal_each_step_has_a_line_before_and_after_it(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error, with the time; standard output keeps the result, and stays JSON if that was asked for."""
    use(monkeypatch, _Builder())
    result = backfill("run", "fact_daily_revenue", "report_store_ranking", "--days", "2017-03-01..2017-03-02", "--json")
    lines = [re.sub(r"\d+\.\d s$", "? s", line) for line in result.stderr.splitlines()]
    assert [re.sub(r"^\d\d:\d\d:\d\dZ ", "AT ", line) for line in lines] == [
        "AT fact_daily_revenue: 2 days ...",
        "now fact_daily_revenue is built",
        "AT Waiting: fact_daily_revenue: Spark computes a day, 60 s so far",
        "AT fact_daily_revenue: 2 published, 0 unchanged, in ? s",
        "AT report_store_ranking: 1 week ...",
        "now report_store_ranking is built",
        "AT Waiting: report_store_ranking: Spark computes a day, 60 s so far",
        "AT report_store_ranking: 1 published, 0 unchanged, in ? s",
    ]
    assert [step["table"] for step in json.loads(result.stdout)["steps"]] == [
        "fact_daily_revenue",
        "report_store_ranking",
    ]


def test_what_does_not_read_a_failed_table_is_built(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates that have not landed keep no sale out: all that is made of them is left out, and the run fails.

    Spark or Java that does not work is not tried again for each table.
    """
    asked: list[str] = []
    error: Exception = SourceUnreadable("The landing zone has no folder 'fx_rates'.", hint="Land them.")

    class WithoutRates(_Builder):
        def build(self, step: Step, days: Sequence[date], **more: Any) -> BuildResult:
            asked.append(step.name)
            if step.name == "raw_fx_rates":
                raise error
            return super().build(step, days, **more)

    use(monkeypatch, WithoutRates())
    failed = backfill("run", "+fact_daily_revenue", "--days", "2017-03-01", exit_code=1)
    assert asked == ["raw_fx_rates", "raw_sales", "bronze_sales"]
    assert "raw_fx_rates: failed, the tables that do not read it go on" in failed.stderr
    assert "fact_sales_transactions: left out, it reads bronze_fx_rates" in failed.stderr
    assert failed.stderr.endswith("Error: The landing zone has no folder 'fx_rates'.\n  -> Land them.\n")
    assert "bronze_sales" in failed.stdout
    asked.clear()
    error = LakehouseUnusable("Java is not there.")
    backfill("run", "+fact_daily_revenue", "--days", "2017-03-01", exit_code=1)
    assert len(asked) == 1


def test_a_landing_zone_that_cannot_be_listed_is_reported_and_stops_nothing(backfill: Backfill) -> None:
    """What a table is built from is in the lakehouse; what has landed is only news about it."""
    (backfill.home / "landing" / "sales").mkdir(parents=True)
    (backfill.home / "landing" / "sales" / "2017-03-01").symlink_to(backfill.home.parent)
    told = backfill("run", "bronze_sales", "--days", WEEK, "--dry-run").stdout
    assert "raw_sales: sales/2017-03-01 is a link that leads out of the landing zone." in told


def test_the_summary_says_how_many_rows_were_deduplicated() -> None:
    """Where the step counts them."""
    days = [
        BuiltDay("bronze_sales", date(2017, 3, n), 10, "0", "p", 1, "v1", False, "", metrics={"deduplicated": n})
        for n in (1, 2)
    ]
    revenue_day = BuiltDay("fact_daily_revenue", date(2017, 3, 1), 4, "0", "p", 1, "v1", False, "")
    ran = [
        StepRan("bronze_sales", BuildResult(tuple(days), ("p",)), 1.0),
        StepRan("fact_daily_revenue", BuildResult((revenue_day,)), 1.0),
    ]
    assert [row["deduplicated"] for row in ran_answer(ran, {}).as_json()["steps"]] == [3, None]


def test_a_look_back_is_followed_for_all_tables_of_a_run_or_for_none(backfill: Backfill) -> None:
    refused = backfill("run", "+bronze_sales", "fact_daily_revenue", "--days", "2017-03-01", exit_code=2)
    assert "A + is for each table of a run, or for none" in refused.stderr
