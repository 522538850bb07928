"""Two assets beside the nine steps of a campaign: to plan and start it in the UI, and to roll it back."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
from collections.abc import Mapping
from datetime import datetime

import dagster as dg
from pydantic import Field

from backfill_assets.campaign.run import Options
from backfill_assets.campaign.undo import Undone, plan_undo
from backfill_assets.campaign.undo_request import carry_out_undo
from backfill_assets.defs.campaigns.steps import CAMPAIGNS, GROUP, PLANNED, step_key
from backfill_assets.defs.events import plain_failure
from backfill_assets.defs.instance.guard import require_own_lakehouse
from backfill_assets.defs.partitions import Partitions
from backfill_assets.defs.resources import Backfill, person_behind
from backfill_assets.defs.sensors.partition_statuses import report_publication
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.lakehouse.campaign_journal import CampaignStep, campaign_of
from backfill_assets.lakehouse.plans import is_plan_id
from backfill_assets.plan.basis import PlanDrift
from backfill_assets.plan.keep import look_again, plan_and_keep, require_carried_out
from backfill_assets.plan.records import Plan, PlanRequest, Scope
from backfill_assets.plan.text import headline, markdown
from backfill_assets.plan.waves import Shares
from backfill_assets.publication.outbox import deliver
from backfill_assets.publication.rollback import newest_of
from backfill_assets.publication.senders import log_writer, sender_of
from backfill_assets.rebuild.person import Person

ROLLED_BACK = dg.AssetKey([GROUP, "rolled_back"])


class PlanConfig(dg.Config):
    """The configuration in the launchpad: the options of ``backfill plan`` and ``backfill run PLAN --daemon``."""

    target: str = Field(description="The table to rebuild; or the id of a plan, to show it again or to start it.")
    days: str = Field(default="", description="The days of the table: 2017-03-01..2017-05-29")
    version: str = Field(default="", description="The version of its logic; if empty, the current one.")
    scope: Scope = Field(default=Scope.ONWARDS, description="ONWARDS rebuilds the table and what is computed from it.")
    force: bool = Field(default=False, description="Also rebuild days that are unchanged.")
    expect: list[str] = Field(
        default=[], description='Expectations of the difference: "weekends unchanged", "revenue_eur < 2% a day".'
    )
    start: bool = Field(default=False, description="Start the plan: the sensor `campaigns` carries it out.")
    waves: str = Field(
        default=str(Shares()),
        description="The share of the days staged by the end of each wave. A plan that has its own keeps them.",
    )
    limits: str = Field(default="", description='Limits that stop it: "deviation=2%,gates=20%,seconds=3600".')
    roll_back_if_wrong: bool = Field(default=False, description="Roll back if a published day is not as staged.")


def launch_assets(tables: Mapping[str, Partitions], pool: str | None = None) -> list[dg.AssetsDefinition]:
    """``campaign/planned``, and ``campaign/rolled_back`` for each campaign. ``tables`` are those published to.

    Putting back may stage days again, with Spark: it is in ``pool``.
    """
    return [_planned_asset(), _rolled_back_asset(tables, pool)]


def _planned_asset() -> dg.AssetsDefinition:
    @dg.asset(
        key=PLANNED,
        group_name=GROUP,
        description="Before step 1. A plan from what you write in the launchpad, computed from logs alone and kept. "
        "With `start: true` the daemon carries it out until it waits for approval.",
    )
    def planned(
        context: dg.AssetExecutionContext, config: PlanConfig, backfill: Backfill
    ) -> dg.MaterializeResult[None]:
        require_own_lakehouse(context.instance, backfill.storage)
        try:
            plan, drift, now = _plan(config, backfill, person_behind(context.run.tags))
            if config.start:
                _start(plan, config, context, backfill)
        except BackfillError as error:
            raise plain_failure(error) from None
        return dg.MaterializeResult(
            metadata={
                "plan": plan.id,
                "in a sentence": headline(plan),
                "in full": dg.MetadataValue.md(markdown(plan, now, drift)),
                "campaign": campaign_of(plan.id) if config.start else "not started",
            }
        )

    return planned


def _plan(config: PlanConfig, backfill: Backfill, person: Person) -> tuple[Plan, PlanDrift | None, datetime]:
    if is_plan_id(config.target):
        if config.expect or config.days or config.version:
            raise InvalidRequest(
                f"{config.target} is kept and does not change.",
                hint="Leave days, version and expect empty, or name the table as target to plan anew.",
            )
        return look_again(backfill.settings, config.target)
    asked = PlanRequest(
        target=config.target,
        days=config.days,
        version=config.version,
        scope=config.scope,
        force=config.force,
    )
    plan, now = plan_and_keep(backfill.settings, asked, config.expect, by=person)
    return plan, None, now


def _start(plan: Plan, config: PlanConfig, context: dg.AssetExecutionContext, backfill: Backfill) -> None:
    at = backfill.campaign(campaign_of(plan.id), context.run, context.log.info)
    require_carried_out(backfill.settings, plan, started=at.state.started)
    # The launchpad always sends the waves: its default leaves those of the plan.
    waves = "" if config.waves == str(Shares()) else config.waves
    flags = {"daemon": True, "roll_back_if_wrong": config.roll_back_if_wrong}
    at.start(Options.of_plan(plan, waves, config.limits, **flags))


def _rolled_back_asset(tables: Mapping[str, Partitions], pool: str | None) -> dg.AssetsDefinition:
    @dg.asset(
        key=ROLLED_BACK,
        deps=[step_key(CampaignStep.CUT_OVER)],
        group_name=GROUP,
        partitions_def=CAMPAIGNS,
        pool=pool,
        description="Undo. Puts back all tables of the campaign at once; days that moved since its cut-over are staged "
        "again first. Can be undone itself: `backfill rollback` with the publication that it names.",
    )
    def rolled_back(context: dg.AssetExecutionContext, backfill: Backfill) -> dg.MaterializeResult[None]:
        require_own_lakehouse(context.instance, backfill.storage)
        try:
            done = _undo(context, backfill)
        except BackfillError as error:
            raise plain_failure(error) from None
        log = backfill.publications()
        if log is not None:
            report_publication(context.instance, log, tables, done.published.publication, context.run.run_id)
        return dg.MaterializeResult(
            metadata={
                "publication": done.published.publication,
                "undoes": done.plan.publication,
                "days put back": len(done.plan.days) - len(done.plan.again),
                "days staged again": len(done.plan.again),
                "to undo it": f"backfill rollback {done.published.publication}",
            }
        )

    return rolled_back


def _undo(context: dg.AssetExecutionContext, backfill: Backfill) -> Undone:
    at = backfill.campaign(context.partition_key, context.run, context.log.info)
    lake = at.builder.lake
    plan = plan_undo(lake, newest_of(lake.publisher, at.campaign))
    done = carry_out_undo(lake, plan, at.run, context.log.info)
    deliver(lake.publisher, sender_of(backfill.settings.notices, log_writer(context.log)))
    return done
