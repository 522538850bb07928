"""The Dagster code location: the only place where datasets, settings and resources are put together."""

from __future__ import annotations

from backfill_assets.defs.campaigns.example import plan_example
from backfill_assets.defs.instance.event_log import batch_events
from backfill_assets.defs.location import code_location
from backfill_assets.defs.resources import EMBEDDED_SPARK, Backfill, SharedSpark
from backfill_assets.defs.sensors.partition_ends import ends_of_data
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.settings import Settings

batch_events()
settings = Settings.from_environment()
spark = SharedSpark(settings=settings)
defs = code_location(
    CATALOG.datasets,
    resources={"spark": spark, "backfill": Backfill(settings=settings, catalog=CATALOG, spark=spark)},
    days_per_run=settings.days_per_run,
    pool=None if settings.spark_remote else EMBEDDED_SPARK,
    example=plan_example(CATALOG.datasets, Storage(str(settings.lakehouse))),
    last_days=ends_of_data(CATALOG.datasets, settings) or {},
)
