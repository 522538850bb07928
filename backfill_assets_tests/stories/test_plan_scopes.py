"""Plans of two scopes carried out: with what is upstream, and of what is downstream only. Approved, and undone.

``test_refresh.py`` has the third one, whose source is read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from backfill_assets.days import DayRange
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.oracle import amount_eur
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import (
    DAYS,
    FACT,
    PERIODS,
    REPORTS,
    TABLES,
    changed,
    checksums,
    files,
)
from backfill_assets_tests.stories.staged_campaign import LATE_DAY as DAY
from backfill_assets_tests.workshop import Workshop

LATE = 3
REFERENCE = ("raw_fx_rates", "raw_products", "bronze_fx_rates", "bronze_products")
UPSTREAM = ("raw_sales", "bronze_sales", "quarantine_sales", *REFERENCE)


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


def publications(workshop: Workshop, *tables: str) -> dict[tuple[str, date], str]:
    """Equal only if nothing at all was published to them."""
    return {(table, day): state.publication for table in tables for day, state in workshop.states(table).items()}


def why(plan: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    return {step["table"][0]: step["why"] for step in plan["steps"] if step["why"]}


def test_with_the_source_it_takes_in_what_landed_and_the_undo_keeps_those_rows(
    wrong: Workshop, backfill: Backfill
) -> None:
    """Three lines of a day that were not ingested: in raw at once, in the reports when it is approved, and for good."""
    before, raw, others = checksums(wrong), files(wrong, "raw_sales"), publications(wrong, *REFERENCE)
    lines = len(published(wrong, DAY))
    land_lines(wrong.settings.landing, DAY, "late", LATE, first_basket=900_001)

    plan = backfill.json("plan", FACT, "--days", DAY, "--version", "v2", "--scope", "whole")

    assert plan["scope"] == "whole"
    assert why(plan) == {
        "raw_sales": {"landed and not taken in": [str(DAY)]},
        "bronze_sales": {"an input is rebuilt": [str(DAY)]},
        FACT: {"code changed": [str(DAY)]},
        **{table: {"an input is rebuilt": [str(PERIODS[table])]} for table in REPORTS},
    }

    staged = backfill.json("run", plan["plan"], "--limits", "deviation=50%")

    after = files(wrong, "raw_sales")
    assert {path: after[path] for path in raw} == raw, "raw is only appended to"
    assert len(wrong.read("raw_sales", DayRange.of(DAY))) == lines + LATE, "for everybody"
    assert {row["table"] for row in staged["days"]} == {"bronze_sales", "quarantine_sales", *TABLES}
    assert checksums(wrong) == before

    approved = backfill.json("approve", plan["plan"], "--yes")

    assert changed(before, checksums(wrong)) == {table: {day} for table, day in PERIODS.items()}
    assert len(published(wrong, DAY)) == lines + LATE
    assert published(wrong, DAY) == euros(wrong, DAY, days_back=0)
    brought = {wrong.states(table)[day].publication for table, day in {**PERIODS, "bronze_sales": DAY}.items()}
    assert brought == {approved["publication"]}
    assert publications(wrong, *REFERENCE) == others

    backfill("rollback", plan["plan"], "--yes")

    assert files(wrong, "raw_sales") == after, "what was taken in stays"
    assert published(wrong, DAY) == euros(wrong, DAY, days_back=1)
    assert len(published(wrong, DAY)) == lines + LATE, "the old logic, of the rows that there are"
    sessions = wrong.sessions
    wrong.build_all(DAYS, "v1")
    wrong.build_reports(DAYS)
    assert wrong.sessions == sessions, "nothing is stale"


def test_downstream_only_leaves_the_fact_alone_and_rebuilds_its_reports(wrong: Workshop, backfill: Backfill) -> None:
    """A person has built the fact of one day by the right logic, and its reports are still of the wrong one."""
    before = checksums(wrong)
    wrong.build(FACT, [DAY], "v2")
    untouched = publications(wrong, *UPSTREAM, FACT), {table: files(wrong, table) for table in (*UPSTREAM, FACT)}

    plan = backfill.json("plan", FACT, "--days", DAY, "--scope", "downstream")

    assert why(plan) == {table: {"input changed": [str(PERIODS[table])]} for table in REPORTS}
    assert plan["scope"] == "downstream" and "This scope fits" in plan["scope_that_fits"]
    assert {row["table"] for row in backfill.json("run", plan["plan"])["days"]} == set(REPORTS)
    assert changed(before, checksums(wrong)).keys() == {FACT}

    approved = backfill.json("approve", plan["plan"], "--yes")

    now = checksums(wrong)
    assert changed(before, now) == {table: {day} for table, day in PERIODS.items()}
    assert {row["table"] for row in approved["days"] if row["published"]} == set(REPORTS)
    revenue = wrong.read("fact_daily_revenue", DayRange.of(DAY))["revenue_eur"]
    assert sum(revenue) == sum(euros(wrong, DAY, days_back=0).values())
    sessions = wrong.sessions
    for table in REPORTS:
        assert all(each.reused for each in wrong.build(table, [PERIODS[table]]).days)
    assert wrong.sessions == sessions

    refused = backfill("rollback", plan["plan"], "--yes", exit_code=1)

    assert "the logic from before it gives the same rows" in refused.stderr
    assert checksums(wrong) == now, "a report is not put back beside a fact that it contradicts"
    assert (publications(wrong, *UPSTREAM, FACT), {t: files(wrong, t) for t in (*UPSTREAM, FACT)}) == untouched
