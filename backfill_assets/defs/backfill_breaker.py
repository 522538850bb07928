"""Stops native backfills that go wrong: the sensors ask at each tick."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from backfill_assets.defs.dagster_internals import (
    BACKFILL_ID_TAG,
    WILL_RETRY_TAG,
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
)
from backfill_assets.defs.resources import Backfill
from backfill_assets.model.catalog import Catalog
from backfill_assets.publish.outbox import announce
from backfill_assets.upkeep.backfill_breaker import RunAttempt, RunOutcome, backfill_notice, judge_backfill

_OUTCOMES: Mapping[dg.DagsterRunStatus, RunOutcome] = {
    dg.DagsterRunStatus.SUCCESS: "succeeded",
    dg.DagsterRunStatus.FAILURE: "failed",
    dg.DagsterRunStatus.CANCELING: "canceled",
    dg.DagsterRunStatus.CANCELED: "canceled",
}


def trip_backfills(instance: dg.DagsterInstance, backfill: Backfill) -> list[str]:
    """Cancel each backfill of this code location's tables that is over a limit, as the UI does; gives a line for each.

    It is told before it is canceled, once for each backfill: whoever dies in between is followed by one who finds the
    backfill under way, and the notice there. So is a budget of which most is spent.
    """
    settings, storage, said = backfill.settings, backfill.storage, []
    price = None if settings.core_hour_price is None else settings.core_hour_price / 3600
    for each in instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])):
        if not (datasets := _datasets(each, backfill.catalog)):
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


def _datasets(backfill: PartitionBackfill, catalog: Catalog) -> set[str]:
    names = {key.to_user_string() for key in backfill.asset_selection or ()}
    return {catalog.dataset_of(name).name for name in names.intersection(catalog.table_names)}


def _attempts(instance: dg.DagsterInstance, backfill: str) -> Iterator[RunAttempt]:
    """Oldest first. A run that failed and that Dagster will start again is under way."""
    now = time.time()
    for record in instance.get_run_records(dg.RunsFilter(tags={BACKFILL_ID_TAG: backfill}), ascending=True):
        run, began = record.dagster_run, record.start_time
        seconds = 0.0 if began is None else (record.end_time or now) - began
        will_retry = run.tags.get(WILL_RETRY_TAG) == "true"
        outcome: RunOutcome = "under way" if will_retry else _OUTCOMES.get(run.status, "under way")
        yield RunAttempt(run.run_id, run.root_run_id or run.run_id, outcome, seconds)


def _cancel(instance: dg.DagsterInstance, backfill: str) -> None:
    """Dagster's daemon cancels its runs at its next tick. As it is now: the daemon keeps its progress in it."""
    found: Any = instance.get_backfill(backfill)
    if found is not None and found.status is BulkActionStatus.REQUESTED:
        instance.update_backfill(found.with_status(BulkActionStatus.CANCELING))
