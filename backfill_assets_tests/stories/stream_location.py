"""A code location with the stream of a small dataset, which has no Spark, for tests with Dagster's own processes."""

from __future__ import annotations

import sys

from backfill_assets.defs.location import code_location
from backfill_assets.settings import Settings
from backfill_assets_tests.defs import fake_stream
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import STREAMED_CATALOG

_settings = Settings.from_environment()

defs = code_location(
    STREAMED_CATALOG,
    fake_resources(FakeBuilder(), _settings.home),
    stream_command=(sys.executable, "-m", fake_stream.__name__, str(_settings.lakehouse), "live"),
)
