"""What a person reads when days fail their gates."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from backfill_assets.build import DaysFailed
from backfill_assets.days import DayRange
from backfill_assets.defs.events import day_metadata, evaluation, gate_failure, late_days
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
    assert outcome.description == "complete: expected 7 rows, observed 6 rows -> Look at the quarantine of that day."


def test_passed_gates_say_how_many_they_were() -> None:
    """The history of a check has a line for each day: one that says nothing makes people open each of them."""
    assert evaluation(built_day("fact_daily_revenue", FAILED.day)).description == "1 of 1 passed"


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
