"""Version 2 of the sales logic: what differs from version 1."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from backfill_assets.datasets.sales.conversion import in_eur, rates_as_of


def transactions(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    """Euros at the rate as of the transaction's own day."""
    rates = rates_as_of(inputs["bronze_fx_rates"], days_before=0)
    return {"fact_sales_transactions": in_eur(inputs["bronze_sales"], rates)}
