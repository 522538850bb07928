"""One bad day in a campaign: it stays as it was, the others are replaced together, fixing it is one day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.plan.records import days_of
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stories.staged_campaign import (
    DAYS,
    FACT,
    LATE_DAY,
    PERIODS,
    TABLES,
    WEEKEND,
    checksums,
    land_of_currency,
)
from backfill_assets_tests.workshop import Workshop

Days = Mapping[str, set[date]]
"""By table; of weekly and monthly tables the first days of their periods."""
OF_PERIODS = {"report_store_ranking", "report_monthly_close"}


def periods(days: Iterable[date]) -> Days:
    """``days``, and all that is made of them."""
    found = set(days)
    return {table: {CATALOG.step(table).cadence.start(day) for day in found} for table in TABLES}


PLANNED: Days = periods(DAYS)
BAD: Days = {table: {day} for table, day in PERIODS.items()}
GOOD: Days = {table: PLANNED[table] - BAD[table] for table in TABLES}
BROUGHT: Days = {
    table: days - (set(WEEKEND) if table != FACT and table not in OF_PERIODS else set()) for table, days in GOOD.items()
}
"""All good days of facts; of reports those whose facts differ."""
NOTHING: Days = {table: set() for table in TABLES}


def what_is(found: Iterable[Mapping[str, Any]], *what: str) -> Days:
    """Of what `status` says of a campaign's days, table by table."""
    return {row["table"]: {*days_of(each for name in what for each in row[name])} for row in found}


def plan(backfill: Backfill) -> tuple[str, Days]:
    """The same words each time; returns its id, and the days that it rebuilds."""
    found = backfill.json("plan", FACT, "--days", DAYS, "--version", "v2")
    return found["plan"], {
        step["table"][0]: {*days_of(each for ranges in step["why"].values() for each in ranges)}
        for step in found["steps"]
    }


def published_by(workshop: Workshop, publication: str) -> Days:
    return {
        table: {day for day, state in workshop.states(table).items() if state.publication == publication}
        for table in TABLES
    }


def statuses(backfill: Backfill) -> set[tuple[str, str]]:
    """Tables and days that are not fresh."""
    found = backfill.statuses("--days", DAYS)
    return {(table, status) for table in TABLES for status, days in found[table].items() if days and status != "fresh"}


def test_a_bad_day_stays_as_it_was_until_it_is_fixed_and_is_then_all_that_is_rebuilt(
    wrong: Workshop, backfill: Backfill
) -> None:
    """A line that cannot be turned into euros: what is published is what the plan named, but its day and periods."""
    land_of_currency(wrong, "XTS")
    old = checksums(wrong)
    first, planned = plan(backfill)
    assert planned == PLANNED
    shown = backfill.json("run", first, "--waves", "100%")
    assert shown["waits"] == "it waits for approval"
    (of_fact,) = [line for line in shown["held_back"] if line.startswith(f"{FACT} {LATE_DAY}: ")]
    assert "rates_found" in of_fact and "few_nulls_amount_eur" in of_fact
    assert len(shown["held_back"]) == len(TABLES)
    assert all(f"{FACT} {LATE_DAY}" in line for line in shown["held_back"])
    under_way = backfill.json("status")[first.replace("-", "_")]["days"]
    assert what_is(under_way, "staged") == BROUGHT
    assert what_is(under_way, "staged", "unchanged") == GOOD
    assert what_is(under_way, "held_back") == BAD
    assert what_is(under_way, "left") == what_is(under_way, "published") == NOTHING

    refused = backfill("approve", first, "--yes", exit_code=1)
    assert f"{FACT} {LATE_DAY}: rates_found" in refused.stderr and "--without-held-back" in refused.stderr
    assert checksums(wrong) == old

    approved = backfill.json("approve", first, "--without-held-back", "--yes")
    assert what_is(approved["days"], "published") == published_by(wrong, approved["publication"]) == BROUGHT
    now = checksums(wrong)
    assert {table: now[table][day] for table, day in PERIODS.items()} == {
        table: old[table][day] for table, day in PERIODS.items()
    }
    assert statuses(backfill) == {
        (FACT, "stale: code changed"),
        *((table, "stale: input changed") for table in OF_PERIODS),
    }

    land_of_currency(wrong, "USD", updated_at="2017-03-20T08:00:00Z")
    second, planned = plan(backfill)
    assert planned == BAD
    assert backfill.json("run", second, "--limits", "deviation=50%")["held_back"] == []
    approved = backfill.json("approve", second, "--yes")
    assert published_by(wrong, approved["publication"]) == BAD
    assert statuses(backfill) == set()
    mended = checksums(wrong)

    # The first campaign takes back what it brought, not the day that the second one fixed; its week and its month
    # read what is taken back, and follow, although another campaign brought them. It can come back.
    asked = backfill.json("rollback", first, "--dry-run")["days"]
    again = {each["table"]: each["which_days"] for each in asked if each["what"] == "stage again"}
    assert again == {table: [str(PERIODS[table])] for table in OF_PERIODS}
    undone = backfill.json("rollback", first, "--yes")
    following = {table: days | (BAD[table] if table in OF_PERIODS else set()) for table, days in BROUGHT.items()}
    assert published_by(wrong, undone["publication"]) == following
    assert checksums(wrong)[FACT] == {**old[FACT], LATE_DAY: mended[FACT][LATE_DAY]}
    backfill("rollback", undone["publication"], "--yes")
    assert checksums(wrong) == mended
    assert statuses(backfill) == set()
