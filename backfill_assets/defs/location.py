"""Turns declared datasets into a Dagster code location."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import dagster as dg
from dagster_shared.utils.warnings import disable_dagster_warnings

from backfill_assets.defs.assets import step_assets
from backfill_assets.defs.campaigns.jobs import campaign_jobs, campaign_sensor, campaign_spec
from backfill_assets.defs.dagster_internals import batch_events, log_to
from backfill_assets.defs.incidents import incident_job, incidents_spec, show_incidents
from backfill_assets.defs.log_checks import log_checks_page
from backfill_assets.defs.partitions import PartitionedTables, Partitions
from backfill_assets.defs.resources import EMBEDDED_SPARK, Backfill, SharedSpark
from backfill_assets.defs.sensors.external_tables import external_specs, external_tables_sensor
from backfill_assets.defs.sensors.landed_files import landed_file_sensor
from backfill_assets.defs.sensors.repairs import repair_sensor, restore_sensor
from backfill_assets.defs.sensors.shows_what_is import days_of_data, shows_what_is_sensor
from backfill_assets.defs.start_here import start_here_page, start_here_spec
from backfill_assets.defs.streams import COMMAND, StreamedDataset, stream_asset, stream_sensor
from backfill_assets.defs.timelines import show_timelines, timeline_job, timelines_spec
from backfill_assets.defs.upkeep import daily, upkeep_jobs, upkeep_schedules
from backfill_assets.defs.watchdogs import watchdog_job, watchdog_schedule
from backfill_assets.errors import InvalidRequest
from backfill_assets.landing.data_days import DataDays
from backfill_assets.model.catalog import Catalog, discover
from backfill_assets.model.logic import logic_of
from backfill_assets.report.json_log import install as log_as_json
from backfill_assets.report.json_log import json_handler
from backfill_assets.settings import Settings, logs_as_json
from backfill_assets.text import suggest_or_list
from backfill_assets.upkeep.bounds import RepairBounds


def backfill_definitions(
    datasets: ModuleType | Catalog,
    *,
    settings: Settings | None = None,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,
) -> dg.Definitions:
    """Everything that Dagster has for ``datasets``, a package that declares them or a catalogue.

    Resources are ``backfill`` and ``backfill_spark``. ``executor`` None leaves it to the definitions that it is merged
    with; then each process starts its own Spark, unless ``SPARK_REMOTE`` names a server. A dataset that is declared
    wrong is left out, with a warning.
    """
    batch_events()
    if logs_as_json():
        log_as_json()
        log_to(json_handler)
    catalog = datasets if isinstance(datasets, Catalog) else discover(datasets)
    for each in catalog.left_out:
        dg.get_dagster_logger("backfill").warning(str(each))
    chosen = settings or Settings.from_environment()
    RepairBounds.parse(chosen.repairs)  # Raises for invalid bounds before anything is loaded.
    for version in (version for step in catalog.steps for version in step.versions):
        logic_of(version)  # Cached now: a file edited later is not the code of this process.
    spark = SharedSpark(settings=chosen)
    return code_location(
        catalog,
        {"backfill_spark": spark, "backfill": Backfill(settings=chosen, catalog=catalog, spark=spark)},
        days_per_run=chosen.days_per_run,
        pool=None if chosen.spark_remote else EMBEDDED_SPARK,
        data=days_of_data(catalog, chosen) or {},
        executor=executor,
    )


def partitions_of(definitions: dg.Definitions, table: str) -> Partitions:
    """The partitions of ``table`` in the result of :func:`backfill_definitions`; raises :class:`InvalidRequest`.

    An asset below it is built in the same run only with this very object.
    """
    found = {
        spec.key.to_user_string(): spec.partitions_def
        for spec in definitions.resolve_all_asset_specs()
        if isinstance(spec.partitions_def, Partitions)
    }
    if table not in found:
        hint = suggest_or_list(table, found, "Tables")
        raise InvalidRequest(f"There is no table {table!r} in these definitions.", hint=hint)
    return found[table]


def code_location(
    catalog: Catalog,
    resources: Mapping[str, Any],
    *,
    days_per_run: int | None = None,
    pool: str | None = None,
    stream_command: Sequence[str] = COMMAND,
    data: Mapping[str, DataDays] | None = None,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,
) -> dg.Definitions:
    """Assets, checks, jobs, schedules and sensors; ``resources`` has ``backfill`` and ``backfill_spark``.

    Steps share the run's process and Spark session: another would cost ten seconds a step.
    """
    tables = PartitionedTables(catalog, data, days_per_run)
    streamed = [StreamedDataset(each) for chain in catalog.chains for each in chain if each.streamed]
    watch, (maintain, refresh, restore) = watchdog_job(tables), upkeep_jobs(pool)
    pages = {
        "log_checks": log_checks_page(tables),
        "start_here": start_here_page(tables),
        "timelines": show_timelines,
        "incidents": show_incidents,
    }
    everything = dg.Definitions(
        assets=[
            start_here_spec(catalog),
            campaign_spec(),
            timelines_spec(),
            incidents_spec(),
            *_assets(tables, pool),
            *external_specs(tables),
            *(stream_asset(each, stream_command) for each in streamed),
        ],
        jobs=[
            *(watch, maintain, refresh, restore, timeline_job(catalog.steps, pool), incident_job()),
            *campaign_jobs(tables, pool),
        ],
        schedules=[watchdog_schedule(watch), *upkeep_schedules(maintain, refresh)],
        sensors=[
            shows_what_is_sensor(tables, pages),
            repair_sensor(tables),
            restore_sensor(),
            landed_file_sensor(tables),
            campaign_sensor(),
            *([stream_sensor(streamed)] if streamed else []),
            *([external_tables_sensor(tables)] if any(step.external for step in catalog.steps) else []),
        ],
        resources=dict(resources),
        executor=executor,
    )
    return dg.Definitions.merge(everything, *(daily(chain, tables) for chain in catalog.chains))


def _assets(tables: PartitionedTables, pool: str | None) -> list[dg.AssetsDefinition]:
    catalog = tables.catalog
    # Partitioned checks are in preview in this Dagster; its version is pinned, and the tests are the guard.
    with disable_dagster_warnings():
        return [
            step_assets(step, dataset, tables.chain_of[dataset.name], catalog.table, catalog.steps, pool)
            for dataset in catalog.datasets
            for step in dataset.steps
            if not step.external
        ]
