"""The queue of the repository's ``dagster.yaml``: backfills are bounded, and a daily run never waits for one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import dagster as dg
from dagster._core.execution.api import create_execution_plan
from dagster._core.op_concurrency_limits_counter import compute_run_op_concurrency_info_for_snapshot
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.snap import snapshot_from_execution_plan
from dagster._core.storage.dagster_run import DagsterRunStatus
from dagster._core.storage.tags import BACKFILL_ID_TAG
from dagster._core.utils import make_new_run_id
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster_shared.utils.warnings import disable_dagster_warnings

from backfill_assets.defs.campaigns.jobs import KIND_TAG
from backfill_assets.defs.location import code_location
from backfill_assets.defs.resources import EMBEDDED_SPARK
from backfill_assets.defs.streams import STREAM_TAG
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import SMALL, SMALL_CATALOG, STREAMED_CATALOG

_REPOSITORY = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("small"), "small")
MOST_BACKFILLS, MOST_EMBEDDED, MOST_STREAMS = 4, 2, 2


def test_backfills_are_bounded_and_a_daily_run_goes_first(own_instance: dg.DagsterInstance) -> None:
    """It was asked for last, with more backfill runs waiting than may work at once."""
    backfills = [_queued(own_instance, _everything(), tags={BACKFILL_ID_TAG: f"b{number % 2}"}) for number in range(6)]
    daily = _queued(own_instance, _daily())
    assert _next(own_instance) == [daily, *backfills[:MOST_BACKFILLS]]


def test_a_daily_run_starts_while_as_many_backfills_as_may_are_at_work(own_instance: dg.DagsterInstance) -> None:
    """Places are kept for it: it does not wait until one of them ends."""
    for number in range(MOST_BACKFILLS):
        _queued(own_instance, _everything(), DagsterRunStatus.STARTED, tags={BACKFILL_ID_TAG: f"b{number}"})
    _queued(own_instance, _everything(), tags={BACKFILL_ID_TAG: "b9"})
    daily = _queued(own_instance, _daily())
    assert _next(own_instance) == [daily]


def test_a_stream_takes_no_place_from_backfills_and_daily_runs(own_instance: dg.DagsterInstance) -> None:
    """Its run lasts for months: places are kept for two of them."""
    for _ in range(MOST_STREAMS):
        _queued(own_instance, _stream(), DagsterRunStatus.STARTED, tags={STREAM_TAG: "stream_small"})
    backfills = [_queued(own_instance, _everything(), tags={BACKFILL_ID_TAG: "b1"}) for _ in range(6)]
    daily = [_queued(own_instance, _daily()), _queued(own_instance, _daily())]
    assert _next(own_instance) == [*daily, *backfills[:MOST_BACKFILLS]]


def test_a_stream_is_in_no_pool(own_instance: dg.DagsterInstance) -> None:
    """Runs with a JVM of their own, as many as may work at once, do not keep it waiting, and it starts none itself."""
    for _ in range(MOST_EMBEDDED):
        _queued(own_instance, _everything(EMBEDDED_SPARK), DagsterRunStatus.STARTED)
    stream = _queued(own_instance, _stream(EMBEDDED_SPARK))
    _next(own_instance)
    assert _next(own_instance) == [stream]


def test_fewer_runs_with_a_jvm_of_their_own_work_at_once(own_instance: dg.DagsterInstance) -> None:
    """Each may take a quarter of the memory. The limit of a pool is known from the first look at the queue on."""
    for _ in range(MOST_BACKFILLS):
        _queued(own_instance, _everything(EMBEDDED_SPARK))
    _next(own_instance)
    assert len(_next(own_instance)) == MOST_EMBEDDED


def test_everything_that_may_start_a_jvm_is_in_the_pool() -> None:
    """Campaigns and timelines too: what is left out needs the logs alone, or has a session that all runs share."""
    location = _location(EMBEDDED_SPARK)
    with disable_dagster_warnings():
        assets = [asset for asset in location.assets or () if isinstance(asset, dg.AssetsDefinition)]
        jobs = [job for job in location.jobs or () if isinstance(job, dg.JobDefinition)]
    assert {asset.op.pool for asset in assets} == {EMBEDDED_SPARK}
    pools = {job.name: node.pool for job in jobs for node in job.all_node_defs if isinstance(node, dg.OpDefinition)}
    assert {name for name, pool in pools.items() if pool != EMBEDDED_SPARK} == {"incidents", "maintain", "watchdogs"}


def test_runs_of_campaigns_are_bounded_by_themselves(own_instance: dg.DagsterInstance) -> None:
    """They last until a person decides: two of them take no place from backfills."""
    for _ in range(MOST_STREAMS):
        _queued(own_instance, _daily(), DagsterRunStatus.STARTED, tags={KIND_TAG: "campaign"})
    waiting = _queued(own_instance, _daily(), tags={KIND_TAG: "campaign"})
    backfills = [_queued(own_instance, _everything(), tags={BACKFILL_ID_TAG: "b1"}) for _ in range(6)]
    found = _next(own_instance)
    assert waiting not in found and set(found) == set(backfills[:MOST_BACKFILLS])


@cache
def _location(pool: str | None = None) -> dg.Definitions:
    return code_location(SMALL_CATALOG, fake_resources(FakeBuilder()), pool=pool)


@cache
def _daily() -> dg.JobDefinition:
    with disable_dagster_warnings():
        return _location().resolve_job_def("daily_small")


@cache
def _everything(pool: str | None = None) -> dg.JobDefinition:
    """All tables of the dataset, as a backfill of them."""
    tables = {dg.AssetKey(table.name) for table in SMALL.tables}
    with disable_dagster_warnings():
        return _location(pool).resolve_implicit_global_asset_job_def().get_subset(asset_selection=tables)


@cache
def _stream(pool: str | None = None) -> dg.JobDefinition:
    with disable_dagster_warnings():
        job = code_location(
            STREAMED_CATALOG, fake_resources(FakeBuilder()), pool=pool
        ).resolve_implicit_global_asset_job_def()
        return job.get_subset(asset_selection={dg.AssetKey("stream_small")})


def _queued(
    instance: dg.DagsterInstance,
    job: dg.JobDefinition,
    status: DagsterRunStatus = DagsterRunStatus.QUEUED,
    tags: Mapping[str, str] | None = None,
) -> str:
    """The run's id; of runs, the queue knows tags and the pools of their steps."""
    plan = snapshot_from_execution_plan(create_execution_plan(job), job.get_job_snapshot_id())
    run = dg.DagsterRun(
        job_name=job.name,
        run_id=make_new_run_id(),
        status=status,
        tags={**job.run_tags, **(tags or {})},
        remote_job_origin=RemoteJobOrigin(_REPOSITORY, job.name),
        run_op_concurrency=compute_run_op_concurrency_info_for_snapshot(plan),
    )
    return instance.add_run(run).run_id


def _next(instance: dg.DagsterInstance) -> list[str]:
    """The runs that the daemon would start now, in this order."""
    daemon = QueuedRunCoordinatorDaemon(interval_seconds=1)
    with daemon:
        runs = daemon._get_runs_to_dequeue(instance, instance.get_concurrency_config(), fixed_iteration_time=None)
    return [run.run_id for run in runs]
