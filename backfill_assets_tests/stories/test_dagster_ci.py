"""As CI does it: real processes, exit codes, and words that a person can act on in the output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.cli.dev.dagster_home import dagster_home
from backfill_assets.days import DayRange
from backfill_assets.examples.sample.synthetic import SyntheticSpec, synthesize
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import ConnectServer
from backfill_assets_tests.conftest import CHILDREN_OF_TESTS
from backfill_assets_tests.docs_commands import commands
from backfill_assets_tests.stories.landed_lines import land_lines

DAYS = DayRange.parse("2017-03-01..2017-03-04")
BAD_DAY = date(2017, 3, 4)
GOOD_DAYS = "2017-03-01...2017-03-03"
Materialize = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def materialize(tmp_path: Path) -> Materialize:
    """``dagster asset materialize`` on a landing zone of its own, with everybody's definitions and ``dagster.yaml``."""
    home = dagster_home(Settings.at(tmp_path))
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "SPARK_"))}
    here = {"BACKFILL_HOME": str(tmp_path), "DAGSTER_HOME": str(home)}
    environment = mine | CHILDREN_OF_TESTS | here

    def run(*arguments: str, spark: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "backfill_assets.definitions"]
        shared = {"SPARK_REMOTE": spark, "BACKFILL_SPARK_PROFILE": "connect"} if spark else {}
        return subprocess.run(
            [*command, *arguments], env=environment | shared, capture_output=True, text=True, timeout=300, check=False
        )

    return run


def _published(home: Path) -> dict[str, list[str]]:
    log = PublicationLog(Storage(str(Settings.at(home).lakehouse)))
    found: dict[str, list[str]] = {}
    for table, day in sorted(log.day_states(log.head())):
        found.setdefault(table, []).append(str(day))
    return found


def test_ranges_and_days_succeed_and_a_failed_gate_fails_the_build(
    materialize: Materialize, tmp_path: Path, connect_server_for_tests: ConnectServer
) -> None:
    """Three processes: a range of every daily table, a day whose gate fails, and days that are published already.

    The first has its own Spark; the second uses one that is shared, as builds of CI may.
    """
    settings = Settings.at(tmp_path)
    synthesize(SyntheticSpec(days=DAYS, rows_per_day=10, seed=4, defects={}), settings.landing)
    land_lines(settings.landing, BAD_DAY, "broken-till", 30, {"sales_value": "12,50"})

    built = materialize("--select", "tag:daily=sales", "--partition-range", GOOD_DAYS)
    assert built.returncode == 0, built.stderr[-3000:]
    before = _published(tmp_path)
    assert before["fact_daily_revenue"] == ["2017-03-01", "2017-03-02", "2017-03-03"]
    assert len(before) == 12
    for table in before:
        assert _lines(built, f"{table}: published {DAYS.first}..2017-03-03 by ") == 1
    for table in ("raw_fx_rates", "bronze_fx_rates"):
        assert before[table][0] < str(DAYS.first) == "2017-03-01"
        assert _lines(built, f"{table}: {before[table][0]}..2017-02-28 come first: ") == 1
    assert_each_event_is_printed_once(built)

    words = ("--select", "raw_sales,bronze_sales,quarantine_sales", "--partition", str(BAD_DAY))
    failed = materialize(*words, spark=connect_server_for_tests.url)
    assert failed.returncode == 1, failed.stderr[-3000:]
    for said in (
        "bronze_sales: 1 day did not pass the gates, nothing was published",
        "bronze_sales 2017-03-04 few_rejected: 30 of 40 rows quarantined, for example",
        "sales_value: '12,50' is not a decimal(18,2), expected at most 20",
        "Ask the source to send corrected rows, in a new file or as events, then build this day again.",
    ):
        assert said in failed.stdout + failed.stderr
    assert _published(tmp_path) == before | {"raw_sales": [str(day) for day in DAYS]}

    again = materialize(*_as_the_readme_has_it())
    assert again.returncode == 0, again.stderr[-3000:]
    assert _published(tmp_path)["fact_daily_revenue"] == before["fact_daily_revenue"]
    assert _lines(again, "published nothing; 3 of 3 unchanged") == 3
    assert_each_event_is_printed_once(again)


def _as_the_readme_has_it() -> list[str]:
    """What follows the module in the README's command, for the days that are there."""
    (words,) = [found for found in commands("dagster") if "--select" in found]
    return [re.sub(r"^[0-9-]+\.\.\.[0-9-]+$", GOOD_DAYS, word) for word in words[words.index("--select") :]]


def _lines(done: subprocess.CompletedProcess[str], words: str) -> int:
    return sum(words in line for line in done.stderr.splitlines())


def assert_each_event_is_printed_once(done: subprocess.CompletedProcess[str]) -> None:
    """From INFO on: the events of each day are for the UI."""
    told = [line.partition(" - dagster - ")[2] for line in done.stderr.splitlines() if " - dagster - " in line]
    assert told and not [line for line in told if line.startswith("DEBUG")]
    assert [line for line, times in Counter(told).items() if times > 1] == []
