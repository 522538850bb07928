"""The sensor ``streams``: starts a stream again that has ended without being stopped."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from backfill_assets.defs.dagster_internals import NOT_FINISHED_STATUSES, SENSOR_NAME_TAG
from backfill_assets.defs.guard import why_not_own
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.streams.assets import SENSOR, STREAM_TAG, StreamedDataset
from backfill_assets.defs.streams.metadata import stream_line
from backfill_assets.defs.under_way import is_alive
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.stream.lease import read_stream
from backfill_assets.stream.restart import EarlierStart, Ending, RestartDecision, decide_restart

EVERY_SECONDS = 15
_ENDINGS: dict[dg.DagsterRunStatus, Ending] = {
    dg.DagsterRunStatus.FAILURE: "failed",
    dg.DagsterRunStatus.CANCELED: "stopped",
    dg.DagsterRunStatus.SUCCESS: "finished",
}
_MOST_EARLIER = 12


def stream_sensor(streamed: Sequence[StreamedDataset]) -> dg.SensorDefinition:
    """On from the start: it starts only a stream that a person has started before."""

    @dg.sensor(
        name=SENSOR,
        asset_selection=dg.AssetSelection.assets(*(each.asset for each in streamed)),
        description=(
            "Starts a stream again whose run has failed: after a crash, a restart of the machine, or an error; later "
            "each time that it fails early. A stream that a person has stopped stays off. The tick says what is on, "
            "with its delay and rate."
        ),
        minimum_interval_seconds=EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def streams(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult | dg.SkipReason:
        if refused := why_not_own(context.instance, backfill.storage):
            return dg.SkipReason(refused)
        decisions = [(each, decide(context.instance, backfill.storage, each)) for each in streamed]
        requests = [request(context.instance, each, decision.repeat) for each, decision in decisions if decision.repeat]
        words = "\n".join(decision.reason for _, decision in decisions)
        context.log.info(words)
        return dg.SensorResult(run_requests=requests) if requests else dg.SensorResult(skip_reason=words)

    return streams


def decide(instance: dg.DagsterInstance, storage: Storage, streamed: StreamedDataset) -> RestartDecision:
    """Reads Dagster's runs before the lease: a run that starts in between is seen by its lease."""
    now = datetime.now(UTC)
    under_way = _under_way(instance, streamed.asset, now)
    earlier = _earlier(instance, streamed.asset)
    status = read_stream(storage, streamed.raw.name)
    running = stream_line(status) if status and status.is_running(now) else ""
    holder = status.holder.run if status else ""
    return decide_restart(streamed.asset, running, under_way, earlier, now, holder)


def request(instance: dg.DagsterInstance, streamed: StreamedDataset, repeat: EarlierStart) -> dg.RunRequest:
    """The same run again. Its key is that of the run before: two ticks ask for one run."""
    run = instance.get_run_by_id(repeat.run)
    return dg.RunRequest(
        run_key=f"after-{repeat.run}",
        run_config=dict(run.run_config) if run else {},
        tags={STREAM_TAG: streamed.asset, SENSOR_NAME_TAG: SENSOR},
        asset_selection=[dg.AssetKey(streamed.asset)],
    )


def _under_way(instance: dg.DagsterInstance, asset: str, now: datetime) -> str:
    """The run that is to start the stream, or watches it."""
    records = instance.get_run_records(filters=dg.RunsFilter(statuses=NOT_FINISHED_STATUSES))
    runs = (each.dagster_run for each in records if is_alive(instance, each, now))
    found = (run for run in runs if dg.AssetKey(asset) in (run.asset_selection or ()))
    return next((f"the run {run.run_id[:8]} is {run.status.value.lower()}" for run in found), "")


def _earlier(instance: dg.DagsterInstance, asset: str) -> list[EarlierStart]:
    filters = dg.RunsFilter(tags={STREAM_TAG: asset}, statuses=list(_ENDINGS))
    records = instance.get_run_records(filters=filters, limit=_MOST_EARLIER)
    return [_earlier_start(record) for record in records]


def _earlier_start(record: dg.RunRecord) -> EarlierStart:
    """A run that was killed with its daemon has no end until the daemon is back: the last update counts."""
    ended = datetime.fromtimestamp(record.end_time, UTC) if record.end_time else record.update_timestamp
    started = datetime.fromtimestamp(record.start_time, UTC) if record.start_time else record.create_timestamp
    run = record.dagster_run
    return EarlierStart(run.run_id, started, ended, _ENDINGS[run.status])
