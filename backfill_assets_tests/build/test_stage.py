"""The tables of a step are written side by side: what one of them does must not be lost in the other."""

from __future__ import annotations

import threading
from datetime import date
from functools import partial

import pytest
from pyspark.sql import SparkSession

from backfill_assets.build.stage import side_by_side
from backfill_assets.datasets import registry
from backfill_assets.datasets.dataset import Metrics, Table

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


def test_an_error_is_told_when_the_other_has_come_to_an_end(spark: SparkSession) -> None:
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
