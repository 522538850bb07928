"""The lake of a small lakehouse: what builds, undos and streams work with where nothing is computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.zone import LandingZone
from backfill_assets.rebuild.lake import Lake
from backfill_assets_tests.small_lakehouse import SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lake_of(small: SmallLakehouse, **changes: Any) -> Lake:
    """What lands is in the folder beside it."""
    landing = LandingZone(Path(small.storage.root).with_name("landing"))
    return replace(Lake(CATALOG, small.storage, small.publisher, landing, no_spark, ""), **changes)


def no_spark(*_: object) -> SparkSession:
    """In place of a session: all that is needed is there."""
    pytest.fail("Spark is asked for.")
