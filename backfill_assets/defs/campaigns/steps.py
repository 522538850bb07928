"""The nine steps of a campaign as assets, partitioned by campaign.

The journal in the lakehouse says where a campaign is; Dagster's runs do the work. One run does all steps that need no
person, and launches the run of those that come after it.
"""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import dagster as dg

from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.step_sentences import step_markdown
from backfill_assets.campaign.steps import do_step
from backfill_assets.defs.campaigns.carry_on import MOVE_TAG, Code, launch_next_run
from backfill_assets.defs.campaigns.jobs import CAMPAIGNS, GROUP, PLANNED, step_key
from backfill_assets.defs.campaigns.letter import letter_link
from backfill_assets.defs.campaigns.next_step import after_failure, after_step, in_markdown
from backfill_assets.defs.campaigns.pages import WITHOUT_HELD_BACK_TAG, Pages
from backfill_assets.defs.campaigns.waves import stage_waves
from backfill_assets.defs.events import failing_plainly, plain_failure
from backfill_assets.defs.instance.guard import require_own_lakehouse
from backfill_assets.defs.partitions import Partitions
from backfill_assets.defs.private_dagster import RETRY_NUMBER_TAG
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.sensors.partition_statuses import report_publication
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep
from backfill_assets.plan.durations import spent_by_step
from backfill_assets.plan.observe import observe_context_of
from backfill_assets.plan.records import about
from backfill_assets.publication.senders import log_writer, sender_of

_DESCRIPTIONS = {
    CampaignStep.ANNOUNCE: "A notice says what is going to be rebuilt; `backfill status` shows it with the tables.",
    CampaignStep.VERIFY_SOURCE: "What has landed is ingested, and every pinned input is read again.",
    CampaignStep.PIN: "The versions of the inputs are recorded, and landed files that are not in them.",
    CampaignStep.SHADOW: "Every day is staged on the campaign's timeline, after all waves of shadow backfills.",
    CampaignStep.VALIDATE: "What is staged is compared with what is published. Approve it, or stop here.",
    CampaignStep.CUT_OVER: "**Materializing this by hand approves the campaign**: all of its tables are published at "
    "once, for every reader. `campaign/rolled_back` puts them back.",
    CampaignStep.DOWNSTREAM: "Published days are read again; downstream days that were not staged are built.",
    CampaignStep.NOTIFY: "The notice that was stored with the publication is sent.",
    CampaignStep.DECOMMISSION: "The rollback window is over: the timelines are closed.",
}
_REPORT = {CampaignStep.VALIDATE: "the difference"}
_WITH_SPARK = {
    CampaignStep.VERIFY_SOURCE,
    CampaignStep.SHADOW,
    CampaignStep.VALIDATE,
    CampaignStep.CUT_OVER,
    CampaignStep.DOWNSTREAM,
}


def campaign_assets(tables: Mapping[str, Partitions], code: Code, pool: str | None = None) -> list[dg.AssetsDefinition]:
    """One asset for each of the nine steps, each after the one before. ``tables`` are those that are published to.

    ``code`` is the code location that they are in. Steps that may need Spark are in ``pool``.
    """
    before: CampaignStep | None = None
    definitions = []
    for step in STEPS:
        definitions.append(_step_asset(step, before, tables, code, pool if step in _WITH_SPARK else None))
        before = step
    return definitions


def _step_asset(
    step: CampaignStep, before: CampaignStep | None, tables: Mapping[str, Partitions], code: Code, pool: str | None
) -> dg.AssetsDefinition:
    spec = dg.AssetSpec(
        step_key(step),
        deps=[step_key(before) if before else PLANNED],
        group_name=GROUP,
        description=f"Step {STEPS.index(step) + 1} of {len(STEPS)}. {_DESCRIPTIONS[step]}",
        # A run that ends while a wave is under way materializes nothing.
        skippable=step is CampaignStep.SHADOW,
    )

    def events(context: dg.AssetExecutionContext, backfill: Backfill) -> Iterator[dg.MaterializeResult[None]]:
        at = backfill.campaign(context.partition_key, context.run, context.log.info)
        pages = Pages.of(context.run)
        try:
            if step is CampaignStep.SHADOW and not _stage_waves(context, at, code, backfill, waits=pool is None):
                return
            facts = _do_in_order(at, step, context, backfill)
        except BackfillError as error:
            if step is CampaignStep.CUT_OVER and (shown := at.entries()[-1].report.get("difference")):
                context.log.info(str(shown))
            raise plain_failure(error, in_markdown(after_failure(at, pages))) from None
        log = backfill.publications()
        if step is CampaignStep.CUT_OVER and log is not None:
            report_publication(context.instance, log, tables, str(facts["publication"]), context.run.run_id)
        for report in facts.get("reports", ()):
            context.log_event(_notice_on(str(report), at, step))
        next_run = launch_next_run(context, at, code)
        yield dg.MaterializeResult(
            metadata={
                **in_markdown(after_step(at, step, facts, pages, next_run)),
                _REPORT.get(step, "report"): dg.MetadataValue.md(step_markdown(step, facts)),
                **letter_link(step, facts, at.plan.id, backfill.settings.letters),
                **_times(at, step),
            }
        )

    @dg.multi_asset(name=f"{GROUP}_{step.value}", specs=[spec], partitions_def=CAMPAIGNS, pool=pool)
    def do(context: dg.AssetExecutionContext, backfill: Backfill) -> Iterator[dg.MaterializeResult[None]]:
        with failing_plainly():
            require_own_lakehouse(context.instance, backfill.storage)
            yield from events(context, backfill)

    return do


def _stage_waves(
    context: dg.AssetExecutionContext, at: CampaignRun, code: Code, backfill: Backfill, *, waits: bool
) -> bool:
    def stage() -> bool:
        return stage_waves(context.instance, lambda: code().resolve_asset_graph(), at, waits=waits)

    return backfill.resume(stage, context.log.warning)


def _times(at: CampaignRun, step: CampaignStep) -> Mapping[str, dg.MetadataValue]:
    """What the step took, as a number that the UI plots, beside what was estimated for it."""
    times = {"estimated": dg.MetadataValue.text(about(at.plan.times.get(step)))}
    spent = spent_by_step(at.entries()).get(step)
    return times if spent is None else {"spent, seconds": dg.MetadataValue.float(round(spent, 2)), **times}


def _notice_on(report: str, at: CampaignRun, step: CampaignStep) -> dg.AssetObservation:
    """An event on the report's own page, where its readers look."""
    is_over = step is CampaignStep.NOTIFY
    words = "was rebuilt and published" if is_over else "is going to be rebuilt; until it is approved nothing changes"
    return dg.AssetObservation(
        report,
        description=f"{at.plan.asked.target} of {at.plan.asked.days} {words}.",
        metadata={"campaign": at.campaign, "plan": at.plan.id, "undo": f"backfill rollback {at.plan.id}" * is_over},
    )


def _do_in_order(
    at: CampaignRun, step: CampaignStep, context: dg.AssetExecutionContext, backfill: Backfill
) -> dict[str, Any]:
    """The step's report. A step that is done is not done again; a step whose turn has not come is refused."""
    course = at.state
    if step in course.done and not course.rolled_back:
        return dict(course.done[step].report)
    waits = step is CampaignStep.CUT_OVER and CampaignStep.VALIDATE in course.done and not course.approved
    if waits and approves(context.run.tags):
        at.approve(without_held_back=context.run.tags.get(WITHOUT_HELD_BACK_TAG) == "true")
        if at.state.approved is None:
            hint = "Another person launches it as well, or approves by: backfill approve " + at.plan.id
            raise InvalidRequest(f"The approval is recorded, and {at.next().reason}.", hint=hint)
    move = at.next()
    if move.step is not step:
        raise InvalidRequest(f"{at.campaign}: {step.value} has to wait: {move.reason}.")
    sender = sender_of(backfill.settings.notices, log_writer(context.log))
    return do_step(at, step, sender, partial(observe_context_of, backfill.settings, backfill.catalog))


def approves(tags: Mapping[str, str]) -> bool:
    """True if a person launched this run of `cut_over`, which approves the campaign: no sensor, and no retry."""
    return MOVE_TAG not in tags and RETRY_NUMBER_TAG not in tags
