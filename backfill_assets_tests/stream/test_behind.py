"""Which days a stream brings up to date when it starts."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.datasets import registry
from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.landing.zone import LandingZone
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.lake import Lake
from backfill_assets.stream.batches import stream_name
from backfill_assets.stream.behind import days_behind
from backfill_assets_tests.small_lakehouse import SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.protocol
RAW, BRONZE = "raw_sales", registry.step("bronze_sales")
DAY = date(2026, 3, 2)


def state(table: str, publication: str, rows: int, inputs: str = "") -> dict[TableDay, DayState]:
    content = DayContent(rows, str(rows), BRONZE.version().name, inputs=inputs)
    return {TableDay(table, DAY): DayState(table, DAY, publication, 1, "", content)}


def inputs_of(raw: dict[TableDay, DayState]) -> str:
    content = raw[TableDay(RAW, DAY)].content
    logicals = {RAW: {DAY: content.logical if content else ""}}
    return decide.wanted(BRONZE, BRONZE.version(), [DAY], logicals)[DAY].inputs


def no_spark() -> SparkSession:
    raise AssertionError("An id needs no Spark.")


@pytest.fixture
def publication(tmp_path: Path) -> str:
    """The id of what a stream publishes in raw."""
    small = SmallLakehouse(tmp_path / "lakehouse")
    lake = Lake(small.storage, small.publisher, LandingZone(tmp_path / "landing"), no_spark, "")
    return lake.new_id(stream_name(RAW))


def test_a_day_that_only_a_stream_has_brought_rows_to_is_behind(publication: str) -> None:
    """Its stream was killed before the facts followed. An id can be typed without quotes."""
    assert " " not in publication
    assert days_behind(RAW, BRONZE, state(RAW, publication, 3)) == {DAY}
    assert days_behind(RAW, BRONZE, state(RAW, publication, 0)) == set()


def test_a_day_of_history_that_was_never_built_waits_for_a_person() -> None:
    assert days_behind(RAW, BRONZE, state(RAW, "20170401t000000-raw-sales-1a2b3c4d", 3)) == set()


def test_a_day_that_was_built_from_other_rows_is_behind(publication: str) -> None:
    raw = state(RAW, publication, 3)
    assert days_behind(RAW, BRONZE, raw | state(BRONZE.name, "built", 3, inputs_of(raw))) == set()
    assert days_behind(RAW, BRONZE, raw | state(BRONZE.name, "built", 3, inputs_of(state(RAW, "earlier", 2)))) == {DAY}
