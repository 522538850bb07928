"""Carries a campaign on: what runs of it are under way, and the next one, which the run before it launches itself.

The sensor launches it only where no run could: after a kill, or when a command has approved the campaign.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta

import dagster as dg

from backfill_assets.campaign.course import Move
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.defs.campaigns.jobs import CAMPAIGNS, job_and_steps, step_key
from backfill_assets.defs.campaigns.shadow import TIMELINE_TAG
from backfill_assets.defs.instance.next_run import prepare_run, queue_run
from backfill_assets.defs.instance.under_way import is_alive
from backfill_assets.defs.private_dagster import NOT_FINISHED_STATUSES, PARTITION_NAME_TAG

MOVE_TAG = "backfill/campaign_move"
"""On runs that no person has launched: where the campaign stood then. They approve nothing."""
STARTS_TAG = "backfill/starts_campaign"
"""On the run that starts a campaign, from before it is started until its first run is in the queue."""
_QUEUED_WITHIN = timedelta(minutes=1)
Code = Callable[[], dg.Definitions]
"""The code location, which exists when a run asks for it."""


def run_under_way(instance: dg.DagsterInstance, campaign: str) -> str:
    """The id of a run that is about the campaign and alive: of its steps, or the one that starts it. Or empty."""
    now = datetime.now(UTC)
    for tag in (PARTITION_NAME_TAG, STARTS_TAG):
        chosen = dg.RunsFilter(tags={tag: campaign}, statuses=NOT_FINISHED_STATUSES)
        for record in instance.get_run_records(filters=chosen):
            if is_alive(instance, record, now) and not _was_never_queued(record, now):
                return record.dagster_run.run_id
    return ""


def _was_never_queued(record: dg.RunRecord, now: datetime) -> bool:
    """Was the process that created it killed before it could put it into the queue? Nothing starts it then."""
    waits = record.dagster_run.status is dg.DagsterRunStatus.NOT_STARTED
    return waits and now - record.create_timestamp > _QUEUED_WITHIN


def launch_next_run(context: dg.AssetExecutionContext, at: CampaignRun, code: Code) -> str:
    """Launch a run of what comes next, if no person is needed for it; its id.

    Empty if there is nothing to launch, and where the sensor has to do it.
    """
    move = at.next()
    if not at.state.daemon or move.waits:
        return ""
    name, steps = job_and_steps(move)
    if step_key(steps[0]) in context.job_def.asset_layer.selected_asset_keys:
        return ""
    require_partitions(context.instance, [at.campaign])
    tags = {PARTITION_NAME_TAG: at.campaign, **move_tags(at, move)}
    keys = [step_key(step) for step in steps]
    run_id = prepare_run(context.instance, context.run, code().resolve_job_def(name), keys, tags)
    if run_id is None:
        return ""
    queue_run(context.instance, run_id)
    at.progress(f"{at.campaign}: {move.reason} is done by the run {run_id[:8]} ({name})")
    return run_id


def move_tags(at: CampaignRun, move: Move) -> Mapping[str, str]:
    """The tags of a run that carries the campaign on from ``move``."""
    return {MOVE_TAG: _move_key(at, move), TIMELINE_TAG: at.campaign}


def _move_key(at: CampaignRun, move: Move) -> str:
    """The same until the campaign has moved, is begun again or approved again: attempts are counted by it."""
    return f"{at.campaign}-{move.step or f'wave{move.wave}'}-r{at.state.resumes}a{at.state.approvals}"


def require_partitions(instance: dg.DagsterInstance, campaigns: Collection[str]) -> None:
    """Each campaign is a partition of the assets of its steps."""
    if missing := sorted(set(campaigns).difference(instance.get_dynamic_partitions(str(CAMPAIGNS.name)))):
        instance.add_dynamic_partitions(str(CAMPAIGNS.name), missing)
