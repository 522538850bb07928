"""The tables of a step are written side by side: what one of them does must not be lost in the other."""

from __future__ import annotations

import threading
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.datasets import registry
from backfill_assets.days import DayRange
from backfill_assets.model.declaration import Metrics, Table
from backfill_assets.rebuild import stage
from backfill_assets.rebuild.stage import side_by_side, tables_at_once
from backfill_assets.sample.synthetic_tally import SyntheticSpec
from backfill_assets.spark.session import is_shared
from backfill_assets_tests.workshop import Workshop

TABLES = registry.step("bronze_sales").tables
DAY = date(2017, 3, 1)


def test_each_table_has_its_own_result(spark: SparkSession) -> None:
    """Both at once, each in a query of its own: they meet, which one after the other never would."""
    meeting = threading.Barrier(len(TABLES), timeout=60)

    def work(table: Table) -> dict[date, Metrics]:
        meeting.wait()
        return {DAY: {"rows": spark.range(len(table.name)).count()}}

    found = side_by_side(spark, {table.name: partial(work, table) for table in TABLES})
    assert found == {table.name: {DAY: {"rows": len(table.name)}} for table in TABLES}


def test_an_error_is_reported_when_the_other_has_come_to_an_end(spark: SparkSession) -> None:
    """A step that failed must not go on writing into a timeline behind the back of who called it."""
    ended = threading.Event()
    failing, other = TABLES[0].name, TABLES[1].name

    def work(table: Table) -> dict[date, Metrics]:
        if table.name == failing:
            raise ValueError(failing)
        assert not ended.wait(0.2)
        ended.set()
        return {}

    with pytest.raises(ValueError, match=failing):
        side_by_side(spark, {table.name: partial(work, table) for table in TABLES})
    assert ended.is_set(), other


@pytest.mark.parametrize(
    ("days", "shared", "at_once"), [(1, False, 2), (45, False, 2), (1, True, 2), (2, True, 1), (45, True, 1)]
)
def test_many_days_have_one_job_at_a_time_where_others_wait_for_theirs(days: int, shared: bool, at_once: int) -> None:
    assert tables_at_once(2, days, shared=shared) == at_once


def test_one_at_a_time_each_begins_when_the_one_before_has_ended(spark: SparkSession) -> None:
    seen: list[str] = []

    def work(name: str) -> str:
        seen.append(f"{name} begins")
        spark.range(10).count()
        seen.append(f"{name} ends")
        return name

    assert side_by_side(spark, {name: partial(work, name) for name in "ab"}, 1) == {"a": "a", "b": "b"}
    assert seen == ["a begins", "a ends", "b begins", "b ends"]


def test_a_server_is_seen_to_be_shared(
    connect_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two days of bronze and its quarantine one after the other, one day of them side by side."""
    asked: list[int] = []

    def noted(*arguments: Any, **options: Any) -> dict[str, Any]:
        asked.append(arguments[2])
        return side_by_side(*arguments, **options)

    days = DayRange.parse("2017-03-01..2017-03-02")
    workshop = Workshop(tmp_path, lambda: connect_spark)
    workshop.land_synthetic(SyntheticSpec(days=days, rows_per_day=5, seed=4, defects={}))
    workshop.build("raw_sales", days)
    monkeypatch.setattr(stage, "side_by_side", noted)
    workshop.build("bronze_sales", days)
    workshop.build("bronze_sales", [days.last], force=True)
    assert asked == [1, 2]


def test_spark_of_a_process_of_its_own_is_not_shared(spark: SparkSession) -> None:
    assert not is_shared(spark)
