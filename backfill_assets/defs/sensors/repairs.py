"""The sensor ``repairs``: launches a native backfill of exactly the days that need repair."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

import dagster as dg

from backfill_assets.days import TableDay
from backfill_assets.defs.assets import FORCE_TAG, VERSION_TAG
from backfill_assets.defs.instance.guard import why_not_own
from backfill_assets.defs.instance.launch import launch_backfill
from backfill_assets.defs.instance.under_way import busy_days
from backfill_assets.defs.kept_checks import was_not_run
from backfill_assets.defs.partitions import Partitions
from backfill_assets.defs.private_dagster import SENSOR_NAME_TAG, BaseAssetGraph, PartitionKeyFilter
from backfill_assets.defs.private_dagster import AssetCheckExecutionRecordStatus as Status
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.specs import GATES, PHYSICAL, PUBLICATION
from backfill_assets.defs.watchdogs import watchdog_key
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Dataset, Step
from backfill_assets.model.graph import build_order
from backfill_assets.plan.keep import days_of_open_plans
from backfill_assets.publication_log.log import PublicationLog, utc_now
from backfill_assets.published.observed import observe
from backfill_assets.published.rolled_back import rollbacks
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.stream.lease import read_streams
from backfill_assets.upkeep.repair import Repair, RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import FailedWatch, RepairContext, RunningStreams, StaleReason

SENSOR, REPAIR_TAG = "repairs", "backfill/repair"
EVERY_SECONDS = 60
_TROUBLE = re.compile(
    r"^(?P<table>\S+) (?P<day>\d{4}-\d{2}-\d{2}): (?P<reason>.+) \[(?P<evidence>[0-9a-f]{12})\]$", re.MULTILINE
)
_NEWEST = 1000


def repair_sensor(datasets: Sequence[Dataset], partitions: Mapping[str, Partitions]) -> dg.SensorDefinition:
    """On from the start: most wrong days are repaired before a person sees them."""
    steps = build_order([step for dataset in datasets for step in dataset.steps])

    @dg.sensor(
        name=SENSOR,
        description=(
            "Builds days again that need repair (a failed watchdog, a foreign write, late rows, changed "
            "inputs, days that can be built and never were) and what is downstream: one backfill for each reason, at "
            "most three attempts. Each day is built with the version that it was published with. It "
            "leaves days that a running stream follows to it, and new code over history, and raw tables, to people: "
            "the tick says what to do."
        ),
        minimum_interval_seconds=EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def repairs(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SkipReason | dg.SensorResult:
        if refused := why_not_own(context.instance, backfill.storage):
            return dg.SkipReason(refused)
        decision = decide(context.instance, backfill.storage, steps, partitions)
        for repair in decision.launch:
            launch(context.instance, asset_graph(context), repair)
        lines = list(_in_words(decision))
        for line in lines:
            context.log.info(line)
        return dg.SkipReason("\n".join(lines) or "Nothing to repair.")

    return repairs


def decide(
    instance: dg.DagsterInstance, storage: Storage, steps: Sequence[Step], partitions: Mapping[str, Partitions]
) -> RepairDecision:
    """Reads what is under way before the lakehouse: a write that ends in between is waited for, not repeated."""
    busy = busy_days(instance, partitions)
    earlier = list(_earlier(instance))
    streams = running_streams(storage)
    observed = observe(storage, partitions)
    forced = {TableDay(table, day) for table, day, reason, _ in earlier if reason == StaleReason.WATCHDOG.value}
    return repairs_needed(
        RepairContext(
            observed.with_current(steps),
            observed,
            failed_watches=_failed_watches(instance, partitions, forced),
            attempts=Counter(evidence for _, _, _, evidence in earlier),
            busy=busy,
            failed_gates=_failed_gates(instance, partitions) if earlier else (),
            has_partition=lambda table, day: partitions[table].has_partition_key(day.isoformat()),
            today=datetime.now(UTC).date(),
            rollbacks=lambda: rollbacks(storage),
            streams=streams,
            rebuilt_by=days_of_open_plans(storage),
        )
    )


def running_streams(storage: Storage) -> RunningStreams:
    """Streams with a fresh lease. The log is asked only about days that are stale."""
    now = datetime.now(UTC)

    def published_at(publication: str) -> datetime | None:
        found = PublicationLog(storage, utc_now).find_prepared(publication)
        return found[1] if found else None

    tables = [status.table for status in read_streams(storage) if status.is_running(now)]
    return RunningStreams(frozenset(tables), now, cache(published_at))


def launch(instance: dg.DagsterInstance, asset_graph: "BaseAssetGraph[Any]", repair: Repair) -> None:
    """One native backfill; its description lists each day with its evidence, from which attempts are counted.

    Each run of it builds every day with the version that the day was published with.
    """
    tags = {SENSOR_NAME_TAG: SENSOR, REPAIR_TAG: repair.id, VERSION_TAG: AS_PUBLISHED}
    launch_backfill(
        instance,
        asset_graph,
        repair.days,
        title=repair.title,
        tags=tags | ({FORCE_TAG: "watchdog"} if repair.force else {}),
        backfill_id=repair.id,
        description=repair.description,
    )


def asset_graph(context: dg.SensorEvaluationContext) -> "BaseAssetGraph[Any]":
    """The assets of the code location that the sensor belongs to."""
    if context.repository_def is None:
        raise InvalidRequest("The sensor was evaluated outside a code location.", hint="Evaluate it in the daemon.")
    return context.repository_def.asset_graph


def _in_words(decision: RepairDecision) -> Iterator[str]:
    yield from (f"Launched {repair.id}: {repair.title}" for repair in decision.launch)
    yield from (f"Waiting: {text}" for text in decision.waiting)
    yield from (f"For a person: {each}" for each in decision.for_people)


def _earlier(instance: dg.DagsterInstance) -> Iterator[tuple[str, date, str, str]]:
    """Table, day, reason and evidence of every earlier repair, in success or failure."""
    newest = instance.get_backfills(limit=_NEWEST)
    for backfill in (each for each in newest if each.tags.get(REPAIR_TAG) == each.backfill_id):
        for trouble in _TROUBLE.finditer(backfill.description or ""):
            yield trouble["table"], date.fromisoformat(trouble["day"]), trouble["reason"], trouble["evidence"]


def _failed_watches(
    instance: dg.DagsterInstance, tables: Iterable[str], forced: Collection[TableDay]
) -> list[FailedWatch]:
    """A check that a repair has planned again, and that has not run since, still has its verdict from before."""
    failed = []
    for table, day, status in _check_statuses(instance, [watchdog_key(table) for table in tables]):
        if status is Status.FAILED or (status is Status.PLANNED and (table, day) in forced):
            failed += _newest_verdict(instance, table, day)
    return failed


def _newest_verdict(instance: dg.DagsterInstance, table: str, day: date) -> list[FailedWatch]:
    """None where the asset's history was wiped since, and the watchdog has not looked again."""
    newest = instance.event_log_storage.get_asset_check_execution_history(
        watchdog_key(table),
        limit=1,
        status={Status.FAILED, Status.SUCCEEDED},
        partition_filter=PartitionKeyFilter(key=day.isoformat()),
    )
    event = newest[0].event.dagster_event if newest and newest[0].event else None
    if event is None or event.asset_check_evaluation_data.passed:
        return []
    values = {name: str(value.value) for name, value in event.asset_check_evaluation_data.metadata.items()}
    return [FailedWatch(table, day, values.get(PUBLICATION, ""), values.get(PHYSICAL, ""))]


def _failed_gates(instance: dg.DagsterInstance, tables: Iterable[str]) -> set[TableDay]:
    """Without those that a run was killed before: nothing was found wrong with their days."""
    keys = [dg.AssetCheckKey(dg.AssetKey(table), GATES) for table in tables]
    failed = [TableDay(table, day) for table, day, status in _check_statuses(instance, keys) if status is Status.FAILED]
    return {key for key in failed if not _was_not_run(instance, key)}


def _was_not_run(instance: dg.DagsterInstance, key: TableDay) -> bool:
    newest = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(dg.AssetKey(key.table), GATES),
        limit=1,
        status={Status.FAILED},
        partition_filter=PartitionKeyFilter(key=key.day.isoformat()),
    )
    events = [record.event.dagster_event for record in newest if record.event and record.event.dagster_event]
    return any(was_not_run(event.asset_check_evaluation_data) for event in events)


def _check_statuses(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey]
) -> Iterator[tuple[str, date, Status]]:
    for info in instance.event_log_storage.get_asset_check_partition_info(keys=keys):
        if info.partition_key:
            table = info.check_key.asset_key.to_user_string()
            yield table, date.fromisoformat(info.partition_key), info.latest_execution_status
