"""Jobs that carry a campaign on, approve it, and undo it; the asset with its page."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import dagster as dg
from pydantic import Field

from backfill_assets import clock
from backfill_assets.answers.plan import plan_answer
from backfill_assets.campaign import decisions
from backfill_assets.campaign.course import Move, waits_for_approval, why_over
from backfill_assets.campaign.later_decisions import later_decisions
from backfill_assets.campaign.look import carry_out_undo
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.standing import PlanWord, is_page_of, page_of, standing_of
from backfill_assets.campaign.steps import carry_on
from backfill_assets.campaign.undo import plan_undo, undone_sentence
from backfill_assets.days import Cadence, DayRange
from backfill_assets.defs.campaigns.pages import (
    APPROVE_JOB,
    JOB,
    LOCATION,
    OPS,
    UNDO_JOB,
    Launchpads,
    in_markdown,
    last_found,
    letter_link,
    plan_page,
    standing_page,
    step_page,
    stopping,
    undo_page,
)
from backfill_assets.defs.dagster_internals import MAX_RETRIES_TAG, RETRY_NUMBER_TAG, WILL_RETRY_TAG, show_as_run
from backfill_assets.defs.metadata import plain_failure
from backfill_assets.defs.own_lakehouse import lakehouse_job, lakehouse_sensor
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.resources import Backfill, person_behind
from backfill_assets.defs.sensors.shows_what_is import ShownDays, report_publication
from backfill_assets.defs.specs import UNDER_THE_HOOD
from backfill_assets.defs.under_way import is_alive
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, campaign_of, newest_entries, plan_of
from backfill_assets.lakehouse.campaign_reports import AnnouncedReport, ComparedReport, CutOverReport, ToldReport
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.keep import look_again, observe_context_of, plan_and_keep, require_carried_out
from backfill_assets.plan.records import PlanRequest, Scope
from backfill_assets.plan.waves import Shares
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.lineage_outbox import send_lineage
from backfill_assets.publish.log import PublicationLog, anything_published
from backfill_assets.publish.publisher import Publisher
from backfill_assets.publish.senders import log_writer, sender_of
from backfill_assets.report.markdown import markdown
from backfill_assets.state.campaigns import newest_publications
from backfill_assets.state.observed import observe

ASSET, SENSOR = "campaign", "campaigns"
NEWEST = "newest"
CAMPAIGNS = dg.DynamicPartitionsDefinition(name=SENSOR)
CAMPAIGN_TAG, KIND_TAG = "backfill/campaign", "backfill/kind"
_OF_STEPS_TAG = "dagster/retry_on_asset_or_op_failure"
_TAGS = {KIND_TAG: "campaign", MAX_RETRIES_TAG: "2", _OF_STEPS_TAG: "false"}
"""Dagster retries a run that died; after an error it waits for a person."""
_EVERY_SECONDS, _DAYS, _NEWEST_RUNS = 10, 7, 10
_NEWEST_DAYS = re.compile(rf"{NEWEST} (\d{{1,4}})")
Published = Callable[[Backfill, dg.DagsterInstance], ShownDays | None]


class CampaignConfig(dg.Config):
    """The configuration in the launchpad: the options of ``backfill plan`` and ``backfill run PLAN --daemon``."""

    plan: str = Field(default="", description="The id of a plan that is kept. Nothing of what follows is planned then.")
    target: str = Field(default="", description="The table to rebuild.")
    days: str = Field(
        default="",
        description=f'The days of the table to rebuild: 2017-03-01..2017-05-29, or "{NEWEST} 7" that are published.',
    )
    version: str = Field(default="", description="The version of its logic, as v2; if empty, the current one.")
    scope: Scope = Field(default=Scope.ONWARDS, description="ONWARDS rebuilds the table and what is computed from it.")
    force: bool = Field(default=False, description="Also rebuild days that are unchanged.")
    expect: list[str] = Field(
        default=[],
        description="What you expect of the difference; it stops where it is not so: "
        '["weekends unchanged", "rows unchanged", "revenue_eur < 2% a day"].',
    )
    start: bool = Field(
        default=False, description="Start the plan at once: it is carried out until it waits for your approval."
    )
    waves: str = Field(default="", description=f"The share of the days staged by the end of each wave, as {Shares()}.")
    limits: str = Field(default="", description='Limits that stop it: "deviation=2%,gates=20%,seconds=3600".')
    roll_back_if_wrong: bool = Field(default=False, description="Roll back if a published day is not as staged.")


class PlanConfig(dg.Config):
    """The plan whose campaign is approved or undone."""

    plan: str = Field(description="Its id.")
    without_held_back: bool = Field(default=False, description="Publish the good days although others are held back.")


def campaign_spec() -> dg.AssetSpec:
    return dg.AssetSpec(
        ASSET,
        partitions_def=CAMPAIGNS,
        group_name=UNDER_THE_HOOD,
        kinds={"deltalake"},
        description=f"Plans that are carried out, each a partition: its page says what was found and what to do next. "
        f"The job {JOB} plans and starts one, {APPROVE_JOB} publishes it, {UNDO_JOB} puts it back.",
    )


def campaign_jobs(tables: PartitionedTables, pool: str | None = None) -> list[dg.JobDefinition]:
    def published(backfill: Backfill, instance: dg.DagsterInstance) -> ShownDays | None:
        log = backfill.publications()
        return ShownDays(instance, log, tables) if log else None

    def job(
        name: str, description: str, config_type: type[dg.Config], work: Callable[[_Carried, Any], None], **more: Any
    ) -> dg.JobDefinition:
        def carried(context: dg.OpExecutionContext, config: dg.Config, backfill: Backfill) -> None:
            work(_Carried(context, backfill, published), config)

        return lakehouse_job(name, OPS[name], description, config_type, carried, pool=pool, tags=_TAGS, **more)

    example = {"target": example_target(tables.catalog), "days": f"{NEWEST} {_DAYS}"}
    return [
        job(JOB, _BEGINS, CampaignConfig, _begin, example=example),
        job(APPROVE_JOB, _APPROVES, PlanConfig, _approve),
        job(UNDO_JOB, _UNDOES, PlanConfig, _undo),
    ]


_BEGINS = (
    "Plans from logs alone, and keeps the plan; with start: true all of its days are staged where no reader sees "
    "them, wave by wave, and compared with what is published. It publishes nothing: it waits for approval."
)
_APPROVES = (
    "Launching this approves the campaign: all of its tables are published at once, read again, and the notice is "
    f"sent. {UNDO_JOB} puts them back."
)
_UNDOES = (
    "Puts all tables of a campaign back at once, for every reader; days that moved since are computed again first. "
    "backfill rollback with the publication that it names undoes the undo."
)


def example_target(catalog: Catalog) -> str:
    built = (step for step in catalog.steps if not step.is_origin)
    best = max(built, key=lambda step: (step.cadence is Cadence.DAILY, len(step.versions)), default=None)
    return best.name if best else ""


def days_asked(text: str, storage: Storage, table: str) -> str:
    """Resolves ``newest 7`` to the range of the newest published days. Raises :class:`InvalidRequest` without any."""
    if (found := _NEWEST_DAYS.fullmatch(text.strip())) is None:
        return text
    states = observe(storage, [table]).states if anything_published(storage) else {}
    published = sorted(key.day for key, state in states.items() if state.content is not None)[-int(found[1]) :]
    if not published:
        raise InvalidRequest(f"No day of {table} is published.", hint="Write a range: 2017-03-01..2017-05-29.")
    return str(DayRange(published[0], published[-1]))


# ------------------------------------------------------------------ what the runs do


class _Carried:
    def __init__(self, context: dg.OpExecutionContext, backfill: Backfill, published: Published) -> None:
        self.context, self.backfill, self.published = context, backfill, published
        self.pads = Launchpads.of(context.run)
        self.is_retry = RETRY_NUMBER_TAG in context.run.tags
        self.sender = sender_of(backfill.settings.notices, log_writer(context.log))

    def campaign(self, plan: str) -> CampaignRun:
        name, instance = campaign_of(plan), self.context.instance
        instance.add_run_tags(self.context.run_id, {CAMPAIGN_TAG: name})
        if other := run_under_way(instance, name, but=self.context.run_id):
            raise InvalidRequest(
                f"{name} is under way already, by the run {other[:8]}.",
                hint="Wait until it has ended, or terminate it on its page.",
            )
        return self.backfill.campaign(name, self.context.run, self.context.log.info)

    def show(self, at: CampaignRun, page: Mapping[str, dg.MetadataValue], *, failed: bool = False) -> None:
        """Dagster shows no observation before a first materialization: the page is one. ``failed``: shown as the run
        will be.
        """
        run, instance = {"run": dg.MetadataValue.dagster_run(self.context.run_id)}, self.context.instance
        with named_page(instance, at) as name:
            self.context.log_event(dg.AssetMaterialization(ASSET, partition=name, metadata={**page, **run}))
            if failed:
                show_as_run(instance, self.context.run, ASSET, name)

    def carry_on(self, at: CampaignRun) -> Move:
        shown = set(at.state.done)
        observed = partial(observe_context_of, self.backfill.settings, self.backfill.catalog)

        def show_new(line: str = "") -> None:
            for step in STEPS:
                if step in at.state.done and step not in shown:
                    shown.add(step)
                    self._show_step(at, step)
            if line:
                at.progress(line)

        try:
            move = self.backfill.resume(lambda: carry_on(at, self.sender, observed, show_new), self.context.log.warning)
        except BackfillError as error:
            show_new()
            page = in_markdown(standing_page(at, "This run failed.", self.pads))
            self.show(at, page, failed=True)
            raise plain_failure(error, page) from None
        show_new()
        at.progress(f"{at.plan.id}: {move.reason}")
        return move

    def _show_step(self, at: CampaignRun, step: CampaignStep) -> None:
        letter: Mapping[str, dg.MetadataValue] = {}
        match at.state.done[step].report:
            case ComparedReport(page=page):
                letter = letter_link(page, at.plan.id, self.backfill.settings.letters)
            case CutOverReport(publication=publication):
                self.report(publication)
            case AnnouncedReport(reports=reports) | ToldReport(reports=reports):
                for report in reports:
                    self.context.log_event(_notice_on(report, at, step))
            case _:
                pass
        self.show(at, {**step_page(at, step, self.pads), **letter})

    def report(self, publication: str) -> None:
        if (shown := self.published(self.backfill, self.context.instance)) is not None:
            report_publication(shown, publication, self.context.run_id)


def _begin(run: _Carried, config: CampaignConfig) -> None:
    person, plan = person_behind(run.context.run.tags), _planned_before(run, config)
    if plan:
        kept, drift, now = look_again(run.backfill.settings, run.backfill.catalog, plan)
    else:
        own = {name: getattr(config, name) for name in ("target", "version", "scope", "force")}
        days = days_asked(config.days, run.backfill.storage, config.target)
        asked = PlanRequest(**own, days=days, expectations=tuple(map(Expectation.parse, config.expect)))
        kept, now = plan_and_keep(run.backfill.settings, run.backfill.catalog, asked, person)
        drift = None
    at = run.campaign(kept.id)
    if not at.state.started and not config.start:
        full = {
            "plan": dg.MetadataValue.text(kept.id),
            "in full": dg.MetadataValue.md(markdown(plan_answer(kept, now, drift))),
        }
        page = {**in_markdown(plan_page(kept, run.pads)), **full}
        stops = stopping(kept)
        run.show(at, page, failed=stops is not None)
        if stops:
            raise plain_failure(InvalidRequest(stops.message, hint=stops.next_step), page)
        return
    if config.start and not run.is_retry and _is_at_rest(at):
        require_carried_out(run.backfill.settings, run.backfill.catalog, kept, started=at.state.started)
        flags = {"daemon": True, "roll_back_if_wrong": config.roll_back_if_wrong}
        decisions.start(at, Options.of_plan(kept, config.waves, config.limits, **flags))
    run.carry_on(at)


def _planned_before(run: _Carried, config: CampaignConfig) -> str:
    name = run.context.run.tags.get(CAMPAIGN_TAG, "")
    return config.plan or (plan_of(name) if name else "")


def _is_at_rest(at: CampaignRun) -> bool:
    return not at.state.started or bool(at.state.stopped or at.state.rolled_back)


def _approve(run: _Carried, config: PlanConfig) -> None:
    at = run.campaign(config.plan)
    # A retry goes on with what was approved before its run died, and approves nothing.
    if not run.is_retry:
        for sentence in later_decisions(at.builder.lake.publisher, at.plan, at.catalog.steps).sentences:
            run.context.log.warning(sentence)
        decisions.approve(at, without_held_back=config.without_held_back)
        if at.state.approved is None:
            run.show(at, in_markdown(standing_page(at, "The approval is recorded.", run.pads)))
            return
    elif waits_for_approval(at.state):
        raise InvalidRequest(f"{config.plan} waits for approval: the run that was to give it died before.")
    run.carry_on(at)


def _undo(run: _Carried, config: PlanConfig) -> None:
    plan = config.plan
    at = run.campaign(plan)
    lake = at.builder.lake
    at.settle_and_require(PlanWord.ROLLBACK)
    undo = plan_undo(lake, at.facts.publication)
    for switched in undo.switched:
        run.context.log.warning(switched.sentence)
    done = run.backfill.resume(
        lambda: carry_out_undo(lake, undo, at.run, run.context.log.info), run.context.log.warning
    )
    deliver(lake.publisher, run.sender)
    publication = done.published.publication
    run.report(publication)
    words = undo_page(plan, publication, undone_sentence(done, lake.catalog.steps), run.pads)
    facts = {"publication": dg.MetadataValue.text(publication), "undoes": dg.MetadataValue.text(done.plan.publication)}
    run.show(at, {**in_markdown(words), **facts})


@contextmanager
def named_page(instance: dg.DagsterInstance, at: CampaignRun) -> Iterator[str]:
    name = page_of(at.plan, standing_of(at.facts))
    before = [each for each in instance.get_dynamic_partitions(SENSOR) if is_page_of(each, at.campaign)]
    instance.add_dynamic_partitions(SENSOR, [name])
    yield name
    for each in before:
        if each != name:
            instance.delete_dynamic_partition(SENSOR, each)


def _notice_on(report: str, at: CampaignRun, step: CampaignStep) -> dg.AssetObservation:
    is_over = step is CampaignStep.NOTIFY
    words = "was rebuilt and published" if is_over else "is going to be rebuilt; until it is approved nothing changes"
    return dg.AssetObservation(
        report,
        description=f"{at.plan.asked.target} of {at.plan.asked.days} {words}.",
        metadata={"campaign": at.campaign, "plan": at.plan.id, "undo": f"backfill rollback {at.plan.id}" * is_over},
    )


# ------------------------------------------------------------------ campaigns that no run carries on


def run_under_way(instance: dg.DagsterInstance, campaign: str, but: str = "") -> str:
    """The run that is alive or will be retried. Dead runs before the newest were retried already."""
    now, about = clock.now(), dg.RunsFilter(tags={CAMPAIGN_TAG: campaign})
    newest = instance.get_run_records(about, limit=_NEWEST_RUNS)
    for record in newest:
        run = record.dagster_run
        is_retried = not but and record is newest[0] and run.tags.get(WILL_RETRY_TAG) == "true"
        if run.run_id != but and (is_retried or (not run.is_finished and is_alive(instance, record, now))):
            return run.run_id
    return ""


def campaign_sensor() -> dg.SensorDefinition:
    return lakehouse_sensor(
        SENSOR,
        "Carries on campaigns that were started or approved by a command with --daemon, and closes those that cannot "
        "be undone any more. Delivers the notices that are due. Each tick says what a campaign waits for.",
        _EVERY_SECONDS,
        _tick,
        by_itself=False,
        job_name=JOB,
    )


def _tick(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult:
    sender = sender_of(backfill.settings.notices, log_writer(context.log))
    seen: dict[str, str] = json.loads(context.cursor or "{}")
    publisher = Publisher(backfill.storage)
    words = [f"notice {key}: not delivered: {why}" for key, why in deliver(publisher, sender).failed]
    words += filter(None, [str(send_lineage(publisher, backfill.settings, lambda: backfill.catalog))])
    requests, log = [], PublicationLog(backfill.storage)
    for name, newest in newest_entries(backfill.storage).items():
        published = cache(partial(newest_publications, log, [name]))
        over = why_over(newest, published)
        found = over or _carry_on_or_say_why_not(context, backfill, name)
        # An undo by a command is in no journal.
        undone_by = None if over else published().get(name)
        moment = str(newest.at if newest else "") + (f" {undone_by.publication}" if undone_by else "")
        if seen.get(name) != moment:
            seen[name] = moment
            _rename_page(context, backfill, name)
        if isinstance(found, dg.RunRequest):
            requests.append(found)
        else:
            words.append(f"{name}: {found}")
    cursor = json.dumps(seen)
    if requests:
        return dg.SensorResult(run_requests=requests, cursor=cursor)
    return dg.SensorResult(skip_reason="\n".join(words) or "No campaign is under way.", cursor=cursor)


def _rename_page(context: dg.SensorEvaluationContext, backfill: Backfill, campaign: str) -> None:
    instance = context.instance
    if not any(is_page_of(each, campaign) for each in instance.get_dynamic_partitions(SENSOR)):
        return
    try:
        at = backfill.campaign(campaign, None, context.log.info)
        name = page_of(at.plan, standing_of(at.facts))
        if name in instance.get_dynamic_partitions(SENSOR):
            return
        origin = context.code_location_origin
        page = standing_page(at, last_found(at), Launchpads(origin.location_name if origin else LOCATION))
    except (BackfillError, ValueError) as error:
        context.log.warning(f"{plan_of(campaign)} has no page of its state: {error}")
        return
    with named_page(instance, at) as name:
        event = dg.AssetMaterialization(ASSET, partition=name, metadata=in_markdown(page))
        instance.report_runless_asset_event(event)


def _carry_on_or_say_why_not(
    context: dg.SensorEvaluationContext, backfill: Backfill, campaign: str
) -> dg.RunRequest | str:
    try:
        at = backfill.campaign(campaign, None, context.log.info)
        state, move = at.state, at.next()
    except (BackfillError, ValueError) as error:
        context.log.warning(f"{plan_of(campaign)} cannot be carried on: {error}")
        return f"cannot be carried on: {error}"
    if not state.daemon:
        return "it is carried on by a command, not by the daemon"
    if move.waits:
        return move.reason
    if run_id := run_under_way(context.instance, campaign):
        return f"{move.reason} is under way: the run {run_id[:8]}"
    # One run for each position of the journal: repeated failures there wait for a person.
    return dg.RunRequest(
        run_key=f"{campaign}-{len(at.entries())}",
        run_config={"ops": {OPS[JOB]: {"config": {"plan": at.plan.id}}}},
        tags={CAMPAIGN_TAG: campaign},
    )
