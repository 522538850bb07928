"""Rates of a day are used for days after it: which days these are, and which of them a run leaves stale."""

from __future__ import annotations

from datetime import date

from backfill_assets.datasets import registry
from backfill_assets.days import TableDay
from backfill_assets.plan.foreground import around
from backfill_assets.plan.graph import earlier_days, later_readers, looks_back_to, stale_later_days
from backfill_assets_tests.upkeep.test_repair import NEXT_WEEK, TWO_VERSIONS, WEEK, two_version_world

FACT = next(step for step in TWO_VERSIONS if step.name == "fact")
LAST = date(2017, 3, 14)


def test_every_table_knows_who_uses_its_rows_later() -> None:
    """Also those that only lead to it: a raw rate counts as long as the typed one does."""
    found = later_readers(registry.steps())
    assert found["bronze_fx_rates"] == found["raw_fx_rates"] == {"fact_sales_transactions": 7}
    assert found["bronze_products"] == found["raw_products"] == {"report_department_revenue": 35}
    assert not found.keys() & {"bronze_sales", "raw_sales", "fact_sales_transactions", "fact_daily_revenue"}
    assert looks_back_to(FACT, ["rates"]) and not looks_back_to(FACT, ["bronze"])


def test_the_days_that_a_run_leaves_stale_are_those_whose_own_version_reads_what_changed() -> None:
    """The rates of Sunday changed: Sunday's fact is of the old logic, which does not read them."""
    world = two_version_world()
    assert stale_later_days([FACT], world.observed(), {"rates": {WEEK.last}}, {}) == {}
    world.publish("rates", WEEK.last, checksum="8")
    stale = stale_later_days([FACT], world.observed(), {"rates": {WEEK.last}}, {})
    assert stale == {"fact": [NEXT_WEEK, LAST]}
    built = {"fact": [WEEK.last, NEXT_WEEK]}
    assert stale_later_days([FACT], world.observed(), {"rates": {WEEK.last}}, built) == {"fact": [LAST]}


WEDNESDAY, THURSDAY, FRIDAY, SATURDAY, SUNDAY, MONDAY, TUESDAY = (date(2017, 3, day) for day in range(1, 8))
CHAIN = around(registry.steps(), ["fact_sales_transactions"], upstream=True)
LANDED = {
    "raw_fx_rates": {date(2017, 2, 1), THURSDAY, FRIDAY, SATURDAY, SUNDAY, MONDAY, TUESDAY},
    "raw_sales": {SATURDAY, SUNDAY},
}


def earlier(
    published: set[TableDay], tables: list[str] = CHAIN, landed: dict[str, set[date]] = LANDED
) -> dict[str, set[date]]:
    return earlier_days(registry.steps(), tables, [SUNDAY, MONDAY, TUESDAY], published, landed)


def test_a_range_that_begins_on_a_sunday_brings_the_rates_of_friday() -> None:
    """Those within a week that have landed. Sales are not looked back to."""
    rates = {THURSDAY, FRIDAY, SATURDAY}
    assert earlier(set()) == {"raw_fx_rates": rates, "bronze_fx_rates": rates}


def test_what_is_published_needs_not_have_landed() -> None:
    """A day of bronze can be built from raw that is there."""
    there = {TableDay("raw_fx_rates", WEDNESDAY), TableDay("raw_fx_rates", SATURDAY)}
    landed = {"raw_fx_rates": {THURSDAY, FRIDAY}}
    assert earlier(there, landed=landed) == {
        "raw_fx_rates": {THURSDAY, FRIDAY},
        "bronze_fx_rates": {WEDNESDAY, THURSDAY, FRIDAY, SATURDAY},
    }


def test_nothing_comes_from_behind_a_gap() -> None:
    """Saturday was not delivered: with Friday published, it would be demanded of every day that looks back over it."""
    assert earlier(set(), landed={"raw_fx_rates": LANDED["raw_fx_rates"] - {SATURDAY}}) == {}


def test_days_of_tables_that_are_not_built_do_not_come_along() -> None:
    assert earlier(set(), ["fact_sales_transactions", "bronze_sales"]) == {}
    assert earlier(set(), ["bronze_fx_rates", "raw_fx_rates"]) == {}


def test_a_week_that_is_cut_is_not_filled_up() -> None:
    """Its days are no look back: the report says that they are missing."""
    chosen = around(registry.steps(), ["report_store_ranking"], upstream=True)
    assert not earlier(set(), chosen).keys() & {"raw_sales", "bronze_sales", "fact_daily_revenue"}
