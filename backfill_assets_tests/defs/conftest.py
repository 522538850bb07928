"""What tests of the Dagster definitions share: a throw-away instance, and a location over the fake builder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from backfill_assets.days import DayRange
from backfill_assets.defs.location import code_location
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG, TABLES

FIRST_DAY = date(2016, 12, 24)
Run = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def dagster_instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def builder() -> FakeBuilder:
    return FakeBuilder()


@pytest.fixture
def location(builder: FakeBuilder) -> dg.Definitions:
    return code_location(SMALL_CATALOG, fake_resources(builder))


def run_range(
    location: dg.Definitions,
    instance: dg.DagsterInstance,
    days: str,
    *tables: str,
    run_config: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.ExecuteInProcessResult:
    """Run the whole chain, or some ``tables``, for a day range in this process, as a ranged backfill run would."""
    asked = DayRange.parse(days)
    ranged = {
        ASSET_PARTITION_RANGE_START_TAG: asked.first.isoformat(),
        ASSET_PARTITION_RANGE_END_TAG: asked.last.isoformat(),
    }
    return location.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        tags=ranged | dict(tags or {}),
        run_config=dict(run_config or {}),
        asset_selection=[dg.AssetKey(table) for table in tables or TABLES],
        raise_on_error=False,
    )


@pytest.fixture
def run(location: dg.Definitions, dagster_instance: dg.DagsterInstance) -> Run:
    return partial(run_range, location, dagster_instance)


def materialized(instance: dg.DagsterInstance, table: str) -> list[str]:
    return sorted(instance.get_materialized_partitions(dg.AssetKey(table)))


def evaluated(instance: dg.DagsterInstance, run_id: str, table: str, check: str = "") -> list[dg.AssetCheckEvaluation]:
    """What a run has said of the checks of ``table``, or of one ``check``, in order."""
    kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
    records = instance.get_records_for_run(run_id, of_type=kind).records
    events = (record.event_log_entry.get_dagster_event() for record in records)
    found = [event.asset_check_evaluation_data for event in events]
    return [each for each in found if each.asset_key == dg.AssetKey(table) and check in ("", each.check_name)]
