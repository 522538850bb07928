"""As CI does it: real processes, exit codes, and words that a person can act on in the output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.publication_log import PublicationLog, utc_now
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.sample.synthetic import synthesize
from backfill_assets.sample.synthetic_tally import SyntheticSpec
from backfill_assets.settings import Settings
from backfill_assets_tests.conftest import CHILDREN_OF_TESTS
from backfill_assets_tests.stories.landed_lines import land_lines

DAYS = DayRange.parse("2017-03-01..2017-03-04")
BAD_DAY = date(2017, 3, 4)
GOOD_DAYS = "2017-03-01...2017-03-03"
DAILY = "tag:daily=sales"
TO_BRONZE = "raw_sales,bronze_sales,quarantine_sales"
Materialize = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def materialize(tmp_path: Path) -> Materialize:
    """``dagster asset materialize`` on a landing zone of its own, with the definitions that everybody uses."""
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "SPARK_"))}
    here = {"BACKFILL_HOME": str(tmp_path), "DAGSTER_HOME": str(tmp_path / "dagster")}
    environment = mine | CHILDREN_OF_TESTS | here

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "backfill_assets.definitions"]
        return subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    return run


def _published(home: Path) -> dict[str, list[str]]:
    log = PublicationLog(Storage(str(Settings.at(home).lakehouse)), utc_now)
    found: dict[str, list[str]] = {}
    for table, day in sorted(log.day_states(log.head())):
        found.setdefault(table, []).append(day)
    return found


def test_ranges_and_days_succeed_and_a_failed_gate_fails_the_build(materialize: Materialize, tmp_path: Path) -> None:
    """Three processes: a range of every daily table, a day whose gate fails, and a day that is published already."""
    settings = Settings.at(tmp_path)
    synthesize(SyntheticSpec(days=DAYS, rows_per_day=10, seed=4, defects={}), settings.landing)
    land_lines(settings.landing, BAD_DAY, "broken-till", 30, {"sales_value": "12,50"})

    built = materialize("--select", DAILY, "--partition-range", GOOD_DAYS)
    assert built.returncode == 0, built.stderr[-3000:]
    before = _published(tmp_path)
    assert before["fact_daily_revenue"] == ["2017-03-01", "2017-03-02", "2017-03-03"]
    assert len(before) == 12

    failed = materialize("--select", TO_BRONZE, "--partition", str(BAD_DAY))
    assert failed.returncode == 1, failed.stderr[-3000:]
    for words in (
        "bronze_sales: 1 day(s) did not pass their gates, nothing was published",
        "bronze_sales 2017-03-04 few_rejected: 30 of 40 rows quarantined, for example",
        "sales_value: '12,50' is not a decimal(18,2), expected at most 20",
        "Ask the source to land corrected rows as a new file, then build this day again.",
    ):
        assert words in failed.stdout + failed.stderr
    assert _published(tmp_path) == before | {"raw_sales": [str(day) for day in DAYS]}

    again = materialize("--select", TO_BRONZE, "--partition", "2017-03-01")
    assert again.returncode == 0, again.stderr[-3000:]
    assert _published(tmp_path)["bronze_sales"] == before["bronze_sales"]
