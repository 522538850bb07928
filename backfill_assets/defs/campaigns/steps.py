"""The nine steps of a campaign as assets, partitioned by campaign, and the sensor that moves campaigns along.

The journal in the lakehouse says where a campaign is; Dagster's runs do the work. The daemon may die anywhere: the next
tick reads the journal again, finds what is under way, and launches what is missing.
"""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import dagster as dg

from backfill_assets.campaign.course import Move
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.steps import do_step
from backfill_assets.campaign.text import markdown
from backfill_assets.defs.campaigns.letter import letter_link
from backfill_assets.defs.campaigns.shadow import TIMELINE_TAG, WAVE_TAG
from backfill_assets.defs.events import plain_failure
from backfill_assets.defs.instance.guard import require_own_lakehouse
from backfill_assets.defs.instance.launch import launch_backfill
from backfill_assets.defs.instance.under_way import is_alive, is_backfill_alive
from backfill_assets.defs.partitions import Partitions
from backfill_assets.defs.private_dagster import RETRY_NUMBER_TAG, SENSOR_NAME_TAG, BaseAssetGraph
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.sensors.partition_statuses import report_publication
from backfill_assets.defs.specs import shadow_key
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, campaigns
from backfill_assets.plan.durations import band, spent_by_step, time_of
from backfill_assets.plan.observe import observe_context_of
from backfill_assets.publication.outbox import deliver
from backfill_assets.publication.publisher import Publisher
from backfill_assets.publication.senders import log_writer, sender_of

GROUP, SENSOR = "campaign", "campaigns"
PLANNED = dg.AssetKey([GROUP, "planned"])
MOVE_TAG = "backfill/campaign_move"
WITHOUT_HELD_BACK_TAG = "backfill/without_held_back"
"""On a run of `cut_over` that is launched by hand: ``true`` publishes the good days although others are held back."""
EVERY_SECONDS = 30
_MOST_ATTEMPTS = 3
CAMPAIGNS = dg.DynamicPartitionsDefinition(name="campaigns")
_DESCRIPTIONS = {
    CampaignStep.ANNOUNCE: "A notice says what is going to be rebuilt; `backfill status` shows it with the tables.",
    CampaignStep.VERIFY_SOURCE: "What has landed is ingested, and every pinned input is read again.",
    CampaignStep.PIN: "The versions of the inputs are recorded, and landed files that are not in them.",
    CampaignStep.SHADOW: "Every day is staged on the campaign's timeline, after all waves of shadow backfills.",
    CampaignStep.VALIDATE: "What is staged is compared with what is published. Approve it, or stop here.",
    CampaignStep.CUT_OVER: "All tables are published at once. Materializing this by hand approves the campaign.",
    CampaignStep.DOWNSTREAM: "Published days are read again; downstream days that were not staged are built.",
    CampaignStep.NOTIFY: "The notice that was stored with the publication is sent.",
    CampaignStep.DECOMMISSION: "The rollback window is over: the timelines are closed.",
}
_WITH_SPARK = {
    CampaignStep.VERIFY_SOURCE,
    CampaignStep.SHADOW,
    CampaignStep.VALIDATE,
    CampaignStep.CUT_OVER,
    CampaignStep.DOWNSTREAM,
}


def step_key(step: CampaignStep) -> dg.AssetKey:
    return dg.AssetKey([GROUP, step.value])


def campaign_assets(tables: Mapping[str, Partitions], pool: str | None = None) -> list[dg.AssetsDefinition]:
    """One asset for each of the nine steps, each after the one before. ``tables`` are those that are published to.

    Steps that may need Spark are in ``pool``.
    """
    before: CampaignStep | None = None
    definitions = []
    for step in STEPS:
        definitions.append(_step_asset(step, before, tables, pool if step in _WITH_SPARK else None))
        before = step
    return definitions


def _step_asset(
    step: CampaignStep, before: CampaignStep | None, tables: Mapping[str, Partitions], pool: str | None
) -> dg.AssetsDefinition:
    spec = dg.AssetSpec(
        step_key(step),
        deps=[step_key(before) if before else PLANNED],
        group_name=GROUP,
        description=f"Step {STEPS.index(step) + 1} of {len(STEPS)}. {_DESCRIPTIONS[step]}",
        # A run that only judges a wave materializes nothing.
        skippable=step is CampaignStep.SHADOW,
    )

    @dg.multi_asset(name=f"{GROUP}_{step.value}", specs=[spec], partitions_def=CAMPAIGNS, pool=pool)
    def do(context: dg.AssetExecutionContext, backfill: Backfill) -> Iterator[dg.MaterializeResult[None]]:
        require_own_lakehouse(context.instance, backfill.storage)
        at = backfill.campaign(context.partition_key, context.run, context.log.info)
        try:
            if WAVE_TAG in context.run.tags:
                _judge_wave(at, int(context.run.tags[WAVE_TAG]))
                return
            facts = _do_in_order(at, step, context, backfill)
        except BackfillError as error:
            if step is CampaignStep.CUT_OVER and (shown := at.entries()[-1].report.get("difference")):
                context.log.info(str(shown))
            raise plain_failure(error) from None
        log = backfill.publications()
        if step is CampaignStep.CUT_OVER and log is not None:
            report_publication(context.instance, log, tables, str(facts["publication"]), context.run.run_id)
        for report in facts.get("reports", ()):
            context.log_event(_notice_on(str(report), at, step))
        letter = letter_link(step, facts, at.plan.id, backfill.settings.letters)
        report = {"report": dg.MetadataValue.md(markdown(step, facts))}
        yield dg.MaterializeResult(metadata={**letter, **report, **_times(at, step)})

    return do


def _times(at: CampaignRun, step: CampaignStep) -> Mapping[str, dg.MetadataValue]:
    """What the step took, as a number that the UI plots, beside what was estimated for it."""
    times = {"estimated": dg.MetadataValue.text(band(time_of(at.plan, step)))}
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


def _judge_wave(at: CampaignRun, wave: int) -> None:
    """Judge the wave after its shadow backfill has ended. Days that a dead run left out are staged first."""
    if at.state.waves_done <= wave:
        at.judge_wave(wave, at.stage_wave(wave))


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
    return do_step(at, step, sender, partial(observe_context_of, backfill.settings))


def approves(tags: Mapping[str, str]) -> bool:
    """True if a person launched this run of `cut_over`, which approves the campaign: no sensor, and no retry."""
    return MOVE_TAG not in tags and RETRY_NUMBER_TAG not in tags


def campaign_sensor() -> dg.SensorDefinition:
    """On from the start: it carries out only campaigns that were started with `backfill run PLAN --daemon`."""

    @dg.sensor(
        name=SENSOR,
        asset_selection=dg.AssetSelection.groups(GROUP),
        description="Moves campaigns along: their steps, and the waves of their shadow backfill, one at a time. "
        "Delivers the notices that are due.",
        minimum_interval_seconds=EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def move_campaigns(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult | dg.SkipReason:
        require_own_lakehouse(context.instance, backfill.storage)
        if context.repository_def is None:
            raise InvalidRequest("The sensor was evaluated outside a code location.", hint="Evaluate it in the daemon.")
        sender = sender_of(backfill.settings.notices, log_writer(context.log))
        undelivered = deliver(Publisher(backfill.storage), sender).failed
        names = campaigns(backfill.storage)
        if new := sorted(set(names) - set(context.instance.get_dynamic_partitions(str(CAMPAIGNS.name)))):
            # A run can only be asked for when its partition is there: that is the next tick.
            return dg.SensorResult(dynamic_partitions_requests=[CAMPAIGNS.build_add_request(new)])
        graph = context.repository_def.asset_graph
        moves = [
            _move_campaign(context.instance, graph, backfill.campaign(name, None, context.log.info)) for name in names
        ]
        return _result([*moves, *(_Moved(f"notice {key}", f"not delivered: {why}") for key, why in undelivered)])

    return move_campaigns


@dataclass(frozen=True)
class _Moved:
    """What a tick does about one campaign: it requests a run, or says why not."""

    campaign: str
    words: str
    request: dg.RunRequest | None = None


def _result(moves: Sequence[_Moved]) -> dg.SensorResult | dg.SkipReason:
    requests = [moved.request for moved in moves if moved.request is not None]
    if requests:
        return dg.SensorResult(run_requests=requests)
    return dg.SkipReason(
        "\n".join(f"{moved.campaign}: {moved.words}" for moved in moves) or "No campaign is under way."
    )


def _move_campaign(instance: dg.DagsterInstance, graph: "BaseAssetGraph[Any]", at: CampaignRun) -> _Moved:
    course, move = at.state, at.next()
    if not course.daemon:
        return _Moved(at.campaign, "it is carried on by a command, not by the daemon")
    if move.waits:
        return _Moved(at.campaign, move.reason)
    if move.wave is not None and (waiting := _wave_backfill(instance, graph, at, move.wave)):
        return _Moved(at.campaign, waiting)
    return _request_run(instance, at, move)


def _wave_backfill(
    instance: dg.DagsterInstance, graph: "BaseAssetGraph[Any]", at: CampaignRun, wave: int
) -> str | None:
    """Launch the shadow backfill of a wave; None once it has ended, in success or failure: its days are judged next.

    If its run was killed on a machine that this one cannot check, it never ends: without an event for an hour, it
    counts as ended.
    """
    backfill_id = f"{at.campaign}-w{wave}r{at.state.resumes}"
    days = at.days_of(wave)
    if not days:
        return None
    backfill = instance.get_backfill(backfill_id)
    if backfill is not None:
        alive = is_backfill_alive(instance, backfill, datetime.now(UTC))
        return f"wave {wave + 1} is under way: the backfill {backfill_id}" if alive else None
    launch_backfill(
        instance,
        graph,
        {"/".join(shadow_key(table).path): wanted for table, wanted in days.items()},
        title=f"{at.campaign}: {at.waves[wave].name}",
        tags={SENSOR_NAME_TAG: SENSOR, TIMELINE_TAG: at.campaign, WAVE_TAG: str(wave)},
        backfill_id=backfill_id,
        description=f"Wave {wave + 1} of {len(at.waves)} of {at.plan.id}, staged where no reader sees it.",
    )
    return f"launched wave {wave + 1}: the backfill {backfill_id}"


def _request_run(instance: dg.DagsterInstance, at: CampaignRun, move: Move) -> _Moved:
    """A run for the move, unless one is alive. After a dead run, which had no event for an hour, another follows."""
    key = f"{at.campaign}-{move.step or f'wave{move.wave}'}-r{at.state.resumes}a{at.state.approvals}"
    earlier = instance.get_run_records(filters=dg.RunsFilter(tags={MOVE_TAG: key}))
    now = datetime.now(UTC)
    if any(not record.dagster_run.is_finished and is_alive(instance, record, now) for record in earlier):
        return _Moved(at.campaign, f"{move.reason} is under way")
    if len(earlier) >= _MOST_ATTEMPTS:
        newest = earlier[0].dagster_run.run_id[:8]
        return _Moved(at.campaign, f"{move.reason} failed {len(earlier)} times, last in the run {newest}: look at it")
    wave = {} if move.wave is None else {WAVE_TAG: str(move.wave)}
    request = dg.RunRequest(
        run_key=f"{key}-{len(earlier)}",
        asset_selection=[step_key(move.step or CampaignStep.SHADOW)],
        partition_key=at.campaign,
        tags={MOVE_TAG: key, TIMELINE_TAG: at.campaign, **wave},
    )
    return _Moved(at.campaign, f"launched {move.reason}", request)
