"""Timelines that are kept fresh as an asset with a schedule: every night each of them is brought up to date."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import dagster as dg

from backfill_assets.answers.timelines import freshened_answer
from backfill_assets.datasets import registry
from backfill_assets.defs.events import failing_plainly, plain_failure
from backfill_assets.defs.instance.guard import require_own_lakehouse
from backfill_assets.defs.private_dagster import UnresolvedAssetJobDefinition
from backfill_assets.defs.resources import Backfill, run_info
from backfill_assets.defs.schedules import nightly_schedule
from backfill_assets.defs.specs import UNDER_THE_HOOD
from backfill_assets.errors import BackfillError
from backfill_assets.model.current_versions import switch_notes
from backfill_assets.publication_log.log import utc_now
from backfill_assets.rebuild.lake import Lake
from backfill_assets.report.markdown import markdown
from backfill_assets.text import bullets
from backfill_assets.timeline.forward import Forwarded
from backfill_assets.timeline.of_version import bring_up_to_date, fresh_timelines

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
            "Brings the timelines up to date that are kept fresh for a version of a step: new and stale days are "
            "computed on them, beside what is published. Starts no Spark if there is nothing to compute. Reports "
            "which steps have another current version than the declared one."
        ),
    )
    def refresh_all(context: dg.AssetExecutionContext, backfill: Backfill) -> dg.MaterializeResult[None]:
        with failing_plainly():
            require_own_lakehouse(context.instance, backfill.storage)
            lake = backfill.builder().lake
            done = _refresh_all(context, lake)
        staged = sum(len(part.staged) for each in done for part in each.steps)
        return dg.MaterializeResult(
            metadata={
                "timelines": dg.MetadataValue.md(markdown(freshened_answer(done))),
                "versions": dg.MetadataValue.md(
                    bullets(switch_notes(registry.steps(), lake.switches())) or "as declared"
                ),
                "days_computed": dg.MetadataValue.int(staged),
            }
        )

    return refresh_all


def _refresh_all(context: dg.AssetExecutionContext, lake: Lake) -> list[Forwarded]:
    """One after the other: one that cannot be brought up to date fails the run, after the others."""
    done: list[Forwarded] = []
    failed: list[BackfillError] = []
    for found in fresh_timelines(lake.storage, lake.publisher.now()):
        try:
            done.append(bring_up_to_date(lake, registry.steps(), found, run_info(context.run), context.log.info))
        except BackfillError as error:
            context.log.warning(f"{found.name}: {error}")
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
        description="Brings the timelines up to date that are kept fresh, once.",
    )


def standby_schedule(job: "UnresolvedAssetJobDefinition", cron: str = _HALF_PAST_FOUR) -> dg.ScheduleDefinition:
    """On from the start: it does something only once a timeline is to be kept fresh."""
    description = "Brings the timelines up to date that are kept fresh, after the daily jobs. Idle without any."
    return nightly_schedule(SCHEDULE, job, cron, CRON_VARIABLE, description, _why_idle)


def _why_idle(backfill: Backfill) -> str:
    return "" if fresh_timelines(backfill.storage, utc_now()) else "No timeline is kept fresh."
