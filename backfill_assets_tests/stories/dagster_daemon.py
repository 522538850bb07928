"""Dagster's daemon in this process: evaluates a sensor, carries out what it asks for and the backfills it launches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    BACKFILL_ID_TAG,
)
from dagster_shared.utils.warnings import disable_dagster_warnings


class DagsterDaemon:
    """``tick`` is one evaluation of the sensor ``name`` with everything that follows from it, one after the other."""

    def __init__(self, defs: dg.Definitions, instance: dg.DagsterInstance, name: str) -> None:
        self.defs, self.instance = defs, instance
        self.repository = defs.get_repository_def()
        self.sensor = self.repository.get_sensor_def(name)
        self.words: list[str] = []
        self._keys: set[str] = set()

    def tick(self) -> bool:
        """False when there was nothing to do. Dagster warns of itself when it makes resources that have resources."""
        with disable_dagster_warnings():
            return self._tick()

    def _tick(self) -> bool:
        with (
            partition_loading_context(dynamic_partitions_store=self.instance),
            dg.build_sensor_context(
                self.instance, definitions=self.defs, resources=dict(self.defs.resources or {})
            ) as context,
        ):
            found = self.sensor.evaluate_tick(context)
        if found.skip_message:
            self.words.append(found.skip_message)
        requests = [each for each in found.run_requests or () if each.run_key not in self._keys]
        for request in requests:
            self._keys.add(str(request.run_key))
            self._run(request)
        return bool(requests) | self._backfills()

    def until_it_waits(self, most: int = 60) -> str:
        """Tick until nothing happens any more; returns what the sensor said last."""
        for _ in range(most):
            if not self.tick():
                return self.words[-1]
        raise AssertionError(f"Still moving after {most} ticks: {self.words[-3:]}")

    def launched(self, job: str, op: str, config: Mapping[str, Any], tags: Mapping[str, str] | None = None) -> None:
        """What a person does in the launchpad of a job with one step."""
        with disable_dagster_warnings():
            self.defs.resolve_job_def(job).execute_in_process(
                run_config={"ops": {op: {"config": dict(config)}}}, instance=self.instance, tags=dict(tags or {})
            )

    def _run(self, request: dg.RunRequest) -> None:
        with disable_dagster_warnings():
            self.defs.resolve_job_def(str(self.sensor.job_name)).execute_in_process(
                run_config=request.run_config, instance=self.instance, tags=dict(request.tags), raise_on_error=False
            )

    def _backfills(self) -> bool:
        statuses = {BulkActionStatus.REQUESTED}
        found = [each for each in self.instance.get_backfills() if each.status in statuses]
        for backfill in found:
            self._carry_out(backfill)
        return bool(found)

    def _carry_out(self, backfill: PartitionBackfill) -> None:
        """One run for each partitions definition, in the order of the graph, as the single-run policy asks for."""
        graph = self.defs.resolve_asset_graph()
        with partition_loading_context(dynamic_partitions_store=self.instance):
            wanted = _by_days(graph, backfill.get_asset_backfill_data(graph).target_subset)
        job, failed = self.defs.resolve_implicit_global_asset_job_def(), False
        for keys, days in wanted.items():
            result = job.execute_in_process(
                instance=self.instance,
                asset_selection=list(keys),
                tags={
                    **backfill.tags,
                    BACKFILL_ID_TAG: backfill.backfill_id,
                    ASSET_PARTITION_RANGE_START_TAG: days[0],
                    ASSET_PARTITION_RANGE_END_TAG: days[-1],
                },
                raise_on_error=False,
            )
            failed |= not result.success
        ended = BulkActionStatus.COMPLETED_FAILED if failed else BulkActionStatus.COMPLETED_SUCCESS
        self.instance.update_backfill(backfill._replace(status=ended))


def _by_days(graph: Any, target: Any) -> Mapping[tuple[dg.AssetKey, ...], list[str]]:
    grouped: dict[tuple[str, tuple[str, ...]], list[dg.AssetKey]] = {}
    for key in graph.toposorted_asset_keys:
        if key in target.asset_keys:
            days = sorted(target.get_partitions_subset(key).get_partition_keys())
            grouped.setdefault((str(graph.get(key).partitions_def), tuple(days)), []).append(key)
    return {tuple(keys): list(days) for (_, days), keys in grouped.items()}
