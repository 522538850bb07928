"""What a person reads when days fail their gates."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.days import DayRange
from backfill_assets.defs.events import gate_failure, late_days, table_line
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.rebuild.outcome import DaysFailed
from backfill_assets_tests.defs.fake_builder import built_day

pytestmark = pytest.mark.story


FAILED = replace(built_day("fact_daily_revenue", date(2017, 3, 1), passed=False), publication="")
LATE = RuleOutcome("arrived_within", "timeliness", False, "30 late rows", "at most 20", "Ask the source.", "warning")


def test_many_failed_days_stay_readable() -> None:
    """Ninety failed days must not become a wall of text in the run's error."""
    days = [replace(FAILED, day=day) for day in DayRange.parse("2017-03-01..2017-05-29")]
    failure = gate_failure(DaysFailed(days, staged=0))
    assert len((failure.description or "").splitlines()) < 15
    assert failure.metadata["failed_days"].value == "2017-03-01..2017-05-29"
    assert failure.metadata["failed_rules"].value == ["fact_daily_revenue.contract_holds"]
    assert failure.allow_retries is False


def test_a_failure_is_about_errors_and_not_about_warnings() -> None:
    """Who reads why nothing was published must not go after the late rows of the same day."""
    error = DaysFailed([replace(FAILED, rules=(LATE, *FAILED.rules))], staged=0)
    assert "late rows" not in str(error) and "Ask the source" not in str(error.hint)
    assert gate_failure(error).metadata["failed_rules"].value == ["fact_daily_revenue.contract_holds"]


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
