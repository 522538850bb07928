"""Dagster shows the truth: what it shows as materialized is what is published, even if runs die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.defs.sensors.shows_what_is import ReportedUpTo, put_statuses_right
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.stories import dying_location
from backfill_assets_tests.stories.conftest import NINETY_DAYS
from backfill_assets_tests.stories.dagster_chain import (
    TABLES,
    DagsterChain,
    dagster_chain,
    day_texts,
    gate_descriptions,
)
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.workshop import Workshop

BAD_DAY = date(2017, 4, 10)
SOME_DAYS = DayRange.parse("2017-05-01..2017-05-03")
BEFORE_BRONZE_SALES = {
    "raw_sales",
    *(f"{layer}_{name}" for layer in ("raw", "bronze", "quarantine") for name in ("fx_rates", "products")),
}
RATES = [table for table in TABLES if table.endswith("fx_rates")]
DIED = ("bronze_sales", "quarantine_sales")
AFTER = ("fact_sales_transactions", "fact_daily_revenue", "report_department_revenue")
SALES = ("raw_sales", *DIED, *AFTER)
_REJECTED = 25


@pytest.fixture
def chain(workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterChain]:
    with dagster_chain(workshop, tmp_path / "dagster", monkeypatch) as found:
        yield found


def _run_that_dies(home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "--select", ",".join(SALES)]
    where = ["-m", dying_location.__name__, "--partition-range", f"{NINETY_DAYS.first}...{NINETY_DAYS.last}"]
    environment = os.environ | {"BACKFILL_HOME": str(home)}
    return subprocess.run([*command, *where], env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.long
def test_partition_statuses_are_the_publication_log_through_failure_and_kill(
    chain: DagsterChain, workshop: Workshop
) -> None:
    """Ninety days of four tables and the rates: a gate that fails, a killed process, skipped days, untold days."""
    all_days = day_texts(NINETY_DAYS)
    workshop.land_synthetic(SyntheticSpec(days=NINETY_DAYS, rows_per_day=4, seed=90, defects={}))
    land_lines(workshop.settings.landing, BAD_DAY, "broken-till", _REJECTED, {"sales_value": "12,50"})

    # A gate fails on one day: nothing of that step is published or shown, and the steps before it are.
    failed = chain.run(NINETY_DAYS)
    assert not failed.success
    assert list(gate_descriptions(chain.instance, failed.run_id, "bronze_sales")) == [BAD_DAY]
    assert (
        f"{_REJECTED} of {_REJECTED + 4} rows"
        in gate_descriptions(chain.instance, failed.run_id, "bronze_sales")[BAD_DAY]
    )
    chain.assert_true(*RATES)
    earlier = {table: set(chain.published(table)) - all_days for table in RATES}
    assert all(earlier.values()), "the first days look back to them, and the sensor reports them"
    for table in TABLES:
        assert set(chain.published(table)) - earlier.get(table, set()) == (
            all_days if table in BEFORE_BRONZE_SALES else set()
        ), table
        assert chain.failed(table) == (set() if table in BEFORE_BRONZE_SALES else all_days), table

    # The source lands enough sound lines, and the next run dies when bronze is published.
    land_lines(workshop.settings.landing, BAD_DAY, "fixed-till", 100 * _REJECTED)
    died = _run_that_dies(workshop.settings.home)
    assert died.returncode == -signal.SIGKILL, died.stderr[-2000:]
    chain.assert_true(*DIED, *RATES)
    for table in DIED:
        assert set(chain.published(table)) == all_days
        assert chain.told(table) == {}

    # The sensor waits for a run that might still report its days itself, then reports them.
    at_once = put_statuses_right(chain.shown, ReportedUpTo()).published
    assert {(each.table, str(each.day)) for each in at_once} == {
        (table, day) for table in RATES for day in earlier[table]
    }
    with clock.use(FakeClock(clock.now() + timedelta(minutes=11))):
        told = put_statuses_right(chain.shown, ReportedUpTo())
    assert len(told.published) == len(DIED) * len(NINETY_DAYS)
    chain.assert_true()
    for table in DIED:
        assert chain.failed(table) == set(), table

    # The next run skips what is published, and says so; it builds the rest.
    assert chain.run(NINETY_DAYS, *SALES).success
    chain.assert_true()
    for table in SALES:
        assert set(chain.published(table)) == all_days, table
        reused = {bool(event.metadata["reused"].value) for event in chain.newest(table).values()}
        assert reused == {table not in AFTER}, table

    # Days without any work are materialized as well, and need no Spark.
    before, sessions = {table: chain.published(table) for table in TABLES}, workshop.sessions
    assert chain.run(SOME_DAYS).success
    chain.assert_true()
    assert {table: chain.published(table) for table in TABLES} == before
    assert workshop.sessions == sessions
    for day in SOME_DAYS:
        assert chain.newest("fact_daily_revenue")[str(day)].metadata["reused"].value is True
