"""Two assets beside the nine steps of a campaign: to plan and start it in the UI, and to roll it back."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import dagster as dg
from pydantic import Field

from backfill_assets.campaign.look import carry_out_undo
from backfill_assets.campaign.run import CampaignRun, Options
from backfill_assets.campaign.standing import PlanWord
from backfill_assets.campaign.undo import Undone, plan_undo
from backfill_assets.defs.campaigns.carry_on import STARTS_TAG, Code, launch_next_run, run_under_way
from backfill_assets.defs.campaigns.example import PlanExample
from backfill_assets.defs.campaigns.jobs import CAMPAIGNS, GROUP, PLANNED, ROLLED_BACK, step_key
from backfill_assets.defs.campaigns.next_step import Entries, after_plan, after_start, after_undo, in_markdown
from backfill_assets.defs.campaigns.pages import Pages
from backfill_assets.defs.events import failing_plainly
from backfill_assets.defs.instance.guard import require_own_lakehouse
from backfill_assets.defs.partitions import Partitions
from backfill_assets.defs.resources import Backfill, person_behind
from backfill_assets.defs.sensors.partition_statuses import report_publication
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import CampaignStep, campaign_of, plan_of
from backfill_assets.lakehouse.plans import is_plan_id
from backfill_assets.plan.basis import PlanDrift
from backfill_assets.plan.keep import look_again, plan_and_keep, require_carried_out
from backfill_assets.plan.records import Plan, PlanRequest, Scope
from backfill_assets.plan.text import markdown
from backfill_assets.plan.waves import Shares
from backfill_assets.publication.outbox import deliver
from backfill_assets.publication.senders import log_writer, sender_of
from backfill_assets.rebuild.person import Person


class PlanConfig(dg.Config):
    """The configuration in the launchpad: the options of ``backfill plan`` and ``backfill run PLAN --daemon``."""

    target: str = Field(default="", description="The table to rebuild. Ctrl-Space shows those that there are.")
    days: str = Field(default="", description="The days of the table to rebuild: 2017-03-01..2017-05-29")
    version: str = Field(default="", description="The version of its logic, as v2; if empty, the current one.")
    scope: Scope = Field(default=Scope.ONWARDS, description="ONWARDS rebuilds the table and what is computed from it.")
    force: bool = Field(default=False, description="Also rebuild days that are unchanged.")
    expect: list[str] = Field(
        default=[],
        description="What you expect of the difference; it stops where it is not so: "
        '["weekends unchanged", "rows unchanged", "revenue_eur < 2% a day"].',
    )
    plan: str = Field(
        default="",
        description="The id of a plan that is kept, to look at it again or to start it. Nothing is planned anew then.",
    )
    start: bool = Field(
        default=False, description="Start the plan at once: it is carried out until it waits for your approval."
    )
    waves: str = Field(
        default=str(Shares()),
        description="The share of the days staged by the end of each wave. A plan that has its own keeps them.",
    )
    limits: str = Field(default="", description='Limits that stop it: "deviation=2%,gates=20%,seconds=3600".')
    roll_back_if_wrong: bool = Field(default=False, description="Roll back if a published day is not as staged.")


def plan_schema(tables: Mapping[str, Any], example: PlanExample) -> dg.Field:
    """The launchpad: a filled example, and the tables to choose from.

    Every field has a value, so that it opens without an error. It is required as a whole, so that it opens at all:
    Dagster launches at once what needs no configuration.
    """
    fields = {name: dg.Field(field.config_type, **_default(field)) for name, field in _fields().items()}
    choices = dg.Enum("RebuiltTable", [dg.EnumValue(name) for name in tables])
    target, days = (_fields()[name].description for name in ("target", "days"))
    fields["target"] = dg.Field(choices, default_value=example.target, description=target)
    fields["days"] = dg.Field(str, default_value=example.days, description=days)
    return dg.Field(fields, is_required=True)


def _fields() -> Mapping[str, dg.Field]:
    return PlanConfig.to_fields_dict()


def _default(field: dg.Field) -> Mapping[str, Any]:
    return {"default_value": field.default_value, "description": field.description}


def launch_assets(
    tables: Mapping[str, Partitions], code: Code, example: PlanExample, pool: str | None = None
) -> list[dg.AssetsDefinition]:
    """``campaign/planned``, and ``campaign/rolled_back`` for each campaign. ``tables`` are those published to.

    ``code`` is the code location that they are in, ``example`` what the launchpad opens with. Putting back may stage
    days again, with Spark: it is in ``pool``.
    """
    return [_planned_asset(code, example), _rolled_back_asset(tables, pool)]


def _planned_asset(code: Code, example: PlanExample) -> dg.AssetsDefinition:
    @dg.asset(
        key=PLANNED,
        group_name=GROUP,
        config_schema=plan_schema(dict.fromkeys(example.tables), example),
        description="Begin here to rebuild days that are in use. *Materialize* opens a launchpad with an example: "
        "`target` is the table, `days` its days. A plan is computed from logs alone and kept; its page says what would "
        "be rebuilt, and has the link that starts it. No reader sees anything of it before you approve.",
    )
    def planned(context: dg.AssetExecutionContext, backfill: Backfill) -> dg.MaterializeResult[None]:
        config, pages = PlanConfig(**context.op_execution_context.op_config), Pages.of(context.run)
        with failing_plainly():
            require_own_lakehouse(context.instance, backfill.storage)
            plan, drift, now = _plan(config, example, backfill, person_behind(context.run.tags))
            words = _start(plan, config, context, backfill, code) if config.start else after_plan(plan, pages)
        return dg.MaterializeResult(
            metadata={
                **in_markdown(words),
                "plan": plan.id,
                "in full": dg.MetadataValue.md(markdown(plan, now, drift)),
                "campaign": campaign_of(plan.id) if config.start else "not started",
            }
        )

    return planned


def _plan(
    config: PlanConfig, example: PlanExample, backfill: Backfill, person: Person
) -> tuple[Plan, PlanDrift | None, datetime]:
    if kept := config.plan or (config.target if is_plan_id(config.target) else ""):
        # The launchpad always sends its example: only what a person has written over it counts.
        if config.expect or config.version or not example.is_left(config.target, config.days):
            raise InvalidRequest(
                f"{kept} is kept and does not change.",
                hint="Leave days, version and expect as the launchpad has them, or leave plan empty to plan anew.",
            )
        return look_again(backfill.settings, backfill.catalog, kept)
    asked = PlanRequest(
        target=config.target,
        days=config.days,
        version=config.version,
        scope=config.scope,
        force=config.force,
    )
    plan, now = plan_and_keep(backfill.settings, backfill.catalog, asked, config.expect, by=person)
    return plan, None, now


def _start(
    plan: Plan, config: PlanConfig, context: dg.AssetExecutionContext, backfill: Backfill, code: Code
) -> Entries:
    """Start the plan, and launch its first run; returns what the page says."""
    at = backfill.campaign(campaign_of(plan.id), context.run, context.log.info)
    require_carried_out(backfill.settings, backfill.catalog, plan, started=at.state.started)
    _require_at_rest(context.instance, at)
    # The launchpad always sends the waves: its default leaves those of the plan.
    waves = "" if config.waves == str(Shares()) else config.waves
    flags = {"daemon": True, "roll_back_if_wrong": config.roll_back_if_wrong}
    # From here on the sensor leaves the campaign to this run.
    context.instance.add_run_tags(context.run_id, {STARTS_TAG: at.campaign})
    at.start(Options.of_plan(plan, waves, config.limits, **flags))
    return after_start(plan, len(at.waves), Pages.of(context.run), launch_next_run(context, at, code))


def _require_at_rest(instance: dg.DagsterInstance, at: CampaignRun) -> None:
    if at.state.started and (run_id := run_under_way(instance, at.campaign)):
        raise InvalidRequest(
            f"{at.campaign} is under way already, by the run {run_id[:8]}: {at.next().reason}.",
            hint="Wait until it has ended, or terminate it on its page, and start the plan again.",
        )


def _rolled_back_asset(tables: Mapping[str, Partitions], pool: str | None) -> dg.AssetsDefinition:
    @dg.asset(
        key=ROLLED_BACK,
        deps=[step_key(CampaignStep.CUT_OVER)],
        group_name=GROUP,
        partitions_def=CAMPAIGNS,
        pool=pool,
        description="**Materializing this undoes the campaign**: all of its tables are put back at once, for every "
        "reader; days that moved since its cut-over are staged again first. Can be undone itself: `backfill rollback` "
        "with the publication that it names.",
    )
    def rolled_back(context: dg.AssetExecutionContext, backfill: Backfill) -> dg.MaterializeResult[None]:
        with failing_plainly():
            require_own_lakehouse(context.instance, backfill.storage)
            done = _undo(context, backfill)
            log = backfill.publications()
            if log is not None:
                report_publication(context.instance, log, tables, done.published.publication, context.run.run_id)
        return dg.MaterializeResult(
            metadata={
                **in_markdown(_after_undo(context, done)),
                "publication": done.published.publication,
                "undoes": done.plan.publication,
                "days put back": len(done.plan.days) - len(done.plan.again),
                "days staged again": len(done.plan.again),
            }
        )

    return rolled_back


def _after_undo(context: dg.AssetExecutionContext, done: Undone) -> Entries:
    again = len(done.plan.again)
    pages, plan = Pages.of(context.run), plan_of(context.partition_key)
    return after_undo(plan, done.published.publication, len(done.plan.days) - again, again, pages)


def _undo(context: dg.AssetExecutionContext, backfill: Backfill) -> Undone:
    at = backfill.campaign(context.partition_key, context.run, context.log.info)
    lake = at.builder.lake
    at.require(PlanWord.ROLLBACK)
    plan = plan_undo(lake, at.facts.publication)
    done = carry_out_undo(lake, plan, at.run, context.log.info)
    deliver(lake.publisher, sender_of(backfill.settings.notices, log_writer(context.log)))
    return done
