"""Is a process still at work on a backfill? A killed run says nothing, and stays started in Dagster for ever."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.storage.dagster_run import DagsterRunStatus
from dagster._core.storage.tags import BACKFILL_ID_TAG
from dagster._core.utils import make_new_run_id

from backfill_assets.defs.instance.under_way import PATIENCE, is_backfill_alive

SOON, LATE = timedelta(minutes=1), PATIENCE + timedelta(minutes=1)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as found:
        yield found


def _backfill(
    status: BulkActionStatus = BulkActionStatus.REQUESTED, begun: timedelta = timedelta(0)
) -> PartitionBackfill:
    return PartitionBackfill(
        backfill_id="campaign-x-w1r0",
        status=status,
        from_failure=False,
        tags={},
        backfill_timestamp=(datetime.now(UTC) - begun).timestamp(),
        asset_selection=[dg.AssetKey(["shadow", "fact"])],
    )


def _run(instance: dg.DagsterInstance, status: DagsterRunStatus) -> dg.DagsterRun:
    tags = {BACKFILL_ID_TAG: "campaign-x-w1r0"}
    return instance.add_run(dg.DagsterRun(job_name="j", run_id=make_new_run_id(), status=status, tags=tags))


def _alive(instance: dg.DagsterInstance, after: timedelta, backfill: PartitionBackfill | None = None) -> bool:
    return is_backfill_alive(instance, backfill or _backfill(), datetime.now(UTC) + after)


def test_one_that_ended_is_not_alive_no_matter_what_its_runs_say(instance: dg.DagsterInstance) -> None:
    _run(instance, DagsterRunStatus.STARTED)
    assert not _alive(instance, SOON, _backfill(BulkActionStatus.COMPLETED_SUCCESS))


def test_one_whose_run_was_killed_is_given_up_after_an_hour(instance: dg.DagsterInstance) -> None:
    """A campaign must not wait for it for ever."""
    _run(instance, DagsterRunStatus.STARTED)
    assert _alive(instance, SOON)
    assert not _alive(instance, LATE)


def test_one_that_waits_in_the_queue_is_alive_however_long(instance: dg.DagsterInstance) -> None:
    """Other runs may take hours; only one that was started has to say something."""
    _run(instance, DagsterRunStatus.NOT_STARTED)
    assert _alive(instance, LATE)


def test_one_that_the_daemon_has_not_begun_is_waited_for(instance: dg.DagsterInstance) -> None:
    """But not for ever."""
    assert _alive(instance, SOON)
    assert not _alive(instance, LATE)


def test_one_whose_last_run_has_just_ended_is_waited_for(instance: dg.DagsterInstance) -> None:
    """A long range has several runs, one after the other; the daemon may be about to start the next."""
    instance.report_run_failed(_run(instance, DagsterRunStatus.STARTED))
    old = _backfill(begun=LATE)
    assert _alive(instance, SOON, old)
    assert not _alive(instance, LATE, old)
