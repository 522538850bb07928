"""The books are closed: late rows wait, everybody says so, and the accounts agree; then the days are reopened."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.upkeep.watch import Watch
from backfill_assets_tests.cli.command import backfill, types, work_with
from backfill_assets_tests.stories.staged_campaign import DAYS, LATE_DAY, land_late
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BRONZE = "bronze_sales"
CLOSED = f"{DAYS.first}..{LATE_DAY}"
WHY = "the week is reported"


def _rows(workshop: Workshop, day: date) -> int:
    return len(workshop.read(BRONZE).query("day == @day"))


def _accounts(workshop: Workshop, spark: SparkSession) -> dict[date, str]:
    lake = workshop.builder.lake
    watch = Watch(CATALOG, lake.storage, lake.publisher.log, lambda: spark, believes_hashes=True)
    found = watch.look([CATALOG.table(BRONZE)], DAYS)
    assert [each for each in found if not each.passed] == []
    rules = ((each.day, rule) for each in found for rule in each.rules if rule.rule == "everything_accounted_for")
    return {day: rule.observed for day, rule in rules}


def test_late_rows_of_closed_days_wait_until_they_are_reopened(
    wrong: Workshop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKFILL_HOME", str(wrong.settings.home))
    work_with(monkeypatch, wrong)
    before = _rows(wrong, LATE_DAY)
    types("close", CLOSED, "--reason", WHY)

    land_late(wrong, count=3, built=("raw_sales",))
    ran = backfill("run", BRONZE, "--days", str(DAYS)).output
    assert f"{BRONZE}: {LATE_DAY} is closed by" in ran and "It stays as it is." in ran
    assert _rows(wrong, LATE_DAY) == before
    status = types("status", BRONZE)
    assert [(each["day"], each["rows_that_wait"]) for each in status["waiting"]] == [(str(LATE_DAY), 3)]
    shown = backfill("show", BRONZE, LATE_DAY).output
    assert f"{WHY}; of raw, 3 rows wait." in " ".join(shown.split()) and "backfill reopen" in shown
    accounts = _accounts(wrong, spark)
    assert " + 3 waiting = " in accounts[LATE_DAY] and "waiting" not in accounts[DAYS.last]
    planned = backfill("plan", BRONZE, "--days", LATE_DAY, exit_code=1).output
    assert "nothing to rebuild, what is not fresh is closed" in planned
    assert f"Left as it is: stale: late rows on {LATE_DAY}; 3 rows are waiting in raw." in " ".join(planned.split())

    types("reopen", CLOSED, "--reason", "three baskets came late")
    types("run", BRONZE, "--days", str(DAYS))
    assert _rows(wrong, LATE_DAY) == before + 3
    assert "waiting" not in types("status", BRONZE) and "waiting" not in _accounts(wrong, spark)[LATE_DAY]
