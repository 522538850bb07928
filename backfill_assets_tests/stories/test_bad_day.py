"""One bad day in ninety: everybody says the same of it, and the other days are had without computing them again."""

from __future__ import annotations

import time
from datetime import date, timedelta

import pytest

from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.rebuild.outcome import DaysFailed
from backfill_assets_tests.cli.command import backfill, types
from backfill_assets_tests.stories.conftest import NINETY_DAYS
from backfill_assets_tests.stories.landed_lines import land_corrected, land_lines
from backfill_assets_tests.workshop import Workshop

BAD_DAY = date(2017, 4, 10)
BEFORE = f"{NINETY_DAYS.first}..{BAD_DAY - timedelta(days=1)}"
AFTER = f"{BAD_DAY + timedelta(days=1)}..{NINETY_DAYS.last}"


def statuses(table: str) -> dict[str, int]:
    return {row["status"]: row["days"] for row in types("status", table, "--days", NINETY_DAYS)["tables"]}


@pytest.mark.long
def test_the_other_days_are_published_by_one_command_that_computes_nothing(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run names the day, the rule and what to do; `status` and the tables agree; 89 staged days are used."""
    monkeypatch.setenv("BACKFILL_HOME", str(workshop.settings.home))
    workshop.land_synthetic(SyntheticSpec(days=NINETY_DAYS, rows_per_day=4, seed=90, defects={}))
    land_lines(workshop.settings.landing, BAD_DAY, "broken-till", 25, {"sales_value": "12,50"})
    workshop.build("raw_sales", NINETY_DAYS)
    with pytest.raises(DaysFailed) as failed:
        workshop.build("bronze_sales", NINETY_DAYS)
    assert [day.day for day in failed.value.failed] == [BAD_DAY]
    assert f"bronze_sales {BAD_DAY} few_rejected: 25 of 29 rows quarantined" in str(failed.value)
    assert "89 staged days passed; the next run uses them" in str(failed.value)
    assert statuses("bronze_sales") == {"missing": 90}
    assert workshop.states("bronze_sales") == {}

    started = time.monotonic()
    relaunched = types("run", "bronze_sales", "--days", BEFORE, "--days", AFTER)
    seconds = time.monotonic() - started
    print(f"89 days by one relaunch: {seconds:.1f} s")

    (ran,) = relaunched["steps"]
    assert (ran["periods"], ran["unchanged"], ran["rows"]) == (89, 0, 89 * 4)
    assert seconds < 20
    assert statuses("bronze_sales") == {"fresh": 89, "missing": 1}
    assert set(workshop.states("bronze_sales")) == set(NINETY_DAYS) - {BAD_DAY}

    land_corrected(workshop.settings.landing, BAD_DAY, "broken-till", '"12,50"', '"12.50"')
    mended = types("run", "raw_sales+", "--days", BAD_DAY, exit_code=1)
    assert mended["steps"][1]["rows"] == 29, mended
    assert statuses("bronze_sales") == {"fresh": 90}, "rejected lines that came again, sound, are missing from nothing"
    assert "lacks" not in backfill("status").stdout and "rejected" not in backfill("status").stdout


@pytest.mark.long
def test_one_late_row_changes_one_day_one_week_and_one_month(workshop: Workshop) -> None:
    """Counted by what is published when everything is built again over a range of two months."""
    days = NINETY_DAYS.split(45)[0]
    late_day = date(2017, 3, 15)
    workshop.land_synthetic(SyntheticSpec(days=days, rows_per_day=4, seed=3, defects={}))
    workshop.build_all(days)
    workshop.build_reports(days)
    before = {table: workshop.states(table) for table in (*DAILY, *PERIODS)}

    land_lines(workshop.settings.landing, days.last, "late", 1, {"transaction_timestamp": f"{late_day}T10:00:00Z"})
    workshop.build_all(days)
    workshop.build_reports(days)

    changed = {
        table: {day for day, state in workshop.states(table).items() if state.publication != found[day].publication}
        for table, found in before.items()
    }
    assert changed == {table: {late_day} for table in DAILY} | PERIODS


DAILY = (
    "bronze_sales",
    "quarantine_sales",
    "fact_sales_transactions",
    "fact_daily_revenue",
    "report_department_revenue",
)
PERIODS = {"report_store_ranking": {date(2017, 3, 13)}, "report_monthly_close": {date(2017, 3, 1)}}
