"""The tables of a step are written side by side: what one of them does must not be lost in the other."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.rows import stage as write_rows
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Metrics, Table
from backfill_assets.model.measure import RowHash
from backfill_assets.rebuild import stage
from backfill_assets.rebuild.stage import side_by_side
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

TABLES = CATALOG.step("bronze_sales").tables
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


def test_what_is_not_accepted_becomes_the_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    """One day has sound and broken rows, the next only sound ones, the last one only broken ones: at most 20."""
    quantities = {DAY: ("1", "many", "2", "few"), date(2017, 3, 2): ("3", "4"), date(2017, 3, 3): ("none", "")}
    workshop = Workshop(tmp_path, lambda: spark)
    for day, texts in quantities.items():
        lines = [sale(basket_id=text or "0", quantity=text, transaction_timestamp=f"{day}T11:53:26Z") for text in texts]
        land(workshop.settings.landing, "sales", str(day), "shop", lines)
    workshop.build("raw_sales", list(quantities))
    workshop.build("bronze_sales", list(quantities))
    bronze, quarantine = workshop.read("bronze_sales"), workshop.read("quarantine_sales")
    assert sorted(zip(bronze["day"], bronze["quantity"], strict=True)) == [
        *((DAY, quantity) for quantity in (1, 2)),
        *((date(2017, 3, 2), quantity) for quantity in (3, 4)),
    ]
    assert sorted(zip(quarantine["day"], quarantine["quantity"], strict=True)) == [
        *((DAY, quantity) for quantity in ("few", "many")),
        *((date(2017, 3, 3), quantity) for quantity in ("", "none")),
    ]


def test_where_nothing_is_rejected_the_quarantine_costs_no_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its day is published as an empty one."""
    workshop = Workshop(tmp_path, lambda: spark)
    land(workshop.settings.landing, "sales", str(DAY), "shop", [sale()])
    workshop.build("raw_sales", [DAY])
    written: list[str] = []

    def noted(rows: DataFrame, timeline: Timeline, *arguments: Any, **options: Any) -> None:
        written.append(timeline.table)

    monkeypatch.setattr(stage, "stage", noted)
    workshop.build("bronze_sales", [DAY])
    assert written == []
    [state] = workshop.states("quarantine_sales").values()
    assert state.content is not None and state.content.rows == 0


class Placed(Contract):
    """A code at a place."""

    code: T.StringType = Field()
    place: T.StringType = Field()
    content_hash: T.LongType = Field()
    sent_at: T.TimestampType = Field()
    day: T.DateType = Field()


@pytest.mark.parametrize(
    ("key", "without"),
    [
        (("code",), {"code", "content_hash", "sent_at", RowHash(Placed).name}),
        (("code", "place"), {"content_hash", "sent_at", RowHash(Placed).name}),
    ],
)
def test_columns_that_hardly_repeat_have_no_dictionary(
    spark: SparkSession, tmp_path: Path, key: tuple[str, ...], without: set[str]
) -> None:
    """Where values repeat, a dictionary makes files small; where they do not, it is made in vain."""
    schema = "code string, place string, content_hash bigint, sent_at timestamp, day date"
    rows = [(f"C{n % 9}", "here", n % 9, datetime(2017, 3, 1, 12, n % 9, tzinfo=UTC), DAY) for n in range(200)]
    timeline = Timeline(Storage(str(tmp_path)), "t", "one")
    table = Table("t", "fact", "", Placed, key=key)
    [file] = write_rows(
        spark.createDataFrame(rows, schema).coalesce(1), timeline, {DAY: StagedAs(input_fingerprint="a")}, table=table
    )
    group = timeline.storage.parquet_footer(f"{timeline.path}/{file.path}").row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert {column.path_in_schema for column in columns if not column.has_dictionary_page} == without
