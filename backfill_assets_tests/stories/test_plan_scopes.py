"""Plans of each scope carried out: with what is upstream, and of what is downstream only. Approved, and undone."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets.days import Cadence, DayRange
from backfill_assets_tests.cli.command import work_with
from backfill_assets_tests.oracle import amount_eur
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, REPORTS, TABLES
from backfill_assets_tests.workshop import Workshop

DAY = date(2017, 3, 7)
WEEK, MONTH = Cadence.WEEKLY.period(DAY).first, Cadence.MONTHLY.period(DAY).first
LATE = 3
PERIODS = {
    FACT: DAY,
    "fact_daily_revenue": DAY,
    "report_department_revenue": DAY,
    "report_store_ranking": WEEK,
    "report_monthly_close": MONTH,
}
Checksums = dict[str, dict[date, str]]


@pytest.fixture
def told(wrong: Workshop, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command on the lakehouse and gives back what it says as JSON."""
    monkeypatch.setenv("BACKFILL_HOME", str(wrong.settings.home))
    work_with(monkeypatch, wrong)

    def run(*words: str) -> dict[str, Any]:
        result = CliRunner().invoke(main, [*words, "--json"])
        assert result.exit_code == 0, result.output + result.stderr
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    return run


def checksums(workshop: Workshop) -> Checksums:
    return {
        table: {day: state.content.checksum for day, state in workshop.states(table).items() if state.content}
        for table in TABLES
    }


def changed(before: Checksums, after: Checksums) -> dict[str, set[date]]:
    found = {
        table: {day for day, checksum in days.items() if before[table].get(day) != checksum}
        for table, days in after.items()
    }
    return {table: days for table, days in found.items() if days}


def euros(workshop: Workshop, day: date, *, days_back: int) -> dict[str, Decimal]:
    """The amount in euros of each line that bronze has of ``day``, by the newest rate that is so many days old."""
    rates: dict[str, Decimal] = {"EUR": Decimal(1)}
    until = day - timedelta(days=days_back)
    table = workshop.read("bronze_fx_rates", DayRange(until - timedelta(days=7), until)).sort_values("day")
    rates |= dict(zip(table["currency"], table["rate"], strict=True))
    lines = workshop.read("bronze_sales", DayRange.of(day))
    return {
        line: amount_eur(value, rates[currency])
        for line, value, currency in zip(lines["transaction_id"], lines["sales_value"], lines["currency"], strict=True)
    }


def published(workshop: Workshop, day: date) -> dict[str, Decimal]:
    fact = workshop.read(FACT, DayRange.of(day))
    return dict(zip(fact["transaction_id"], fact["amount_eur"], strict=True))


def test_with_the_source_it_takes_in_what_landed_and_the_undo_keeps_those_rows(wrong: Workshop, told: Any) -> None:
    """Three lines of a day that were not ingested: in raw at once, in the reports when it is approved, and for good."""
    before = checksums(wrong)
    lines = len(published(wrong, DAY))
    land_lines(wrong.settings.landing, DAY, "late", LATE, first_basket=900_001)

    plan = told("plan", FACT, "--days", str(DAY), "--version", "v2", "--scope", "whole")

    assert {step["table"][0]: step["why"] for step in plan["steps"] if step["why"]} == {
        "raw_sales": {"landed and not taken in": [str(DAY)]},
        "bronze_sales": {"an input is rebuilt": [str(DAY)]},
        FACT: {"code changed": [str(DAY)]},
        **{table: {"an input is rebuilt": [str(PERIODS[table])]} for table in REPORTS},
    }

    staged = told("run", plan["plan"], "--limits", "deviation=50%")

    assert len(wrong.read("raw_sales", DayRange.of(DAY))) == lines + LATE, "raw is appended to for everybody"
    assert {row["table"] for row in staged["days"]} == {"bronze_sales", "quarantine_sales", *TABLES}
    assert checksums(wrong) == before

    approved = told("approve", plan["plan"], "--yes")

    assert changed(before, checksums(wrong)) == {table: {day} for table, day in PERIODS.items()}
    assert len(published(wrong, DAY)) == lines + LATE
    assert published(wrong, DAY) == euros(wrong, DAY, days_back=0)
    publications = {wrong.states(table)[day].publication for table, day in {**PERIODS, "bronze_sales": DAY}.items()}
    assert publications == {approved["publication"]}

    told("rollback", plan["plan"], "--yes")

    assert published(wrong, DAY) == euros(wrong, DAY, days_back=1)
    assert len(published(wrong, DAY)) == lines + LATE, "the old logic, of the rows that there are"
    sessions = wrong.sessions
    wrong.build_all(DAYS, "v1")
    wrong.build_reports(DAYS)
    assert wrong.sessions == sessions, "nothing is stale"


def test_downstream_only_leaves_the_fact_alone_and_rebuilds_its_reports(wrong: Workshop, told: Any) -> None:
    """A person has built the fact of one day by the right logic, and its reports are still of the wrong one."""
    before = checksums(wrong)
    wrong.build(FACT, [DAY], "v2")
    fact = {day: (state.publication, state.physical) for day, state in wrong.states(FACT).items()}

    plan = told("plan", FACT, "--days", str(DAY), "--scope", "downstream")

    assert {step["table"][0]: step["why"] for step in plan["steps"] if step["why"]} == {
        table: {"input changed": [str(PERIODS[table])]} for table in REPORTS
    }
    assert plan["scope"] == "downstream" and "This scope fits" in plan["scope_that_fits"]

    staged = told("run", plan["plan"])

    assert {row["table"] for row in staged["days"]} == set(REPORTS)

    approved = told("approve", plan["plan"], "--yes")

    now = checksums(wrong)
    assert changed(before, now) == {table: {day} for table, day in PERIODS.items()}
    assert {row["table"] for row in approved["days"] if row["published"]} == set(REPORTS)
    assert {day: (state.publication, state.physical) for day, state in wrong.states(FACT).items()} == fact
    revenue = wrong.read("fact_daily_revenue", DayRange.of(DAY))["revenue_eur"]
    assert sum(revenue) == sum(euros(wrong, DAY, days_back=0).values())
    sessions = wrong.sessions
    for table in REPORTS:
        assert all(each.reused for each in wrong.build(table, [PERIODS[table]]).days)
    assert wrong.sessions == sessions

    refused = CliRunner().invoke(main, ["rollback", plan["plan"], "--yes"])

    assert refused.exit_code == 1 and "the logic from before it gives the same rows" in refused.stderr
    assert checksums(wrong) == now, "a report is not put back beside a fact that it contradicts"
    assert {day: (state.publication, state.physical) for day, state in wrong.states(FACT).items()} == fact
