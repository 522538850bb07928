"""Daily and nightly jobs with their schedules."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
from collections.abc import Sequence

import dagster as dg
from pydantic import Field

from backfill_assets import clock
from backfill_assets.days import Cadence, parse_day
from backfill_assets.defs.dagster_internals import PRIORITY_TAG
from backfill_assets.defs.own_lakehouse import IS_OFF, lakehouse_job, nightly_schedule
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.resources import Backfill, run_info
from backfill_assets.defs.specs import VERIFY_TAG, VERSION_TAG
from backfill_assets.errors import BackfillError
from backfill_assets.model.current_versions import switch_notes
from backfill_assets.model.dataset import Dataset
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.text import format_count, format_ranges, format_size
from backfill_assets.timeline.of_version import bring_up_to_date, fresh_timelines

MAINTAIN, REFRESH, RESTORE = "maintain", "refresh_timelines", "restore_raw"
RESTORE_OP = f"{RESTORE}_once"


class RestoreConfig(dg.Config):
    """Whose lost rows are to be put back."""

    table: str = Field(description="A raw table: raw_sales.")
    days: list[str] = Field(description="The days that have lost files: 2017-03-04.")


def upkeep_jobs(pool: str | None = None) -> tuple[dg.JobDefinition, dg.JobDefinition, dg.JobDefinition]:
    return (
        lakehouse_job(
            MAINTAIN,
            "maintain_once",
            "Compacts days of many small files, closes abandoned staging, and deletes files that no rollback window, "
            "open plan, open timeline or pinned version needs.",
            None,
            _maintain,
        ),
        lakehouse_job(
            REFRESH,
            "refresh_timelines_once",
            "Brings the timelines up to date that are kept fresh for a version of a step: new and stale days are "
            "computed on them, beside what is published. Starts no Spark if there is nothing to compute.",
            None,
            _refresh_timelines,
            pool=pool,
        ),
        lakehouse_job(
            RESTORE,
            RESTORE_OP,
            "Restores raw days whose files are gone or damaged: reads their rows again from landed files and bronze, "
            "and publishes them if they are the very rows that were lost. The sensor repairs launches it.",
            RestoreConfig,
            _restore,
            pool=pool,
        ),
    )


def upkeep_schedules(maintain: dg.JobDefinition, refresh: dg.JobDefinition) -> Sequence[dg.ScheduleDefinition]:
    return (
        nightly_schedule(
            "maintenance_every_night",
            maintain,
            "0 3 * * *",
            "BACKFILL_MAINTENANCE_CRON",
            "Compacts, closes and reclaims. Keeps what a rollback, a plan or a pinned version needs.",
        ),
        nightly_schedule(
            "timelines_every_night",
            refresh,
            "30 4 * * *",
            "BACKFILL_TIMELINES_CRON",
            "Brings the timelines up to date that are kept fresh, after the daily jobs. Idle without any.",
            lambda backfill: "" if fresh_timelines(backfill.storage, clock.now()) else "No timeline is kept fresh.",
        ),
    )


def _maintain(context: dg.OpExecutionContext, _: None, backfill: Backfill) -> None:
    maintenance = backfill.maintenance()
    done = maintenance.carry_out(maintenance.plan(), context.log.info)
    for each in done:
        task = each.task
        what = f"{task.chore.value} {task.table}, {format_count(len(task.items), 'item')}, {format_size(task.bytes)}"
        context.log.info(f"{what}: {each.outcome}. {task.why}")
    context.log.info(f"{format_count(len(done), 'task')}, {format_size(sum(each.task.bytes for each in done))}")


def _refresh_timelines(context: dg.OpExecutionContext, _: None, backfill: Backfill) -> None:
    lake = backfill.builder().lake
    failed: list[BackfillError] = []
    for found in fresh_timelines(lake.storage, clock.now()):
        try:
            done = bring_up_to_date(lake, found, run_info(context.run, lake.catalog), context.log.info)
        except BackfillError as error:
            context.log.warning(f"{found.name}: {error}")
            failed.append(error)
            continue
        for part in done.steps:
            counts = f"{len(part.staged)} computed, {len(part.from_main)} from main, {len(part.kept)} kept"
            context.log.info(f"{done.timeline.name}: {part.step} by {part.version}: {counts}")
        for line in (done.note, *(f"{each} is held back, and stays as it was" for each in done.timeline.held_back)):
            if line:
                context.log.warning(f"{done.timeline.name}: {line}")
    for note in switch_notes(lake.catalog.steps, lake.switches()):
        context.log.info(note)
    if failed:
        raise failed[0]


def _restore(context: dg.OpExecutionContext, config: RestoreConfig, backfill: Backfill) -> None:
    builder, days = backfill.builder(), [parse_day(day) for day in config.days]
    step, run = builder.lake.catalog.step(config.table), run_info(context.run, builder.lake.catalog)
    done = builder.restore(step, days, run=run, progress=context.log.info)
    days_back = format_ranges(each.day for each in done.days) or "nothing"
    context.log.info(f"{config.table}: put back {days_back}. {done.publication}")


_HOUR_UTC = 2
_BEFORE_ANY_BACKFILL = "10"


def daily(chain: Sequence[Dataset], partitioned: PartitionedTables) -> dg.Definitions:
    """Yesterday's job, at two o'clock UTC; a dataset joins once something of it is published."""
    name, tables = chain[-1].name, [table for dataset in chain for table in daily_tables(dataset)]
    if not tables:
        return dg.Definitions()
    job = dg.define_asset_job(
        f"daily_{name}",
        selection=dg.AssetSelection.assets(*tables),
        description=f"Ingests what arrived on a day and brings it through to the daily tables of {name}. A day that a "
        "stream has extended is built whole, and published if it differs. A day that is published keeps the version of "
        "the logic that it was published with; a new day gets the current one.",
        executor_def=dg.in_process_executor,
        tags={PRIORITY_TAG: _BEFORE_ANY_BACKFILL, VERIFY_TAG: "extended days", VERSION_TAG: AS_PUBLISHED},
    )

    @dg.schedule(
        name=schedule_name(name),
        job=job,
        cron_schedule=f"0 {_HOUR_UTC} * * *",
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Builds the day that has just ended (UTC), of each dataset of which something is published.",
    )
    def every_day(context: dg.ScheduleEvaluationContext, backfill: Backfill) -> dg.RunRequest | dg.SkipReason:
        if not backfill.settings.automation:
            return dg.SkipReason(IS_OFF)
        begun = backfill.built_of(chain)
        days = partitioned.by_table[tables[0]].get_partition_keys(context.scheduled_execution_time)
        if not begun or not days:
            return dg.SkipReason(
                f"Nothing is published of {name} yet: materialize it once, then this schedule goes on."
            )
        some = None if len(begun) == len(chain) else [dg.AssetKey(t) for each in begun for t in daily_tables(each)]
        return dg.RunRequest(days[-1], partition_key=days[-1], asset_selection=some)

    return dg.Definitions(jobs=[job], schedules=[every_day])


def daily_tables(dataset: Dataset) -> list[str]:
    daily_steps = (step for step in dataset.steps if step.cadence is Cadence.DAILY and not step.external)
    return [table.name for step in daily_steps for table in step.tables]


def schedule_name(chain: str) -> str:
    return f"every_day_{chain}"
