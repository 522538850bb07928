"""A version of the fact's logic that was meant to be right: on Mondays it still takes the previous day's rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.fx_rates import FX_RATES
from backfill_assets.examples.datasets.sales import FACT, LONGEST_GAP_DAYS
from backfill_assets.model.declaration import Reads, Step, Version
from backfill_assets.spark.computed import computed
from backfill_assets_tests.declared import declare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DRAFT = "v2-draft"
_MONDAY = 2


def _wrong_on_mondays(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    step = CATALOG.step(FACT)
    wrong, right = (computed(step.version(name), inputs)[FACT] for name in ("v1", "v2"))
    is_monday = F.dayofweek("day") == _MONDAY
    return {FACT: wrong.where(is_monday).unionByName(right.where(~is_monday))}


def _with_draft(step: Step) -> Step:
    if step.name != FACT:
        return step
    others = tuple(read for read in step.version("v2").reads if read.table != FX_RATES.bronze)
    reads = (*others, Reads(FX_RATES.bronze, -LONGEST_GAP_DAYS - 1, 0))
    draft = Version(DRAFT, "The day's own rate, but on Mondays.", reads, _wrong_on_mondays)
    return replace(step, versions=(draft, *step.versions))


def declare_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of now the fact has the version :data:`DRAFT` too; the current one stays v2."""
    sales = CATALOG.dataset_of(FACT)
    declare(monkeypatch, replace(sales, steps=tuple(map(_with_draft, sales.steps))))
