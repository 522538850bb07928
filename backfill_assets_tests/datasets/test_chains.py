"""Datasets that read each other share one beginning and one run; others are left alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.datasets import registry
from backfill_assets.datasets.chains import chains
from backfill_assets.errors import InvalidRequest


def test_sales_rates_and_products_are_a_chain_and_sea_temperatures_are_not_in_it() -> None:
    """The sales read the other two, which do not read each other."""
    names = {tuple(dataset.name for dataset in chain) for chain in chains(registry.datasets())}
    assert {("fx_rates", "products", "sales"), ("sea_temperatures",)} <= names


def test_another_beginning_in_a_chain_is_refused() -> None:
    """Dagster would put each dataset into runs of its own, and a range into many."""
    fx, *others = (each for each in registry.datasets() if each.name in ("fx_rates", "products", "sales"))
    with pytest.raises(InvalidRequest, match="fx_rates on 2000-01-01, products on 2016-12-24"):
        chains([replace(fx, first_day=date(2000, 1, 1)), *others])
