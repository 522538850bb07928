"""Backfills and runs: which are under way, launched, and stopped when they go wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg

from backfill_assets import clock
from backfill_assets.days import Cadence, DayRange, day_or_none, parse_day
from backfill_assets.defs.dagster_internals import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    BACKFILL_ID_TAG,
    BULK_ACTION_TERMINAL_STATUSES,
    MAX_TITLE_LENGTH,
    NOT_FINISHED_STATUSES,
    PARTITION_NAME_TAG,
    WILL_RETRY_TAG,
    AssetGraphSubset,
    AssetKeyPartitionKey,
    BaseAssetGraph,
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
)
from backfill_assets.defs.look_back import earlier_days_of, earlier_days_tag
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.specs import CADENCE_TAG
from backfill_assets.defs.watchdogs import JOB
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.catalog import Catalog
from backfill_assets.publish.outbox import announce
from backfill_assets.ui_addresses import backfill_page
from backfill_assets.upkeep.backfill_breaker import RunAttempt, RunOutcome, backfill_notice, judge_backfill
from backfill_assets.upkeep.trouble import WriteUnderWay

PATIENCE = timedelta(hours=1)


def busy_days(instance: dg.DagsterInstance, tables: Collection[str]) -> dict[str, list[WriteUnderWay]]:
    moment = clock.now()
    records = instance.get_run_records(filters=dg.RunsFilter(statuses=NOT_FINISHED_STATUSES))
    runs = [record.dagster_run for record in records if is_alive(instance, record, moment)]
    busy: dict[str, list[WriteUnderWay]] = {}
    for run in runs:
        for table in _of_run(run, tables):
            days = _days_of_run(run, table)
            busy.setdefault(table, []).append(WriteUnderWay(f"the run {run.run_id[:8]}", days))
    unfinished = [status for status in BulkActionStatus if status not in BULK_ACTION_TERMINAL_STATUSES]
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=unfinished)):
        if is_backfill_alive(instance, backfill, moment):
            keys = {key.to_user_string() for key in backfill.asset_selection or ()}
            for table, days in days_of_backfill(backfill, keys & set(tables)).items():
                busy.setdefault(table, []).append(WriteUnderWay(f"the backfill {backfill.backfill_id}", days))
    return busy


def _days_of_run(run: dg.DagsterRun, table: str) -> Collection[date] | None:
    first, last = (run.tags.get(tag) for tag in (ASSET_PARTITION_RANGE_START_TAG, ASSET_PARTITION_RANGE_END_TAG))
    one = run.tags.get(PARTITION_NAME_TAG)
    try:
        days = DayRange(parse_day(first or one or ""), parse_day(last or one or ""))
    except InvalidRequest:
        # Its partitions are not days, or it has none: it may write any day of its tables.
        return None
    earlier = earlier_days_of(run.tags, table)
    return earlier.union(days) if earlier else days


def days_of_backfill(backfill: PartitionBackfill, tables: Collection[str]) -> dict[str, frozenset[date] | None]:
    """A table's None means any day: other assets, as campaigns, have partitions that are no days."""
    if backfill.asset_backfill_data is None:
        return dict.fromkeys(tables)
    keys: dict[str, set[str]] = {table: set() for table in tables}
    for each in backfill.asset_backfill_data.target_subset.iterate_asset_partitions():
        if (table := each.asset_key.to_user_string()) in keys:
            keys[table].add(str(each.partition_key))
    earlier = {table: earlier_days_of(backfill.tags, table) for table in tables}
    days = {table: {*map(day_or_none, of_table), *earlier[table]} for table, of_table in keys.items()}
    return {
        table: None if None in found else frozenset(day for day in found if day is not None)
        for table, found in days.items()
    }


def is_backfill_alive(instance: dg.DagsterInstance, backfill: PartitionBackfill, now: datetime) -> bool:
    if backfill.status in BULK_ACTION_TERMINAL_STATUSES:
        return False
    records = instance.get_run_records(filters=dg.RunsFilter(tags={BACKFILL_ID_TAG: backfill.backfill_id}))
    if any(not each.dagster_run.is_finished and is_alive(instance, each, now) for each in records):
        return True
    ended = [each.end_time for each in records if each.end_time is not None]
    lately = (now - datetime.fromtimestamp(at, UTC) < PATIENCE for at in (backfill.backfill_timestamp, *ended))
    return any(lately)


def ever_targeted(instance: dg.DagsterInstance, table: str) -> bool:
    key = dg.AssetKey(table)
    planned = instance.event_log_storage.get_latest_storage_id_by_partition(
        key, dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    )
    if planned or instance.get_materialized_partitions(key):
        return True
    return any(key in (backfill.asset_selection or ()) for backfill in instance.get_backfills())


def is_alive(instance: dg.DagsterInstance, record: dg.RunRecord, now: datetime) -> bool:
    run = record.dagster_run
    if run.status in (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED):
        return True
    newest = instance.get_records_for_run(run.run_id, limit=1, ascending=False).records
    last_event = datetime.fromtimestamp(newest[0].event_log_entry.timestamp, UTC) if newest else record.create_timestamp
    return now - last_event < PATIENCE


def _of_run(run: dg.DagsterRun, tables: Collection[str]) -> Collection[str]:
    """A run without a selection is of all tables, but that of the watchdogs of none."""
    if run.asset_selection:
        return {key.to_user_string() for key in run.asset_selection} & set(tables)
    return set() if run.job_name == JOB else set(tables)


def launch_backfill(
    instance: dg.DagsterInstance,
    asset_graph: BaseAssetGraph[Any],
    wanted: Mapping[str, Iterable[date]],
    *,
    title: str,
    earlier: Mapping[str, Collection[date]] | None = None,
    tags: Mapping[str, str] | None = None,
    backfill_id: str | None = None,
    description: str | None = None,
) -> str:
    """Ask the backfill daemon to build the ``wanted`` days of each table; returns the backfill's id at once.

    Days of a weekly or monthly table mean their period. Days ``earlier`` than the first partition are built by its
    run. A given ``backfill_id`` (at most 32 characters) makes the call idempotent. Raises :class:`InvalidRequest`
    for a day without partition.
    """
    apart = earlier or {}
    wanted_id = backfill_id or clock.token(4)
    if instance.get_backfill(wanted_id) is None:
        instance.add_backfill(
            PartitionBackfill.from_asset_graph_subset(
                backfill_id=wanted_id,
                backfill_timestamp=clock.now().timestamp(),
                tags={**(tags or {}), **earlier_days_tag(apart)},
                dynamic_partitions_store=instance,
                asset_graph_subset=_target(asset_graph, wanted, apart),
                title=title[:MAX_TITLE_LENGTH],
                description=description,
                run_config=None,
            )
        )
    return wanted_id


def where_launched(backfills: Sequence[str], ui: str) -> list[str]:
    pages = ", ".join(f"{ui}{backfill_page(each)}" for each in backfills)
    return [f"Dagster counts no backfill among the runs requested: {pages}"] if pages else []


def _target(
    asset_graph: BaseAssetGraph[Any], wanted: Mapping[str, Iterable[date]], earlier: Mapping[str, Collection[date]]
) -> AssetGraphSubset:
    chosen = {
        AssetKeyPartitionKey(dg.AssetKey(table), key)
        for table, days in wanted.items()
        for key in _partition_keys(asset_graph, table, days, earlier.get(table, ()))
    }
    return AssetGraphSubset.from_asset_partition_set(chosen, asset_graph)


def _partition_keys(
    asset_graph: BaseAssetGraph[Any], table: str, days: Iterable[date], earlier: Collection[date]
) -> list[str]:
    key = dg.AssetKey(table)
    partitions = asset_graph.get(key).partitions_def if asset_graph.has(key) else None
    if partitions is None:
        raise InvalidRequest(f"There is no asset with a partition for each day of {table!r}.")
    cadence, left = Cadence(asset_graph.get(key).tags[CADENCE_TAG]), set(days).difference(earlier)
    first = partitions.get_first_partition_key() if earlier else None
    keys = sorted({*map(str, cadence.starts(left)), *([first] if first else [])})
    for wanted in {*keys[:1], *keys[-1:]}:
        if not partitions.has_partition_key(wanted):
            known = f"{partitions.get_first_partition_key()}..{partitions.get_last_partition_key()}"
            raise InvalidRequest(f"{table} has no partition {wanted}.", hint=f"Its days are {known}.")
    return keys


# ------------------------------------------------------------------ backfills that go wrong

_OUTCOMES: Mapping[dg.DagsterRunStatus, RunOutcome] = {
    dg.DagsterRunStatus.SUCCESS: "succeeded",
    dg.DagsterRunStatus.FAILURE: "failed",
    dg.DagsterRunStatus.CANCELING: "canceled",
    dg.DagsterRunStatus.CANCELED: "canceled",
}


def trip_backfills(instance: dg.DagsterInstance, backfill: Backfill) -> list[str]:
    """Cancel backfills of this location's tables that exceed a limit, and announce nearly spent budgets.

    The notice comes first, under a key: a tick after a crash finds both.
    """
    settings, storage, said = backfill.settings, backfill.storage, []
    price = None if settings.core_hour_price is None else settings.core_hour_price / 3600
    for each in instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])):
        if not (datasets := _datasets_of(each, backfill.catalog)):
            continue
        attempts = list(_attempts(instance, each.backfill_id))
        dataset = next(iter(datasets)) if len(datasets) == 1 else ""
        key = f"backfill-{re.sub('[^a-z0-9.-]', '-', each.backfill_id.lower())}"
        for exceeded in judge_backfill(settings.breaker, attempts, os.cpu_count() or 1, price):
            notice = backfill_notice(each.backfill_id, each.title or "", exceeded, dataset)
            announce(storage, f"{key}-{'stopped' if exceeded.stops else exceeded.limit}", notice)
            said.append(f"{notice.title}: {exceeded.sentence}")
            if exceeded.stops:
                _cancel(instance, each.backfill_id)
                break
    return said


def _datasets_of(backfill: PartitionBackfill, catalog: Catalog) -> set[str]:
    names = {key.to_user_string() for key in backfill.asset_selection or ()}
    return {catalog.dataset_of(name).name for name in names.intersection(catalog.table_names)}


def _attempts(instance: dg.DagsterInstance, backfill: str) -> Iterator[RunAttempt]:
    now = clock.now().timestamp()
    for record in instance.get_run_records(dg.RunsFilter(tags={BACKFILL_ID_TAG: backfill}), ascending=True):
        run, began = record.dagster_run, record.start_time
        seconds = 0.0 if began is None else (record.end_time or now) - began
        will_retry = run.tags.get(WILL_RETRY_TAG) == "true"
        outcome: RunOutcome = "under way" if will_retry else _OUTCOMES.get(run.status, "under way")
        yield RunAttempt(run.run_id, run.root_run_id or run.run_id, outcome, seconds)


def _cancel(instance: dg.DagsterInstance, backfill: str) -> None:
    """Read again just before: the daemon keeps its progress in the record."""
    found: Any = instance.get_backfill(backfill)
    if found is not None and found.status is BulkActionStatus.REQUESTED:
        instance.update_backfill(found.with_status(BulkActionStatus.CANCELING))
