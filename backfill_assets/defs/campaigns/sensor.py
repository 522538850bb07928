"""The sensor ``campaigns``: takes up campaigns that no run carries on, and delivers the notices that are due.

A run of a campaign launches the next one itself. The journal in the lakehouse says where a campaign is: after a kill
anywhere, the next tick reads it again, finds what is under way, and launches what is missing.
"""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from backfill_assets.campaign.course import Move, why_over
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.defs.campaigns.carry_on import MOVE_TAG, move_tags, require_partitions, run_under_way
from backfill_assets.defs.campaigns.jobs import SENSOR, job_and_steps, step_key
from backfill_assets.defs.campaigns.waves import wave_under_way
from backfill_assets.defs.instance.guard import why_not_own
from backfill_assets.defs.resources import Backfill
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.campaign_journal import newest_entries
from backfill_assets.publication.outbox import deliver
from backfill_assets.publication.publisher import Publisher
from backfill_assets.publication.senders import log_writer, sender_of

if TYPE_CHECKING:
    from backfill_assets.defs.private_dagster import UnresolvedAssetJobDefinition

EVERY_SECONDS = 10
_MOST_ATTEMPTS = 3


def campaign_sensor(jobs: "Sequence[UnresolvedAssetJobDefinition]") -> dg.SensorDefinition:
    """On from the start: it carries on only campaigns that were started in the UI or with `--daemon`."""

    @dg.sensor(
        name=SENSOR,
        jobs=list(jobs),
        description="Takes up campaigns that no run carries on: after a kill, or after `backfill approve`. "
        "Delivers the notices that are due. Each tick says what a campaign waits for.",
        minimum_interval_seconds=EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def move_campaigns(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult | dg.SkipReason:
        if refused := why_not_own(context.instance, backfill.storage):
            return dg.SkipReason(refused)
        sender = sender_of(backfill.settings.notices, log_writer(context.log))
        undelivered = deliver(Publisher(backfill.storage), sender).failed
        newest = newest_entries(backfill.storage)
        require_partitions(context.instance, [name for name, entry in newest.items() if why_over(entry)])
        moves = [
            _Moved(name, over) if (over := why_over(entry)) else _move_or_say_why_not(context, backfill, name)
            for name, entry in newest.items()
        ]
        return _result([*moves, *(_Moved(f"notice {key}", f"not delivered: {why}") for key, why in undelivered)])

    return move_campaigns


@dataclass(frozen=True)
class _Moved:
    """What a tick does about one campaign: it requests a run, or says why not."""

    campaign: str
    words: str
    request: dg.RunRequest | None = None


def _move_or_say_why_not(context: dg.SensorEvaluationContext, backfill: Backfill, campaign: str) -> _Moved:
    """A campaign whose plan was removed or damaged, or was kept by other code, does not hold up the others."""
    try:
        return _move_campaign(context.instance, backfill.campaign(campaign, None, context.log.info))
    except (BackfillError, ValueError) as error:
        context.log.warning(f"{campaign} cannot be carried on: {error}")
        return _Moved(campaign, f"cannot be carried on: {error}")


def _result(moves: Sequence[_Moved]) -> dg.SensorResult | dg.SkipReason:
    requests = [moved.request for moved in moves if moved.request is not None]
    if requests:
        return dg.SensorResult(run_requests=requests)
    return dg.SkipReason(
        "\n".join(f"{moved.campaign}: {moved.words}" for moved in moves) or "No campaign is under way."
    )


def _move_campaign(instance: dg.DagsterInstance, at: CampaignRun) -> _Moved:
    # The state first: what starts or carries on a campaign is under way before the state says so.
    course, move = at.state, at.next()
    require_partitions(instance, [at.campaign])
    if not course.daemon:
        return _Moved(at.campaign, "it is carried on by a command, not by the daemon")
    if move.waits:
        return _Moved(at.campaign, move.reason)
    if run_id := run_under_way(instance, at.campaign):
        return _Moved(at.campaign, f"{move.reason} is under way: the run {run_id[:8]}")
    if move.wave is not None and (backfill := wave_under_way(instance, at, move.wave)):
        return _Moved(at.campaign, f"{move.reason} is under way: the backfill {backfill}")
    return _request_run(instance, at, move)


def _request_run(instance: dg.DagsterInstance, at: CampaignRun, move: Move) -> _Moved:
    """A run for the move and what comes after it. After a dead run, which had no event for an hour, another follows."""
    tags = move_tags(at, move)
    earlier = instance.get_run_records(filters=dg.RunsFilter(tags={MOVE_TAG: tags[MOVE_TAG]}))
    if len(earlier) >= _MOST_ATTEMPTS:
        newest = earlier[0].dagster_run.run_id[:8]
        return _Moved(at.campaign, f"{move.reason} failed {len(earlier)} times, last in the run {newest}: look at it")
    name, steps = job_and_steps(move)
    request = dg.RunRequest(
        run_key=f"{tags[MOVE_TAG]}-{len(earlier)}",
        job_name=name,
        asset_selection=[step_key(step) for step in steps],
        partition_key=at.campaign,
        tags=dict(tags),
    )
    return _Moved(at.campaign, f"launched {move.reason}", request)
