"""The Dagster code location: the only place where datasets, settings and resources are put together."""

from __future__ import annotations

from datetime import date

from backfill_assets.datasets.registry import datasets
from backfill_assets.defs.location import code_location
from backfill_assets.defs.partitions import DailyChain
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.settings import Settings

# The sales begin on 2017-01-01, which may need a rate published up to eight days before.
FIRST_DAY = date(2016, 12, 24)

settings = Settings.from_environment()
spark = SharedSpark(settings=settings)
defs = code_location(
    datasets(),
    DailyChain(start=FIRST_DAY, days_per_run=settings.days_per_run),
    resources={"spark": spark, "backfill": Backfill(settings=settings, spark=spark)},
)
