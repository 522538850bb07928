"""An asset of a company's own, below a table: as the guide shows it."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import dagster as dg

from backfill_assets.defs.location import code_location, partitions_of
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG

ours = code_location(SMALL_CATALOG, fake_resources(FakeBuilder()))


@dg.asset(deps=["fact_daily_revenue"], partitions_def=partitions_of(ours, "fact_daily_revenue"))
def invoices(context: dg.AssetExecutionContext) -> None:
    context.log.info(f"The day {context.partition_key} is published.")


defs = dg.Definitions.merge(ours, dg.Definitions(assets=[invoices]))
