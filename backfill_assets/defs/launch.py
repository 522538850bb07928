"""Launches a native Dagster backfill: what the UI's button does, for programs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import dagster as dg

from backfill_assets.days import Cadence
from backfill_assets.defs.dagster_internals import (
    MAX_TITLE_LENGTH,
    AssetGraphSubset,
    AssetKeyPartitionKey,
    BaseAssetGraph,
    PartitionBackfill,
    make_new_backfill_id,
)
from backfill_assets.defs.specs import CADENCE_TAG
from backfill_assets.errors import InvalidRequest

_LONGEST_ID = 32


def launch_backfill(
    instance: dg.DagsterInstance,
    asset_graph: BaseAssetGraph[Any],
    wanted: Mapping[str, Iterable[date]],
    *,
    title: str,
    tags: Mapping[str, str] | None = None,
    backfill_id: str | None = None,
    description: str | None = None,
) -> str:
    """Ask the backfill daemon to build the ``wanted`` days of each table; returns the backfill's id at once.

    Days of a weekly or monthly table stand for the period they lie in. ``tags`` reach every run. A given
    ``backfill_id`` makes the call repeatable: the second one changes nothing.
    """
    wanted_id = _checked_id(backfill_id) if backfill_id else make_new_backfill_id()
    if instance.get_backfill(wanted_id) is not None:
        return wanted_id
    backfill = PartitionBackfill.from_asset_graph_subset(
        backfill_id=wanted_id,
        backfill_timestamp=time.time(),
        tags=dict(tags or {}),
        dynamic_partitions_store=instance,
        asset_graph_subset=_target(asset_graph, wanted),
        title=title[:MAX_TITLE_LENGTH],
        description=description,
        run_config=None,
    )
    instance.add_backfill(backfill)
    return wanted_id


def _target(asset_graph: BaseAssetGraph[Any], wanted: Mapping[str, Iterable[date]]) -> AssetGraphSubset:
    chosen = {
        AssetKeyPartitionKey(dg.AssetKey(table.split("/")), key)
        for table, days in wanted.items()
        for key in _partition_keys(asset_graph, table, days)
    }
    return AssetGraphSubset.from_asset_partition_set(chosen, asset_graph)


def _partition_keys(asset_graph: BaseAssetGraph[Any], table: str, days: Iterable[date]) -> list[str]:
    key = dg.AssetKey(table.split("/"))
    if not asset_graph.has(key):
        raise InvalidRequest(f"There is no asset for the table {table!r}.")
    asset = asset_graph.get(key)
    partitions = asset.partitions_def
    if partitions is None:
        raise InvalidRequest(f"{table} is not partitioned by day.")
    keys = [day.isoformat() for day in Cadence(asset.tags[CADENCE_TAG]).starts(days)]
    for wanted in {*keys[:1], *keys[-1:]}:
        if not partitions.has_partition_key(wanted):
            known = f"{partitions.get_first_partition_key()}..{partitions.get_last_partition_key()}"
            raise InvalidRequest(f"{table} has no partition {wanted}.", hint=f"Its days are {known}.")
    return keys


def _checked_id(backfill_id: str) -> str:
    if len(backfill_id) > _LONGEST_ID:
        raise InvalidRequest(f"The backfill id {backfill_id!r} is longer than {_LONGEST_ID} characters.")
    return backfill_id
