"""The datasets of the examples."""

from __future__ import annotations

from backfill_assets.model.catalog import load

CATALOG = load("backfill_assets.examples.datasets")
