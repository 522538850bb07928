"""Versions on standby as an asset with a schedule: every night each of them is brought up to date."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
from collections.abc import Sequence

import dagster as dg

from backfill_assets.defs.events import failing_plainly, plain_failure
from backfill_assets.defs.instance.guard import require_own_lakehouse
from backfill_assets.defs.metadata import metadata_table
from backfill_assets.defs.private_dagster import UnresolvedAssetJobDefinition
from backfill_assets.defs.resources import Backfill, run_info
from backfill_assets.defs.schedules import nightly_schedule
from backfill_assets.defs.specs import UNDER_THE_HOOD
from backfill_assets.errors import BackfillError
from backfill_assets.publication_log.log import utc_now
from backfill_assets.rebuild.lake import Lake
from backfill_assets.timeline.standby import Refreshed, kept_standbys, refresh_standby
from backfill_assets.timeline.version_states import StepVersions, step_versions

ASSET, JOB, SCHEDULE = "standby_versions", "refresh_standbys", "standbys_every_night"
CRON_VARIABLE = "BACKFILL_STANDBY_CRON"
_HALF_PAST_FOUR = "30 4 * * *"
"""After the daily jobs: their new days come along."""


def standby_asset(pool: str | None = None) -> dg.AssetsDefinition:
    """The asset; its runs may start a JVM, so they share the limit of ``pool``."""

    @dg.asset(
        name=ASSET,
        group_name=UNDER_THE_HOOD,
        kinds={"deltalake"},
        pool=pool,
        description=(
            "Brings the versions that are kept on standby up to date: new and stale days are computed on their "
            "timelines, beside what is published. Starts no Spark if there is nothing to compute. Reports which "
            "version of each step is current since when."
        ),
    )
    def refresh_all(context: dg.AssetExecutionContext, backfill: Backfill) -> dg.MaterializeResult[None]:
        with failing_plainly():
            require_own_lakehouse(context.instance, backfill.storage)
            lake = backfill.builder().lake
            done = _refresh_all(context, lake)
            versions = step_versions(lake, lake.catalog.steps)
        staged = sum(len(part.staged) for each in done for part in each.steps)
        return dg.MaterializeResult(
            metadata={
                "standbys": _standby_table(done),
                "versions": _version_table(versions),
                "days_computed": dg.MetadataValue.int(staged),
            }
        )

    return refresh_all


def _refresh_all(context: dg.AssetExecutionContext, lake: Lake) -> list[Refreshed]:
    """One after the other: one that cannot be brought up to date fails the run, after the others."""
    done: list[Refreshed] = []
    failed: list[BackfillError] = []
    for found in kept_standbys(lake.storage, lake.publisher.now()):
        try:
            done.append(refresh_standby(lake, lake.catalog.steps, found, run_info(context.run), context.log.info))
        except BackfillError as error:
            context.log.warning(f"{found[0].name}: {error}")
            failed.append(error)
    if failed:
        raise plain_failure(failed[0])
    for each in done:
        for line in each.timeline.held_back:
            context.log.warning(f"{each.timeline.name}: {line} is held back, and stays as it was")
    return done


def standby_job() -> "UnresolvedAssetJobDefinition":
    return dg.define_asset_job(
        JOB,
        selection=dg.AssetSelection.assets(ASSET),
        executor_def=dg.in_process_executor,
        description="Brings the versions on standby up to date, once.",
    )


def standby_schedule(job: "UnresolvedAssetJobDefinition", cron: str = _HALF_PAST_FOUR) -> dg.ScheduleDefinition:
    """On from the start: it does something only once a person has declared a standby."""
    description = "Brings the versions on standby up to date, after the daily jobs. Idle without any."
    return nightly_schedule(SCHEDULE, job, cron, CRON_VARIABLE, description, _why_idle)


def _why_idle(backfill: Backfill) -> str:
    return "" if kept_standbys(backfill.storage, utc_now()) else "No version is kept on standby."


_STANDBY_COLUMNS = {
    "timeline": "string",
    "table": "string",
    "version": "string",
    "kept": "int",
    "from_main": "int",
    "staged": "int",
    "held_back": "int",
    "note": "string",
}


def _standby_table(done: Sequence[Refreshed]) -> dg.MetadataValue:
    return metadata_table(
        _STANDBY_COLUMNS,
        (
            {
                "timeline": each.timeline.name,
                "table": part.step if part else each.standby.step,
                "version": part.version if part else each.standby.version,
                "kept": len(part.kept) if part else 0,
                "from_main": len(part.from_main) if part else 0,
                "staged": len(part.staged) if part else 0,
                "held_back": len({held.day for held in part.held_back}) if part else 0,
                "note": each.note,
            }
            for each in done
            for part in each.steps or (None,)
        ),
    )


_VERSION_COLUMNS = {"step": "string", "current": "string", "declared": "string", "since": "string", "by": "string"}


def _version_table(found: Sequence[StepVersions]) -> dg.MetadataValue:
    return metadata_table(
        _VERSION_COLUMNS,
        (
            {
                "step": each.step,
                "current": each.current,
                "declared": each.declared,
                "since": f"{each.switched_at:%Y-%m-%d %H:%M:%SZ}" if each.switched_at else "",
                "by": each.switched_by or "declared",
            }
            for each in found
        ),
    )
