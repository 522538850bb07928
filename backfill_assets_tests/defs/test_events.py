"""What a person reads when days fail their gates."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import dagster as dg
import pytest

from backfill_assets.days import DayRange
from backfill_assets.defs.events import evaluation, gate_failure, late_days, table_line
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.rebuild.outcome import DaysFailed
from backfill_assets_tests.defs.fake_builder import built_day

pytestmark = pytest.mark.story


FAILED = built_day("fact_daily_revenue", date(2017, 3, 1), passed=False)
LATE = RuleOutcome("arrived_within", "timeliness", False, "30 late rows", "at most 20", "Ask the source.", "warning")


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
    assert outcome.description == "complete: expected 7 rows, observed 6 rows -> Look at the quarantine of that day."


def test_passed_gates_say_how_many_they_were() -> None:
    """The history of a check has a line for each day: one that says nothing makes people open each of them."""
    assert evaluation(built_day("fact_daily_revenue", FAILED.day)).description == "1 of 1 passed"


def test_a_warning_is_shown_and_holds_nothing_back() -> None:
    """The check of a published day with late rows is yellow: red would say that the day was not published."""
    good = built_day("bronze_sales", FAILED.day)
    outcome = evaluation(replace(good, rules=(*good.rules, LATE)))
    assert (outcome.passed, outcome.severity) == (False, dg.AssetCheckSeverity.WARN)
    told = "warning, arrived_within: expected at most 20, observed 30 late rows -> Ask the source."
    assert outcome.description == told
    both = evaluation(replace(FAILED, rules=(LATE, *FAILED.rules)))
    assert both.severity == dg.AssetCheckSeverity.ERROR
    assert str(both.description).startswith("complete: ") and str(both.description).endswith(told)


def test_a_failure_is_about_errors_and_not_about_warnings() -> None:
    """Who reads why nothing was published must not go after the late rows of the same day."""
    error = DaysFailed([replace(FAILED, rules=(LATE, *FAILED.rules))], staged=0)
    assert "late rows" not in str(error) and "Ask the source" not in str(error.hint)
    assert gate_failure(error).metadata["failed_rules"].value == ["fact_daily_revenue.complete"]


def test_late_days_are_written_as_ranges() -> None:
    """A tag with ninety days in it cannot be read; tables without late days are left out."""
    days = {"raw_sales": (date(2017, 3, 2), date(2017, 3, 1), date(2017, 3, 9)), "raw_fx_rates": ()}
    assert late_days(days) == {"raw_sales": "2017-03-01..2017-03-02, 2017-03-09"}


def test_the_line_of_a_table_says_which_version_each_day_has() -> None:
    first, *others = (built_day("fact_daily_revenue", day) for day in DayRange.parse("2017-03-01..2017-03-03"))
    days = [replace(first, code_version="v1"), *others]
    assert table_line("fact_daily_revenue", days).endswith("; 2017-03-01 by v1; 2017-03-02..2017-03-03 by v2")
    assert table_line("fact_daily_revenue", others).endswith("unchanged; by v2")
    raw = replace(first, table="raw_sales", code_version="v1 from 2017-01-01, 1 ahead")
    assert table_line("raw_sales", [raw]).endswith("0 of 1 unchanged")
