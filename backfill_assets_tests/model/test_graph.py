"""Which days are computed from which: rates of a day are used for days after it, and a week for its days."""

from __future__ import annotations

from datetime import date

from backfill_assets.days import Cadence
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import Reads
from backfill_assets.model.graph import (
    Days,
    build_order,
    earlier_days,
    expand_tables,
    later_readers,
    missing_inputs,
)
from backfill_assets_tests.rebuild.test_decide import DAILY, DAY, WEEKLY, version
from backfill_assets_tests.upkeep.weeks import TWO_VERSIONS

FACT = next(step for step in TWO_VERSIONS if step.name == "fact")
WEEK = list(Cadence.WEEKLY.period(DAY))


def test_each_step_comes_after_all_that_it_reads() -> None:
    """In any of its versions, however the steps come; those that could change places stay as they come."""
    steps = CATALOG.steps
    assert build_order(steps) == list(steps)
    for given in (steps[::-1], tuple(sorted(steps, key=lambda step: step.name))):
        found = [step.name for step in build_order(given)]
        for step in given:
            reads = {CATALOG.step(read.table).name for each in step.versions for read in each.reads}
            assert all(found.index(name) < found.index(step.name) for name in reads)


def test_downstream_reaches_every_report_and_upstream_every_source() -> None:
    """In build order, so that each is built after what it reads; other datasets stay out."""
    steps = CATALOG.steps
    assert expand_tables(steps, ["fact_sales_transactions"], downstream=True) == [
        "fact_sales_transactions",
        "fact_daily_revenue",
        "report_department_revenue",
        "report_store_ranking",
        "report_monthly_close",
    ]
    upstream = expand_tables(steps, ["report_department_revenue"], upstream=True)
    assert {"raw_sales", "raw_fx_rates", "raw_products", "bronze_products"} < set(upstream)
    assert not {"fact_daily_revenue", "raw_sea_temperatures"} & set(upstream)
    assert expand_tables(steps, ["bronze_sales"]) == ["bronze_sales"]


def test_an_input_day_that_was_never_published_holds_the_day_back() -> None:
    """A missing input is not an empty one: building from it would lose rows or take an old rate."""
    published = {"fx": {date(2017, 2, 28)}}
    held = missing_inputs(DAILY, version(Reads("bronze"), Reads("fx", -2)), [DAY], published)
    assert held == {DAY: ["bronze 2017-03-01", "fx 2017-03-01"]}


def test_a_look_back_may_reach_before_the_first_published_day_but_not_over_a_hole() -> None:
    """Reference data has a beginning; a hole in it may hide the rate that counts."""
    published = {"bronze": {DAY}, "fx": {DAY, date(2017, 2, 26)}}
    assert missing_inputs(DAILY, version(Reads("bronze"), Reads("fx", -4)), [DAY], published) == {
        DAY: ["fx 2017-02-27", "fx 2017-02-28"]
    }


def test_a_cut_period_is_built_from_what_there_is() -> None:
    """The report says what is missing; a period of which no day was published would look like a week without sales."""
    weekly = version(Reads("fact", partial=True))
    assert not missing_inputs(WEEKLY, weekly, WEEK[:1], {"fact": WEEK[:2] + WEEK[5:]})
    assert missing_inputs(WEEKLY, weekly, WEEK[:1], {}) == {WEEK[0]: [f"fact {day}" for day in WEEK]}


def test_every_table_knows_who_uses_its_rows_later() -> None:
    """Also those that only lead to it: a raw rate counts as long as the typed one does."""
    found = later_readers(CATALOG.steps)
    assert found["bronze_fx_rates"] == found["raw_fx_rates"] == {"fact_sales_transactions": 7}
    assert found["bronze_products"] == found["raw_products"] == {"report_department_revenue": 35}
    assert not found.keys() & {"bronze_sales", "raw_sales", "fact_sales_transactions", "fact_daily_revenue"}


WEDNESDAY, THURSDAY, FRIDAY, SATURDAY, SUNDAY, MONDAY, TUESDAY = (date(2017, 3, day) for day in range(1, 8))
CHAIN = expand_tables(CATALOG.steps, ["fact_sales_transactions"], upstream=True)
LANDED = {
    "raw_fx_rates": {date(2017, 2, 1), THURSDAY, FRIDAY, SATURDAY, SUNDAY, MONDAY, TUESDAY},
    "raw_sales": {SATURDAY, SUNDAY},
}


def earlier(published: Days, tables: list[str] = CHAIN, landed: dict[str, set[date]] = LANDED) -> dict[str, set[date]]:
    return earlier_days(CATALOG.steps, tables, [SUNDAY, MONDAY, TUESDAY], published, landed)


def test_a_range_that_begins_on_a_sunday_brings_the_rates_of_friday() -> None:
    """Those within a week that have landed. Sales are not looked back to."""
    rates = {THURSDAY, FRIDAY, SATURDAY}
    assert earlier({}) == {"raw_fx_rates": rates, "bronze_fx_rates": rates}


def test_what_is_published_needs_not_have_landed() -> None:
    """A day of bronze can be built from raw that is there."""
    there = {"raw_fx_rates": {WEDNESDAY, SATURDAY}}
    landed = {"raw_fx_rates": {THURSDAY, FRIDAY}}
    assert earlier(there, landed=landed) == {
        "raw_fx_rates": {THURSDAY, FRIDAY},
        "bronze_fx_rates": {WEDNESDAY, THURSDAY, FRIDAY, SATURDAY},
    }


def test_nothing_comes_from_behind_a_gap() -> None:
    """Saturday was not delivered: with Friday published, it would be demanded of every day that looks back over it."""
    assert earlier({}, landed={"raw_fx_rates": LANDED["raw_fx_rates"] - {SATURDAY}}) == {}


def test_days_of_tables_that_are_not_built_do_not_come_along() -> None:
    assert earlier({}, ["fact_sales_transactions", "bronze_sales"]) == {}
    assert earlier({}, ["bronze_fx_rates", "raw_fx_rates"]) == {}


def test_a_week_that_is_cut_is_not_filled_up() -> None:
    """Its days are no look back: the report says that they are missing."""
    chosen = expand_tables(CATALOG.steps, ["report_store_ranking"], upstream=True)
    assert not earlier({}, chosen).keys() & {"raw_sales", "bronze_sales", "fact_daily_revenue"}
