"""A code location over the fake builder, for tests that need Dagster's own processes."""

from __future__ import annotations

import os

from backfill_assets.days import parse_day
from backfill_assets.defs.location import code_location
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG

DAYS_PER_RUN = "FAKE_DAYS_PER_RUN"

_failing = [parse_day(text) for text in os.environ.get("FAKE_FAILING_DAY", "").split()]

defs = code_location(
    SMALL_CATALOG,
    fake_resources(FakeBuilder(failing={"bronze_fx_rates": _failing})),
    days_per_run=int(os.environ.get(DAYS_PER_RUN, "0")) or None,
)
