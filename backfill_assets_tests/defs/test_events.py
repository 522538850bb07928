"""What a person reads when days fail their gates."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.build import DaysFailed
from backfill_assets.days import DayRange
from backfill_assets.defs.events import evaluation, gate_failure, late_days
from backfill_assets.defs.provenance import launched_by
from backfill_assets_tests.defs.fake_builder import built_day

pytestmark = pytest.mark.story


FAILED = built_day("fact_daily_revenue", date(2017, 3, 1), passed=False)


def test_many_failed_days_stay_readable() -> None:
    """Ninety failed days must not become a wall of text in the run's error."""
    days = [replace(FAILED, day=day) for day in DayRange.parse("2017-03-01..2017-05-29")]
    failure = gate_failure(DaysFailed(days, staged=0))
    assert len((failure.description or "").splitlines()) < 15
    assert failure.metadata["failed_days"].value == "2017-03-01..2017-05-29"
    assert failure.metadata["failed_rules"].value == ["fact_daily_revenue.complete"]
    assert failure.allow_retries is False


def test_a_failed_gate_lists_every_rule_with_its_next_step() -> None:
    """Passed rules are shown too: what held is half of the diagnosis."""
    passed = built_day("fact_daily_revenue", FAILED.day).rules
    outcome = evaluation(replace(FAILED, rules=(*FAILED.rules, *passed)))
    rows = outcome.metadata["rules"].records  # type: ignore[attr-defined]
    assert [row.data["passed"] for row in rows] == [False, True]
    assert [row.data["next step"] for row in rows] == ["Look at the quarantine of that day.", ""]
    assert outcome.description == "complete: expected 7 rows, observed 6 rows"


def test_late_days_are_written_as_ranges() -> None:
    """A tag with ninety days in it cannot be read; tables without late days are left out."""
    days = {"raw_sales": (date(2017, 3, 2), date(2017, 3, 1), date(2017, 3, 9)), "raw_fx_rates": ()}
    assert late_days(days) == {"raw_sales": "2017-03-01..2017-03-02, 2017-03-09"}


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"dagster/backfill": "abc", "user": "ada"}, "backfill abc"),
        ({"dagster/schedule_name": "every_day"}, "schedule every_day"),
        ({"user": "ada"}, "ada"),
        ({}, "manual run"),
    ],
)
def test_who_launched_a_run(tags: dict[str, str], expected: str) -> None:
    """The publication log names a cause that can be looked up."""
    assert launched_by(tags) == expected
