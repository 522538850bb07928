"""What Dagster shows of a day: its quality, its accounting and its cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

from backfill_assets.days import DayRange
from backfill_assets.defs.metadata import day_metadata, gate_failure, table_line, warnings
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay, DaysFailed
from backfill_assets_tests.defs.fake_builder import built_day


def test_a_day_shows_what_a_person_needs_and_one_entry_for_the_rest() -> None:
    """Twenty keys hide the three that are read: rows, totals, and what became of what was received."""
    metrics: dict[str, int | str | Decimal | None] = {"received": 4019, "deduplicated": 3, "total_amount_eur": "1.5"}
    shown = day_metadata(replace(built_day("bronze_sales", FAILED.day), metrics=metrics))
    assert list(shown) == [
        "dagster/partition_row_count",
        "total_amount_eur",
        "accounting",
        "gates",
        "quality",
        "quality_score",
        "publication",
        "code_version",
        "reused",
        "details",
    ]
    assert {"checksum", "input_versions", "input_fingerprint", "seconds", "bytes"} <= set(shown["details"])


def test_the_quality_of_a_day_is_a_chart_and_a_number() -> None:
    """The chart says what is wrong, the number is plotted over the days."""
    good = built_day("bronze_sales", FAILED.day)
    shown = day_metadata(replace(good, rules=(*good.rules, LATE)))
    page = str(shown["quality"].value)
    assert "completeness ██████████ 1/1" in page
    assert "- timeliness: warning: arrived_within: 30 late rows, expected at most 20" in page
    assert shown["quality_score"] == 0.5
    assert shown["gates"] == "1 of 2 passed, 1 warning"


def test_a_reused_day_shows_what_its_publication_was_judged() -> None:
    """A second run must not empty the plot; a day from before the counts were kept says that it is unchanged."""
    kept = {"quality.timeliness.passed": 0, "quality.timeliness.rules": 1, "quality.validity.passed": 1}
    counted = day_metadata(_reused({**kept, "quality.validity.rules": 1}))
    assert counted["quality_score"] == 0.5
    assert str(counted["quality"].value).endswith("as judged for publication publication-of-bronze_sales")
    unknown = day_metadata(_reused({}))
    assert unknown["quality"] == "unchanged since its gates passed for publication publication-of-bronze_sales"
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
    shown = day_metadata(replace(FAILED, table="quarantine_sales", rows=2, metrics=metrics))
    assert shown["accounting"] == "received 90, quarantined 2, deduplicated 3"
    assert shown["total_amount_eur"] == 14440.0447


def test_a_reused_day_claims_no_work() -> None:
    """Nothing was written in this run: zero bytes and files would look like a loss."""
    assert not {"seconds", "bytes", "files", "table_version"} & set(
        day_metadata(replace(FAILED, reused=True))["details"]
    )


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
    """Ninety days one by one cannot be read; tables without late days are left out."""
    days = {"raw_sales": (date(2017, 3, 2), date(2017, 3, 1), date(2017, 3, 9)), "raw_fx_rates": ()}
    (warning,) = warnings(BuildResult((), appended_elsewhere=days))
    assert warning.startswith("raw_sales: late rows were appended to 2017-03-01..2017-03-02, 2017-03-09. ")


def test_the_line_of_a_table_says_which_version_each_day_has() -> None:
    first, *others = (built_day("fact_daily_revenue", day) for day in DayRange.parse("2017-03-01..2017-03-03"))
    days = [replace(first, code_version="v1"), *others]
    assert table_line("fact_daily_revenue", days).endswith("; 2017-03-01 by v1; 2017-03-02..2017-03-03 by v2")
    assert table_line("fact_daily_revenue", others).endswith("unchanged; by v2")
    raw = replace(first, table="raw_sales", code_version="v1 from 2017-01-01, 1 ahead")
    assert table_line("raw_sales", [raw]).endswith("0 of 1 unchanged")
