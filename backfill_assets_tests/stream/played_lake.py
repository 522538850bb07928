"""The lake of a small lakehouse: what a stream publishes to, where Spark is played."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.zone import LandingZone
from backfill_assets.rebuild.lake import Lake
from backfill_assets_tests.small_lakehouse import SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lake_of(small: SmallLakehouse) -> Lake:
    """What lands is in the folder beside it."""
    landing = Path(small.storage.root).with_name("landing")
    return Lake(CATALOG, small.storage, small.publisher, LandingZone(landing), _no_spark, "")


def _no_spark() -> SparkSession:
    pytest.fail("Spark is asked for.")
