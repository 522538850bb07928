"""What Dagster shows of a day: its quality, its accounting and its cost."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from backfill_assets.defs.metadata import day_metadata
from backfill_assets.rebuild.outcome import BuiltDay
from backfill_assets_tests.defs.fake_builder import built_day
from backfill_assets_tests.defs.test_events import FAILED, LATE

pytestmark = pytest.mark.story


def test_the_quality_of_a_day_is_a_table_a_chart_and_numbers() -> None:
    """The table says what is wrong, the numbers are plotted over the days; a dimension without rules has no number."""
    good = built_day("bronze_sales", FAILED.day)
    shown = day_metadata(replace(good, rules=(*good.rules, LATE)))
    rows = {str(row.data["dimension"]): row.data for row in shown["quality"].records}  # type: ignore[attr-defined]
    assert list(rows) == ["completeness", "uniqueness", "validity", "consistency", "timeliness"]
    assert (rows["completeness"]["passed"], rows["completeness"]["what"]) == (1, "every rule passed")
    assert rows["timeliness"]["what"] == "warning: arrived_within: 30 late rows, expected at most 20"
    assert "completeness ██████████ 1/1" in str(shown["quality_chart"].value)
    numbers = {name: shown[name].value for name in shown if name.startswith("quality_") and name != "quality_chart"}
    assert numbers == {"quality_score": 0.5, "quality_completeness": 1.0, "quality_timeliness": 0.0}
    assert shown["gates"].value == "1 of 2 passed, 1 warning"


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
    shown = day_metadata(replace(FAILED, table="quarantine_sales", rows=2, metrics=metrics))
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
