"""Version 1 of the exchange rate logic. Never changed; new logic is a new version."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from backfill_assets.datasets.fx_contracts import BronzeFxRates
from backfill_assets.datasets.fx_source import FX_RATES
from backfill_assets.model.refinement import Refinement, refined

REFINEMENT = Refinement(source=FX_RATES, contract=BronzeFxRates, key=("currency",))


def bronze(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """Typed rates with one winner per currency and day, and the rejected rows."""
    return refined(inputs, REFINEMENT)
