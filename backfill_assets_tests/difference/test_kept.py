"""A difference in one sentence, in Markdown and as a page: the numbers it was made of, and nothing that is not text."""

from __future__ import annotations

import json
import re
from datetime import date, timedelta

import pytest

from backfill_assets.days import TableDay
from backfill_assets.difference.kept import Difference
from backfill_assets.difference.page import difference_page
from backfill_assets.difference.records import DayCompared, TableCompared, fingerprint_of
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import HELD_BACK
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan, PlanRequest, Span
from backfill_assets_tests.difference.compared_month import (
    MADE,
    MARCH,
    NASTY,
    a_day,
    a_sample,
    by,
    difference,
    month,
    unmeasured,
)


@pytest.mark.data
def test_a_page_calls_an_unknown_total_unknown() -> None:
    found = month(0, days=(a_day(MARCH.first, "99.43"), unmeasured(MARCH.last)))
    assert '<td class="number">unknown</td>' in difference_page(CATALOG, difference(found))


def test_the_whole_campaign_is_reported_by_the_table_that_was_asked_for() -> None:
    """Unless it does not change and another one does."""
    other = month(2, table="other")
    assert difference(other, month(22)).sentence == (
        "report, March 2017: revenue eur -0.40 %, 22 of 31 days. 2 of 2 tables change."
    )
    assert difference(other, month(0), expected=("rows unchanged",)).sentence == (
        "other, March 2017: revenue eur -0.037 %, 2 of 31 days. 1 of 2 tables changes. It is as expected."
    )
    broken = difference(month(22), expected=("rows unchanged", "revenue_eur < 0.5% a day"))
    assert broken.sentence.endswith("1 of 2 expectations is not met.")
    assert len(broken.unmet[0].deviations) == 22


def test_a_difference_goes_to_json_and_back() -> None:
    """Others read it without Spark; decimals stay exact."""
    found = difference(month(2, (by("store_id", (None, 1)),), sample=a_sample(2)), expected=("weekends unchanged",))
    assert Difference.from_json(found.to_json()) == found
    assert json.loads(found.to_json())["tables"][0]["days"][0]["sums"]["revenue_eur"]["after"] == "99.43"
    unknown = difference(month(0, days=(unmeasured(MARCH.last),)))
    assert Difference.from_json(unknown.to_json()) == unknown
    assert json.loads(unknown.to_json())["tables"][0]["days"][0]["sums"] == {"revenue_eur": None}


def test_a_difference_names_the_rows_of_both_sides() -> None:
    """A day that would stay as it is counts as one that is published; one that is not staged yet is not shown."""
    days = (
        DayCompared(day=date(2017, 3, 1), how="equal", published="1:10", staged="1:10"),
        DayCompared(day=date(2017, 3, 7), how="held back", published="1:20"),
        DayCompared(day=date(2017, 3, 8), how="not staged", published="1:30"),
    )
    found = difference(TableCompared(table="fact", days=days))
    shown = {TableDay("fact", date(2017, 3, 1)): ("1:10", "1:10"), TableDay("fact", date(2017, 3, 7)): HELD_BACK}
    assert (found.sides, found.fingerprint) == (shown, fingerprint_of(shown))
    assert difference().sides == {}


def test_an_old_plan_keeps_its_id() -> None:
    """The id of a plan without expectations is a hash of what it was before there were any; with them it is another."""
    plan = Plan(asked=PlanRequest(target="report", days=str(MARCH)), steps=(), made_at=MADE)
    text = json.loads(plan.to_json())
    del text["expectations"]
    assert Plan.from_json(json.dumps(text), id=plan.id) == plan
    timed = plan.model_copy(update={"times": {"validated": Span.of([1.0, 2.0])}})
    assert timed.id == plan.id and Plan.from_json(timed.to_json(), id=plan.id) == timed, "it is the same plan"
    expected = plan.model_copy(update={"expectations": (Expectation.parse("rows unchanged"),)})
    assert expected.id != plan.id
    assert Plan.from_json(expected.to_json(), id=expected.id) == expected


@pytest.mark.data
def test_the_page_shows_values_as_text_and_needs_no_network() -> None:
    """Everything is in the file, and no value is code."""
    table = month(3, (by("department", (NASTY, 2), ("MEAT", 0)),), table="report", sample=a_sample(2, NASTY))
    page = difference_page(CATALOG, difference(table, expected=("revenue_eur < 0.5% a day",)))
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "src=" not in page and "@import" not in page
    assert set(re.findall(r"""href="([^"]*)"|url\(([^)]*)\)""", page)) == {
        ("#table-report", ""),
        ("", "#stripes-down"),
        ("", "#stripes-changed"),
    }
    assert '<span class="not-met">✗ not met</span>' in page and "(personal, differs)" in page
    assert page.count('<svg class="chart"') == 3


@pytest.mark.data
def test_the_page_has_what_each_step_was_estimated_to_take_and_took() -> None:
    """A table of its own, below the difference."""
    page = difference_page(CATALOG, difference(month(0)), [("source verified", "8..20 s", "12 s")])
    assert "<h2>Time</h2>" in page and '<th scope="col" class="number">estimated</th>' in page
    assert '<td class="number">8..20 s</td><td class="number">12 s</td>' in page


@pytest.mark.data
def test_a_page_without_changes_has_no_charts() -> None:
    """A few kilobytes that say so."""
    page = difference_page(CATALOG, difference(month(0), month(0, table="other", days=[])))
    assert "nothing changes on 31 days" in page and '<svg class="chart' not in page and len(page) < 14_000


@pytest.mark.data
def test_a_page_of_a_quarter_stays_small() -> None:
    """Ninety days of a table are some kilobytes beside the charts' code."""
    days = [a_day(MARCH.first + timedelta(n), "99") for n in range(90)]
    few, many = (len(difference_page(CATALOG, difference(month(0, days=days[:n])))) for n in (2, 90))
    assert many - few < 120_000
