"""What a timeline of a version has: its name, and the days of its step with all that is computed from them."""

from __future__ import annotations

from datetime import UTC, date, datetime

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.named_timelines import NamedTimeline, TimelineBase, TimelineVersion
from backfill_assets.lakehouse.records import DayRecord
from backfill_assets.timeline.of_version import days_to_keep, name_of_version, with_days_to_keep

FACT, REVENUE, RANKING = "fact_sales_transactions", "fact_daily_revenue", "report_store_ranking"
FIRST, SECOND, LATER = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 8)
WEEK, NEXT_WEEK = date(2017, 2, 27), date(2017, 3, 6)
PUBLISHED = {
    "bronze_sales": {FIRST, SECOND, LATER},
    FACT: {FIRST, SECOND, LATER},
    REVENUE: {FIRST, LATER},
    RANKING: {WEEK, NEXT_WEEK},
}
NOW = datetime(2017, 6, 1, tzinfo=UTC)


def test_all_published_days_of_the_step_are_kept_and_what_is_computed_from_them() -> None:
    """What it is computed from is read from main; a day that was never published is none of its days."""
    found = days_to_keep(CATALOG.steps, TimelineVersion(step=FACT, version="v1"), PUBLISHED)
    assert found == {table: days for table, days in PUBLISHED.items() if table != "bronze_sales"}


def test_of_some_days_the_periods_that_read_them_are_kept() -> None:
    found = days_to_keep(CATALOG.steps, TimelineVersion(step=FACT, version="v1", days=f"{FIRST}..{SECOND}"), PUBLISHED)
    assert found == {FACT: {FIRST, SECOND}, REVENUE: {FIRST}, RANKING: {WEEK}}


def test_new_days_hold_nothing_yet_and_days_that_are_gone_from_main_are_dropped() -> None:
    held = DayRecord(day=FIRST, foreign="abc")
    timeline = NamedTimeline(
        id="timeline-x",
        name="standby-x",
        made_at=NOW,
        changed_at=NOW,
        base=TimelineBase(),
        days={FACT: (held, DayRecord(day=LATER))},
    )
    assert with_days_to_keep(timeline, {FACT: {FIRST, SECOND}, REVENUE: ()}).days == {
        FACT: (held, DayRecord(day=SECOND))
    }


def test_names_are_those_of_timelines_and_differ_for_long_ones() -> None:
    assert name_of_version(FACT, "v1") == "standby-fact-sales-transactions-v1"
    long = [name_of_version("a_table_with_a_name_that_is_longer_than_a_timeline_may_have", version) for version in "ab"]
    assert len({*long}) == 2 and {len(name) for name in long} == {60}
