"""What a person reads when days fail their gates."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import dagster as dg
import pytest

from backfill_assets.days import DayRange
from backfill_assets.defs.events import day_metadata, evaluation, gate_failure, late_days
from backfill_assets.defs.resources import launched_by
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.rebuild.outcome import BuiltDay, DaysFailed
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


def test_the_quality_of_a_day_is_a_table_a_chart_and_numbers() -> None:
    """The table says what is wrong, the numbers are plotted over the days; a dimension without rules has no number."""
    good = built_day("bronze_sales", FAILED.day)
    shown = day_metadata(replace(good, rules=(*good.rules, LATE)))
    rows = {str(row.data["dimension"]): row.data for row in shown["quality"].records}  # type: ignore[attr-defined]
    assert list(rows) == ["completeness", "uniqueness", "validity", "consistency", "timeliness"]
    assert (rows["completeness"]["passed"], rows["completeness"]["what"]) == (1, "every rule held")
    assert rows["timeliness"]["what"] == "warning: arrived_within: 30 late rows, expected at most 20"
    assert "completeness ██████████ 1/1" in str(shown["quality_chart"].value)
    numbers = {name: shown[name].value for name in shown if name.startswith("quality_") and name != "quality_chart"}
    assert numbers == {"quality_score": 0.5, "quality_completeness": 1.0, "quality_timeliness": 0.0}
    assert shown["gates"].value == "1 of 2 passed, 1 warning(s)"


def test_a_failed_day_shows_its_quality_with_its_gates() -> None:
    """It has no materialization that could."""
    assert {"rules", "quality", "quality_chart", "quality_score"} <= set(evaluation(FAILED).metadata)


def test_a_reused_day_shows_what_its_publication_was_judged() -> None:
    """A second run must not empty the plot; a day from before the counts were kept says that it is unchanged."""
    kept = {"quality.timeliness.passed": 0, "quality.timeliness.rules": 1, "quality.validity.passed": 1}
    counted = day_metadata(_reused({**kept, "quality.validity.rules": 1}))
    assert counted["quality_score"].value == 0.5
    assert "as judged for publication" in str(counted["quality"].records[2].data["what"])  # type: ignore[attr-defined]
    unknown = day_metadata(_reused({}))
    assert unknown["quality"].value == "unchanged since its gates passed for publication publication-of-bronze_sales"
    assert "quality_score" not in unknown


def _reused(metrics: dict[str, int]) -> BuiltDay:
    return replace(built_day("bronze_sales", FAILED.day), reused=True, rules=(), metrics=metrics)


def test_the_accounting_of_a_day_says_what_was_received_for_it() -> None:
    """A quarantine table holds few rows of its own: its day received what raw received, not what was rejected."""
    metrics: dict[str, int | str | Decimal | None] = {
        "received": 2,
        "from.raw_sales.received": 90,
        "deduplicated": 3,
        "total_amount_eur": "14440.0447",
    }
    shown = day_metadata(replace(FAILED, metrics=metrics), quarantined=2)
    assert {name: shown[name].value for name in ("received", "quarantined", "deduplicated")} == {
        "received": 90,
        "quarantined": 2,
        "deduplicated": 3,
    }
    assert shown["total_amount_eur"].value == 14440.0447
    assert "superseded" not in shown


def test_a_reused_day_claims_no_work() -> None:
    """Nothing was written in this run: zero bytes and files would look like a loss."""
    assert not {"seconds", "bytes", "files", "table_version"} & set(day_metadata(replace(FAILED, reused=True)))


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
