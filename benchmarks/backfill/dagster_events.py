"""Four tables in Dagster over a builder that has no work: ``python -m benchmarks.backfill.dagster_events FIRST LAST``.

What is left is Dagster's own share: the run, its steps, the materializations and the gates of every day, on sqlite.
Prints the seconds of the run alone, which leave out imports and the loading of the definitions.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from backfill_assets.cli.dev.dagster_home import dagster_home
from backfill_assets.defs.dagster_internals import batch_events
from backfill_assets.defs.location import code_location
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.settings import Settings
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources

TABLES = ("bronze_sales", "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue")


def main() -> None:
    tags = dict(zip((ASSET_PARTITION_RANGE_START_TAG, ASSET_PARTITION_RANGE_END_TAG), sys.argv[1:], strict=True))
    location = code_location(CATALOG, fake_resources(FakeBuilder()))
    job = location.resolve_implicit_global_asset_job_def()
    chosen = [dg.AssetKey(table) for table in TABLES]
    batch_events()
    with (
        tempfile.TemporaryDirectory() as home,
        dg.DagsterInstance.from_config(str(dagster_home(Settings.at(Path(home))))) as instance,
    ):
        started = time.perf_counter(), time.process_time()
        job.execute_in_process(instance=instance, tags=tags, asset_selection=chosen)
        clock, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
    print(json.dumps({"seconds": round(clock, 2), "cpu_seconds": round(cpu, 2)}))


if __name__ == "__main__":
    main()
