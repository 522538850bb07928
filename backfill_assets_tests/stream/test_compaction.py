"""Small files that cannot be put together are reported, and end no stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.zone import LandingZone
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.stream import run
from backfill_assets.stream.follower import Follower
from backfill_assets_tests.small_lakehouse import SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def no_spark() -> SparkSession:
    raise AssertionError("Files are put together without Spark.")


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError("part-7.parquet is gone"), pa.ArrowInvalid("no Parquet"), DeltaError("a file is gone")],
)
def test_a_table_that_fails_is_reported_and_tried_again_after_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Each attempt leaves files behind. Other tables are put together."""
    small, tried, reports = SmallLakehouse(tmp_path / "lakehouse"), list[str](), list[str]()
    lake = Lake(CATALOG, small.storage, small.publisher, LandingZone(tmp_path / "landing"), no_spark, "")

    def compact(_: object, table: str, *__: object, **___: object) -> None:
        tried.append(table)
        if table == "raw":
            raise error

    monkeypatch.setattr(run, "compact_small_files", compact)
    follower = Follower(lake, CATALOG.step("raw_sales"), RunInfo(""), lambda text: None, reports.append)
    for minutes in (0, 1, 61):
        small.minutes = minutes
        assert run.compact_days(follower, ["raw", "fact"], []) == set()
    assert tried == ["raw", "fact", "fact", "raw", "fact"]
    assert reports == [f"Warning: raw is not compacted for an hour: {error}"] * 2
