"""A difference in one sentence, and as it is kept: exact, and with the rows of both sides."""

from __future__ import annotations

import json
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.difference.difference import DayCompared, TableCompared, fingerprint_of
from backfill_assets.difference.verdict import Difference
from backfill_assets.lakehouse.records import HELD_BACK
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan, PlanRequest, Span
from backfill_assets_tests.difference.compared_month import (
    MADE,
    MARCH,
    a_sample,
    by,
    difference,
    month,
    unmeasured,
)


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
    assert Difference.model_validate_json(found.model_dump_json()) == found
    assert found.model_dump(mode="json")["tables"][0]["days"][0]["sums"]["revenue_eur"]["after"] == "99.43"
    unknown = difference(month(0, days=(unmeasured(MARCH.last),)))
    assert Difference.model_validate_json(unknown.model_dump_json()) == unknown
    assert unknown.model_dump(mode="json")["tables"][0]["days"][0]["sums"] == {"revenue_eur": None}


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


def test_the_id_of_a_plan_is_of_its_content() -> None:
    """Expectations make it another plan, and times do not; a plan without expectations has no word of them."""
    plan = Plan(asked=PlanRequest(target="report", days=str(MARCH)), steps=(), made_at=MADE)
    assert "expectations" not in json.loads(plan.to_json())["asked"]
    assert Plan.from_json(plan.to_json(), id=plan.id) == plan
    timed = plan.model_copy(update={"times": {"validated": Span.of([1.0, 2.0])}})
    assert timed.id == plan.id and Plan.from_json(timed.to_json(), id=plan.id) == timed, "it is the same plan"
    asked = plan.asked.model_copy(update={"expectations": (Expectation.parse("rows unchanged"),)})
    expected = plan.model_copy(update={"asked": asked})
    assert expected.id != plan.id
    assert Plan.from_json(expected.to_json(), id=expected.id) == expected
