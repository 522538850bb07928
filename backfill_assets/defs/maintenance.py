"""Maintenance as an asset with a schedule: every materialization reports what it did."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import dagster as dg

from backfill_assets.defs.events import plain_failure
from backfill_assets.defs.instance.guard import require_own_lakehouse
from backfill_assets.defs.metadata import metadata_table
from backfill_assets.defs.private_dagster import UnresolvedAssetJobDefinition
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.schedules import nightly_schedule
from backfill_assets.defs.specs import UNDER_THE_HOOD
from backfill_assets.errors import BackfillError
from backfill_assets.upkeep.maintenance import Done

ASSET, JOB, SCHEDULE = "maintenance", "maintain", "maintenance_every_night"
CRON_VARIABLE = "BACKFILL_MAINTENANCE_CRON"
_THREE_IN_THE_MORNING = "0 3 * * *"


@dg.asset(
    name=ASSET,
    group_name=UNDER_THE_HOOD,
    kinds={"deltalake"},
    description=(
        "Compacts days of many small files, closes abandoned timelines, and deletes files that no "
        "rollback window, open plan, open timeline or pinned version needs. Reports what it did."
    ),
)
def maintenance_asset(context: dg.AssetExecutionContext, backfill: Backfill) -> dg.MaterializeResult[None]:
    """Plans and carries out in one run, so that the plan is seconds old."""
    try:
        require_own_lakehouse(context.instance, backfill.storage)
        maintenance = backfill.maintenance()
        done = maintenance.carry_out(maintenance.plan(), context.log.info)
    except BackfillError as error:
        raise plain_failure(error) from None
    reclaimed = sum(each.task.bytes for each in done)
    return dg.MaterializeResult(
        metadata={"done": _table(done), "tasks": dg.MetadataValue.int(len(done)), "bytes": reclaimed}
    )


def maintenance_job() -> "UnresolvedAssetJobDefinition":
    return dg.define_asset_job(
        JOB,
        selection=dg.AssetSelection.assets(ASSET),
        executor_def=dg.in_process_executor,
        description="Maintenance, once.",
    )


def maintenance_schedule(
    job: "UnresolvedAssetJobDefinition", cron: str = _THREE_IN_THE_MORNING
) -> dg.ScheduleDefinition:
    """On from the start: it deletes only what nothing needs, and a full disk would stop every run."""
    description = "Compacts, closes and reclaims. Keeps what a rollback, a plan or a pinned version needs."
    return nightly_schedule(SCHEDULE, job, cron, CRON_VARIABLE, description)


_COLUMNS = {
    "chore": "string",
    "table": "string",
    "items": "int",
    "bytes": "int",
    "outcome": "string",
    "why": "string",
}


def _table(done: tuple[Done, ...]) -> dg.MetadataValue:
    return metadata_table(
        _COLUMNS,
        (
            {
                "chore": each.task.chore.value,
                "table": each.task.table,
                "items": len(each.task.items),
                "bytes": each.task.bytes,
                "outcome": each.outcome,
                "why": each.task.why,
            }
            for each in done
        ),
    )
