"""Turns declared datasets into a Dagster code location, or into a part of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from types import ModuleType
from typing import Any

import dagster as dg
from dagster_shared.utils.warnings import disable_dagster_warnings

from backfill_assets.days import Cadence
from backfill_assets.defs.assets import step_assets
from backfill_assets.defs.campaigns.carry_on import Code
from backfill_assets.defs.campaigns.example import PlanExample, plan_example
from backfill_assets.defs.campaigns.jobs import campaign_jobs
from backfill_assets.defs.campaigns.launch import launch_assets
from backfill_assets.defs.campaigns.sensor import campaign_sensor
from backfill_assets.defs.campaigns.shadow import shadow_assets
from backfill_assets.defs.campaigns.steps import campaign_assets
from backfill_assets.defs.instance.event_log import batch_events
from backfill_assets.defs.maintenance import maintenance_asset, maintenance_job, maintenance_schedule
from backfill_assets.defs.partitions import Chain, Partitions
from backfill_assets.defs.resources import EMBEDDED_SPARK, Backfill, SharedSpark
from backfill_assets.defs.schedules import DAILY_CRON, daily_job, daily_schedule, schedule_name
from backfill_assets.defs.sensors.landed_files import landed_file_sensor
from backfill_assets.defs.sensors.partition_ends import ends_of_data, partition_end_sensor
from backfill_assets.defs.sensors.partition_statuses import partition_status_sensor
from backfill_assets.defs.sensors.repairs import repair_sensor
from backfill_assets.defs.standbys import standby_asset, standby_job, standby_schedule
from backfill_assets.defs.start_here import start_here_sensor, start_here_spec
from backfill_assets.defs.streams.assets import COMMAND, StreamedDataset, stream_asset
from backfill_assets.defs.streams.sensor import stream_sensor
from backfill_assets.defs.timelines.shown import timelines_sensor, timelines_spec
from backfill_assets.defs.watchdogs import watchdog_job, watchdog_schedule
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog, chains, discover
from backfill_assets.model.declaration import Dataset
from backfill_assets.model.graph import build_order
from backfill_assets.settings import Settings


def backfill_definitions(
    datasets: ModuleType | Catalog,
    *,
    settings: Settings | None = None,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,
) -> dg.Definitions:
    """Everything that Dagster has for ``datasets``: a package that declares them, or a catalogue of them.

    It is a whole code location, or is merged with what there is by ``dg.Definitions.merge``: its resources are called
    ``backfill`` and ``backfill_spark``. Without ``settings``, those of the environment count. A location has one
    executor; None leaves it to what it is merged with. Each process that builds then starts a Spark of its own, unless
    ``SPARK_REMOTE`` names a server.
    """
    batch_events()
    catalog = datasets if isinstance(datasets, Catalog) else discover(datasets)
    chosen = settings or Settings.from_environment()
    spark = SharedSpark(settings=chosen)
    return code_location(
        catalog.datasets,
        {"backfill_spark": spark, "backfill": Backfill(settings=chosen, catalog=catalog, spark=spark)},
        days_per_run=chosen.days_per_run,
        pool=None if chosen.spark_remote else EMBEDDED_SPARK,
        example=plan_example(catalog.datasets, Storage(str(chosen.lakehouse))),
        last_days=ends_of_data(catalog.datasets, chosen) or {},
        executor=executor,
    )


def code_location(
    datasets: Sequence[Dataset],
    resources: Mapping[str, Any],
    *,
    days_per_run: int | None = None,
    pool: str | None = None,
    stream_command: Sequence[str] = COMMAND,
    example: PlanExample | None = None,
    last_days: Mapping[str, date] | None = None,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,
) -> dg.Definitions:
    """Assets, gates, daily jobs, schedules and sensors for ``datasets``. ``resources`` must have ``backfill``.

    Steps run one after the other in the run's own process: they share one Spark session, and another process for each
    would cost ten seconds a step. ``days_per_run`` is the backfill policy: None puts a range into one run. Of the runs
    in one ``pool``, as many work at once as ``dagster.yaml`` allows. ``stream_command`` starts the process of a stream.
    ``example`` is what the launchpad of a campaign opens with.
    ``last_days`` has, by dataset, the last day of those whose data has ended: their partitions end with it.
    """
    streamed, ends = streamed_datasets(datasets), dict(last_days or {})
    partitions = table_partitions(datasets, ends)
    jobs = {_name(chain): daily_job(_name(chain), _daily_tables(chain)) for chain in chains(datasets)}
    watch, maintain, refresh = watchdog_job(datasets, partitions), maintenance_job(), standby_job()
    of_campaigns = campaign_jobs()
    found: dg.Definitions

    def code() -> dg.Definitions:
        return found

    found = dg.Definitions(
        assets=[
            start_here_spec(datasets),
            timelines_spec(),
            *_assets(datasets, days_per_run, pool, ends),
            *_campaign_assets(datasets, code, example or plan_example(datasets), pool, ends),
            *(stream_asset(each, stream_command) for each in streamed),
            maintenance_asset,
            standby_asset(pool),
        ],
        jobs=[*jobs.values(), watch, maintain, refresh, *of_campaigns],
        schedules=[
            *(daily_schedule(name, job) for name, job in jobs.items()),
            watchdog_schedule(watch),
            maintenance_schedule(maintain),
            standby_schedule(refresh),
        ],
        sensors=[
            partition_status_sensor(partitions),
            repair_sensor(datasets, partitions),
            landed_file_sensor(datasets, partitions),
            campaign_sensor(of_campaigns),
            timelines_sensor(),
            start_here_sensor(datasets, partitions),
            *([partition_end_sensor(datasets, last_days)] if last_days is not None else []),
            *([stream_sensor(streamed)] if streamed else []),
        ],
        resources=dict(resources),
        executor=executor,
    )
    return found


def streamed_datasets(datasets: Sequence[Dataset]) -> list[StreamedDataset]:
    """The datasets that have an asset for their stream, with the schedule that goes on beside it."""
    return [
        StreamedDataset(dataset, schedule_name(_name(chain)), DAILY_CRON)
        for chain in chains(datasets)
        for dataset in chain
        if dataset.streamed
    ]


def table_partitions(datasets: Sequence[Dataset], last_days: Mapping[str, date] | None = None) -> dict[str, Partitions]:
    """The partitions of every table; ``last_days`` are those of datasets whose data has ended."""
    ends = last_days or {}
    return {
        table.name: Chain(dataset.first_day, last=ends.get(dataset.name)).of(step)
        for dataset in datasets
        for step in dataset.steps
        for table in step.tables
    }


def _assets(
    datasets: Sequence[Dataset], days_per_run: int | None, pool: str | None, last_days: Mapping[str, date]
) -> list[dg.AssetsDefinition]:
    tables = {table.name: table for dataset in datasets for table in dataset.tables}
    names = {dataset.name: _name(chain) for chain in chains(datasets) for dataset in chain}
    chain_of = {
        dataset.name: Chain(dataset.first_day, days_per_run, names[dataset.name], last_days.get(dataset.name))
        for dataset in datasets
    }
    steps = build_order([step for dataset in datasets for step in dataset.steps])
    # Partitioned checks are in preview in this Dagster; its version is pinned, and the tests are the guard.
    with disable_dagster_warnings():
        return [
            step_assets(step, dataset, chain_of[dataset.name], tables.__getitem__, steps, pool)
            for dataset in datasets
            for step in dataset.steps
        ]


def _campaign_assets(
    datasets: Sequence[Dataset], code: Code, example: PlanExample, pool: str | None, last_days: Mapping[str, date]
) -> list[dg.AssetsDefinition]:
    """The nine steps, where they begin and are undone, and a shadow copy of all that a campaign can stage."""
    with disable_dagster_warnings():
        shadows = [
            asset
            for chain in chains(datasets)
            for asset in shadow_assets(
                [step for dataset in chain for step in dataset.steps],
                Chain(chain[0].first_day, name=_name(chain), last=last_days.get(chain[0].name)),
                pool,
            )
        ]
        published_to = table_partitions(datasets, last_days)
        return [
            *campaign_assets(published_to, code, pool),
            *launch_assets(published_to, code, example, pool),
            *shadows,
        ]


def _name(chain: Sequence[Dataset]) -> str:
    """A chain is named for what it leads to: the dataset that reads the others."""
    return chain[-1].name


def _daily_tables(chain: Sequence[Dataset]) -> list[str]:
    """Weeks and months follow when their days are there; a job has partitions of one kind."""
    daily = [step for dataset in chain for step in dataset.steps if step.cadence is Cadence.DAILY]
    return [table.name for step in daily for table in step.tables]
