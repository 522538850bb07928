"""The end of a demo: the watchdogs read what was published, and the page ``start_here`` says how the lakehouse is."""

from __future__ import annotations

import dagster as dg

from backfill_assets.defs.location import table_partitions
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.defs.sensors.shows_what_is import ends_of_data
from backfill_assets.defs.start_here import lakehouse_state, report_state
from backfill_assets.defs.watchdogs import watchdog_job
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.settings import Settings
from backfill_assets.text import format_count

_QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}


def watch_and_report(instance: dg.DagsterInstance, settings: Settings) -> str:
    """In this process, with what the job ``watchdogs`` chooses at night: what is new. Returns what was found."""
    partitions = table_partitions(CATALOG.datasets, ends_of_data(CATALOG.datasets, settings) or {})
    spark = SharedSpark(settings=settings)
    backfill = Backfill(settings=settings, catalog=CATALOG, spark=spark)
    looked = watchdog_job(CATALOG.datasets, partitions).execute_in_process(
        run_config=_QUIET, instance=instance, resources={"spark": spark, "backfill": backfill}
    )
    verdicts = looked.get_asset_check_evaluations()
    failed = [f"{each.asset_key.to_user_string()} {each.partition}" for each in verdicts if not each.passed]
    with dg.build_resources({"backfill": backfill}, instance=instance) as resources:
        state = lakehouse_state(instance, resources.backfill, CATALOG.datasets, partitions)
    report_state(instance, state)
    found = f"{format_count(len(verdicts), 'day')} of tables read again: "
    return found + (f"wrong are {', '.join(failed)}" if failed else "each is as it was published")
