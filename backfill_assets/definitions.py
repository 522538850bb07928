"""The Dagster code location of the examples."""

from __future__ import annotations

from backfill_assets.defs.location import backfill_definitions
from backfill_assets.examples import datasets

defs = backfill_definitions(datasets)
