"""The nightly run: what it asks for, and when."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg
import pytest

from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets_tests.defs.fake_builder import FakeBuilder
from backfill_assets_tests.defs.small_dataset import TABLES

pytestmark = pytest.mark.story

TWO_IN_THE_MORNING = datetime(2017, 3, 2, 2, 0, tzinfo=UTC)


# Dagster's own builder of schedules calls what Dagster has deprecated.
@pytest.mark.filterwarnings("ignore:Function `JobDefinition.run_request_for_partition`:DeprecationWarning")
def test_one_run_of_yesterday_for_every_daily_table(
    location: dg.Definitions, dagster_instance: dg.DagsterInstance
) -> None:
    """One run, so one Spark session; yesterday, because a day is only built when it has ended."""
    context = dg.build_schedule_context(dagster_instance, scheduled_execution_time=TWO_IN_THE_MORNING)
    requests = location.resolve_schedule_def("every_day_small").evaluate_tick(context).run_requests
    assert requests
    assert [request.partition_key for request in requests] == ["2017-03-01"]
    job = location.resolve_job_def("daily_small")
    assert {key.to_user_string() for key in job.asset_layer.executable_asset_keys} == set(TABLES)


def test_the_job_materializes_that_day(
    location: dg.Definitions, dagster_instance: dg.DagsterInstance, builder: FakeBuilder
) -> None:
    """The request's partition reaches every step without range tags; a published day keeps its version."""
    job = location.resolve_job_def("daily_small")
    result = job.execute_in_process(instance=dagster_instance, partition_key="2017-03-01")
    assert result.success
    assert set(builder.versions) == {AS_PUBLISHED}
    for table in TABLES:
        assert dagster_instance.get_materialized_partitions(dg.AssetKey(table)) == {"2017-03-01"}
