"""The real chain in Dagster over a workshop: ranged runs in this process, and what Dagster says about each day."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from backfill_assets.days import Cadence, DayRange
from backfill_assets.defs import dagster_internals
from backfill_assets.defs.location import code_location
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.defs.sensors.shows_what_is import ShownDays
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.rebuild.builder import Builder
from backfill_assets_tests.defs.conftest import evaluated
from backfill_assets_tests.workshop import Workshop

PARTITIONS = PartitionedTables(CATALOG)
STEPS = CATALOG.steps_with("sales")
TABLES = [table.name for step in STEPS for table in step.tables if step.cadence is Cadence.DAILY]
"""The daily tables of the sales and of what they read; one run carries a range through all of them."""
Days = set[str]


class WorkshopBackfill(Backfill):
    """The resource ``backfill`` over a workshop: its builder, and so the Spark session of the tests."""

    workshop: dg.ResourceDependency[Workshop]

    def builder(self, spark: SharedSpark | None = None) -> Builder:
        return self.workshop.builder


def workshop_resources(workshop: Workshop) -> dict[str, Any]:
    spark = SharedSpark(settings=workshop.settings)
    backfill = WorkshopBackfill(settings=workshop.settings, catalog=CATALOG, spark=spark, workshop=workshop)
    return {"backfill_spark": spark, "backfill": backfill}


class DagsterChain:
    """Runs days of the whole chain, and shows what Dagster and the publication log say about them."""

    def __init__(self, workshop: Workshop, instance: dg.DagsterInstance) -> None:
        self.workshop = workshop
        self.instance = instance
        self.log = workshop.builder.lake.publisher.log
        self.shown = ShownDays(instance, self.log, PARTITIONS)
        self._defs = code_location(CATALOG, workshop_resources(workshop))

    def run(self, days: DayRange, *tables: str) -> dg.ExecuteInProcessResult:
        """As a ranged run of a backfill would; of all daily tables, unless some are named. Weeks run on their own."""
        ranged = {
            ASSET_PARTITION_RANGE_START_TAG: days.first.isoformat(),
            ASSET_PARTITION_RANGE_END_TAG: days.last.isoformat(),
        }
        job = self._defs.resolve_implicit_global_asset_job_def()
        chosen = [dg.AssetKey(table) for table in tables or TABLES]
        return job.execute_in_process(instance=self.instance, tags=ranged, asset_selection=chosen, raise_on_error=False)

    def published(self, table: str) -> dict[str, str]:
        """The publication of each day that has one, from the log."""
        return {str(day): state.publication for day, state in self.workshop.states(table).items() if state.content}

    def told(self, table: str) -> dict[str, str]:
        """The publication that the newest materialization of each materialized day speaks about."""
        return {day: str(event.metadata["publication"].value) for day, event in self.newest(table).items()}

    def newest(self, table: str) -> dict[str, dg.AssetMaterialization]:
        chosen = dg.AssetRecordsFilter(dg.AssetKey(table))
        records = self.instance.fetch_materializations(chosen, limit=10_000, ascending=True).records
        return {str(r.partition_key): r.asset_materialization for r in records if r.asset_materialization}

    def failed(self, table: str) -> Days:
        """The days that Dagster shows as failed."""
        key = dg.AssetKey(table)
        status = get_and_update_asset_status_cache_value(self.instance, key, PARTITIONS.by_table[table], self.instance)
        subset = status.deserialize_failed_partition_subsets(PARTITIONS.by_table[table]) if status else None
        return set(subset.get_partition_keys()) if subset else set()

    def assert_true(self, *but: str) -> None:
        """Every table (``but`` some): materialized is published, and each event speaks about what is published."""
        for table in TABLES:
            if table not in but:
                assert self.told(table) == self.published(table), table
                assert set(self.newest(table)) == self.instance.get_materialized_partitions(dg.AssetKey(table))


@contextmanager
def dagster_chain(workshop: Workshop, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterChain]:
    """Dagster's memory in ``home``, where other processes find it too; with the event log of ``dagster.yaml``."""
    home.mkdir()
    log = f"{{module: {dagster_internals.__name__}, class: LocalStorage, config: {{base_dir: {home}}}}}"
    (home / "dagster.yaml").write_text(f"telemetry: {{enabled: false}}\nstorage: {{custom: {log}}}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv(dagster_internals.EVENT_BATCH_SIZE, "1000")
    with dg.DagsterInstance.get() as instance:
        yield DagsterChain(workshop, instance)


def day_texts(days: DayRange) -> Days:
    return {str(day) for day in days}


def gate_descriptions(instance: dg.DagsterInstance, run: str, table: str) -> dict[date, str]:
    """What the failed gates of ``table`` said in a run, by day."""
    return {
        date.fromisoformat(str(each.partition)): str(each.description)
        for each in evaluated(instance, run, table)
        if not each.passed
    }
