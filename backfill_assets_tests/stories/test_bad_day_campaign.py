"""One bad day of ninety, in a campaign: it stays as it was, the others are replaced together, fixing it is one day."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli import main
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.sales_line import FIELDS, sound_rows
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.plan.records import days_of
from backfill_assets_tests import oracle
from backfill_assets_tests.stories.conftest import NINETY_DAYS
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import FACT, TABLES
from backfill_assets_tests.workshop import Workshop

BAD_DAY = date(2017, 4, 10)
ROWS, SEED = 18, 90
MEASURES = {FACT: "amount_eur"} | dict.fromkeys(TABLES[1:], "revenue_eur")

Days = Mapping[str, set[date]]
"""By table; of weekly and monthly tables the first days of their periods."""
Sums = Mapping[date, Decimal]
"""Of each day's facts, in euros."""


def periods(days: Iterable[date]) -> Days:
    """``days``, and all that is made of them."""
    found = set(days)
    return {table: {CATALOG.step(table).cadence.start(day) for day in found} for table in TABLES}


PLANNED, BAD = periods(NINETY_DAYS), periods([BAD_DAY])
GOOD = {table: PLANNED[table] - BAD[table] for table in TABLES}
NOTHING: Days = {table: set() for table in TABLES}
ALL_FRESH = {table: {"fresh": len(PLANNED[table])} for table in TABLES}
OLD_IN_BAD_PERIODS = {
    "report_store_ranking": {"fresh": 13, "stale: input changed": 1},
    "report_monthly_close": {"fresh": 2, "stale: input changed": 1},
}


@cache
def sold(day: date) -> list[dict[str, str]]:
    """What landed of ``day``, without the line that makes it a bad one."""
    return [dict(zip(FIELDS, row, strict=True)) for row in sound_rows(day, ROWS, SEED)]


def one_more(**changes: str) -> dict[str, str]:
    """A line in a basket of its own, from a shop and of a product that the bad day has: no report gets another row."""
    first = sold(BAD_DAY)[0]
    same = {name: first[name] for name in ("store_id", "product_id")}
    return {**same, "basket_id": "777", "quantity": "1", "sales_value": "1.00", **changes}


def in_euros(line: Mapping[str, str], day: date) -> Decimal:
    return oracle.amount_eur(Decimal(line["sales_value"]), oracle.rate_as_of(day, line["currency"]))


def sums_by(version: oracle.Version) -> dict[date, Decimal]:
    """Computed apart from the code: ``v1`` takes the rate of the day before."""
    back = timedelta(days=version == "v1")
    return {day: sum((in_euros(line, day - back) for line in sold(day)), Decimal(0)) for day in NINETY_DAYS}


BROKEN = one_more(currency="XTS")
"""There is no such currency, and so no rate of it."""
MENDED = one_more(currency="USD", updated_at="2017-04-11T08:00:00Z")
OLD, NEW = sums_by("v1"), sums_by("v2")
NEW_BUT_ONE = {**NEW, BAD_DAY: OLD[BAD_DAY]}
NEW_AND_MENDED = {**NEW, BAD_DAY: NEW[BAD_DAY] + in_euros(MENDED, BAD_DAY)}


def brought_by_the_first() -> Days:
    """All good days of facts; of reports those whose facts differ.

    That is where a rate was published on the day itself, unless all is sold in euros.
    """
    with_rates = {day for day in NINETY_DAYS if day in oracle.published_rates()}
    moved = periods(day for day in with_rates if {line["currency"] for line in sold(day)} != {"EUR"})
    return {FACT: GOOD[FACT]} | {table: moved[table] - BAD[table] for table in TABLES[1:]}


BROUGHT = brought_by_the_first()


def backfill(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def told(*words: str) -> Any:
    result = backfill(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def plan() -> tuple[str, Days]:
    """The same words each time; returns its id, and the days that it rebuilds."""
    found = told("plan", FACT, "--days", str(NINETY_DAYS), "--version", "v2")
    return found["plan"], {
        step["table"][0]: {*days_of(each for ranges in step["why"].values() for each in ranges)}
        for step in found["steps"]
    }


def statuses() -> dict[str, dict[str, int]]:
    """How many days have which status, by table."""
    tables = told("status", "--days", str(NINETY_DAYS))["tables"]
    return {
        table: {row["status"]: row["days"] for row in tables if row["table"] == table and row["days"]}
        for table in TABLES
    }


def what_is(found: Iterable[Mapping[str, Any]], *what: str) -> Days:
    """Of what `status` says of a campaign's days, table by table."""
    return {row["table"]: {*days_of(each for name in what for each in row[name])} for row in found}


class Story:
    """Ninety days as the old logic made them. Then a line of one day lands that cannot be turned into euros."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        workshop.land_synthetic(SyntheticSpec(days=NINETY_DAYS, rows_per_day=ROWS, seed=SEED, defects={}))
        workshop.build_all(NINETY_DAYS, "v1")
        workshop.build_reports(NINETY_DAYS)
        self.lands("till", BROKEN)
        self.readers_see(OLD, OLD)
        self.before = workshop.contents()

    def lands(self, name: str, line: Mapping[str, str]) -> None:
        """The stream goes on beside campaigns."""
        land_lines(self.workshop.settings.landing, BAD_DAY, name, 1, line)
        for table in ("raw_sales", "bronze_sales"):
            self.workshop.build(table, [BAD_DAY])

    def readers_see(self, facts: Sums, in_bad_periods: Sums) -> None:
        """Every day of every table; the bad day's week and month are made of the facts ``in_bad_periods``."""
        for table, measure in MEASURES.items():
            cadence = CATALOG.step(table).cadence
            seen: dict[date, Decimal] = defaultdict(Decimal)
            wanted: dict[date, Decimal] = defaultdict(Decimal)
            rows = self.workshop.read(table, columns=["day", measure])
            for day, value in zip(rows["day"].tolist(), rows[measure].tolist(), strict=True):
                seen[day] += value
            for day in NINETY_DAYS:
                old = cadence is not CATALOG.step(FACT).cadence and cadence.start(day) in BAD[table]
                wanted[cadence.start(day)] += (in_bad_periods if old else facts)[day]
            assert seen == wanted, table

    def published_by(self, publication: str) -> Days:
        """The days of which the publication log says so."""
        return {
            table: {day for day, state in self.workshop.states(table).items() if state.publication == publication}
            for table in TABLES
        }

    # ------------------------------------------------------------------ what people do

    def plans_and_stages(self) -> str:
        """One day is held back with all that reads it, and readers see nothing of the others."""
        first, planned = plan()
        assert planned == PLANNED
        shown = told("run", first, "--waves", "100%")
        assert shown["waits"] == "it waits for approval"
        assert len(shown["held_back"]) == len(TABLES)
        (of_fact,) = [line for line in shown["held_back"] if line.startswith(f"{FACT} {BAD_DAY}: ")]
        assert "rates_found" in of_fact and "few_nulls_amount_eur" in of_fact
        assert all(f"{FACT} {BAD_DAY}" in line for line in shown["held_back"])
        under_way = told("status")[first.replace("-", "_")]
        assert under_way["plan"] == first
        assert what_is(under_way["days"], "staged") == BROUGHT
        assert what_is(under_way["days"], "staged", "unchanged") == GOOD
        assert what_is(under_way["days"], "left") == NOTHING
        assert what_is(under_way["days"], "held_back") == BAD
        assert what_is(under_way["days"], "published") == NOTHING
        return first

    def approves_without_the_flag(self, first: str) -> None:
        refused = backfill("approve", first, "--yes")
        assert refused.exit_code == 1
        assert f"{FACT} {BAD_DAY}: rates_found" in refused.stderr and "--without-held-back" in refused.stderr
        assert self.workshop.contents() == self.before
        self.readers_see(OLD, OLD)

    def approves_without_held_back(self, first: str) -> None:
        """The bad day is the old one in facts and daily reports; its week and its month are the old ones, and stale."""
        approved = told("approve", first, "--without-held-back", "--yes")
        assert approved["waits"].startswith("it can be rolled back until")
        assert what_is(approved["days"], "published") == BROUGHT
        assert self.published_by(approved["publication"]) == BROUGHT
        self.readers_see(NEW_BUT_ONE, OLD)
        now = self.workshop.contents()
        for table in TABLES:
            (bad,) = BAD[table]
            assert now[table][bad] == self.before[table][bad]
        assert statuses() == {**ALL_FRESH, FACT: {"fresh": 89, "stale: code changed": 1}, **OLD_IN_BAD_PERIODS}
        found = told("status", first)["days"]
        assert what_is(found, "published") == BROUGHT
        assert what_is(found, "held_back") == BAD
        assert what_is(found, "staged") == NOTHING

    def mends_the_day(self) -> None:
        """The plan, the campaign and what it publishes are that day, its week and its month."""
        self.lands("till-fixed", MENDED)
        second, planned = plan()
        assert planned == BAD
        assert told("run", second)["held_back"] == []
        approved = told("approve", second, "--yes")
        assert what_is(approved["days"], "published") == BAD
        assert self.published_by(approved["publication"]) == BAD
        self.readers_see(NEW_AND_MENDED, NEW_AND_MENDED)
        assert statuses() == ALL_FRESH

    def undoes(self, first: str) -> None:
        """The first campaign takes back what it brought, not the day that the second one fixed. It can come back.

        The week and the month of that day read what is taken back, and follow, although another campaign brought them.
        """
        mended = self.workshop.contents()
        asked = told("rollback", first, "--dry-run")
        again = {each["table"]: each["which_days"] for each in asked["days"] if each["what"] == "stage again"}
        assert again == {table: [str(*BAD[table])] for table in OLD_IN_BAD_PERIODS}
        assert {each["what"] for each in asked["days"]} == {"put back", "stage again"}
        undone = told("rollback", first, "--yes")
        following = {table: days | (BAD[table] if table in again else set()) for table, days in BROUGHT.items()}
        assert self.published_by(undone["publication"]) == following
        now = {**OLD, BAD_DAY: NEW_AND_MENDED[BAD_DAY]}
        self.readers_see(now, now)
        assert statuses() == {**ALL_FRESH, FACT: {"fresh": 1, "stale: code changed": 89}}
        told("rollback", undone["publication"], "--yes")
        assert self.workshop.contents() == mended
        assert statuses() == ALL_FRESH


@pytest.mark.long
def test_a_bad_day_stays_as_it_was_until_it_is_fixed_and_is_then_all_that_is_rebuilt(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is published is what the plan named but the bad day; status, tables and an oracle without Spark agree."""
    monkeypatch.setenv("BACKFILL_HOME", str(workshop.settings.home))
    assert OLD[BAD_DAY] != NEW[BAD_DAY], "otherwise no one would see which one it is"
    story = Story(workshop)
    first = story.plans_and_stages()
    story.approves_without_the_flag(first)
    story.approves_without_held_back(first)
    story.mends_the_day()
    story.undoes(first)
