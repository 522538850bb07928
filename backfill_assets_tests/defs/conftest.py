"""What tests of the Dagster definitions share: a throw-away instance, and a location over the fake builder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.execution.backfill import PartitionBackfill
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from backfill_assets.cli.dev.dagster_home import dagster_home
from backfill_assets.days import DayRange
from backfill_assets.defs.location import code_location
from backfill_assets.landing.data_days import DataDays
from backfill_assets.model.catalog import Catalog
from backfill_assets.settings import Settings
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources, fake_watch
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG, TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse

FIRST_DAY = date(2016, 12, 24)
Run = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture(scope="session", autouse=True)
def revisions_are_read_once() -> Iterator[None]:
    """Dagster reads the 90 revisions of its schemas for each database that it makes: most of what an instance takes."""
    read: dict[str | None, ScriptDirectory] = {}

    def from_config(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in read:
            read[place] = as_it_is(config)
        return read[place]

    as_it_is = ScriptDirectory.from_config
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ScriptDirectory, "from_config", from_config)
        yield


@pytest.fixture
def dagster_instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def own_instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """With the repository's own ``dagster.yaml``."""
    with dg.DagsterInstance.from_config(str(dagster_home(Settings.at(tmp_path)))) as instance:
        yield instance


@pytest.fixture
def builder() -> FakeBuilder:
    return FakeBuilder()


@pytest.fixture
def location(builder: FakeBuilder) -> dg.Definitions:
    return code_location(SMALL_CATALOG, fake_resources(builder))


def range_tags(first: date | str, last: date | str) -> dict[str, str]:
    """Those of a run of a ranged backfill."""
    return {ASSET_PARTITION_RANGE_START_TAG: str(first), ASSET_PARTITION_RANGE_END_TAG: str(last)}


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
    return location.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        tags=range_tags(asked.first, asked.last) | dict(tags or {}),
        run_config=dict(run_config or {}),
        asset_selection=[dg.AssetKey(table) for table in tables or TABLES],
        raise_on_error=False,
    )


def evaluate_tick(
    sensor: dg.SensorDefinition,
    instance: dg.DagsterInstance,
    location: dg.Definitions,
    resources: Mapping[str, Any],
    cursor: str | None = None,
) -> SensorExecutionData:
    """What the daemon gets to know of a tick."""
    repository = location.get_repository_def()
    with dg.build_sensor_context(instance, cursor, repository_def=repository, resources=dict(resources)) as context:
        return sensor.evaluate_tick(context)


class DagsterLake:
    """A small lakehouse with its code location over a fake builder, and a Dagster instance."""

    def __init__(
        self,
        home: Path,
        instance: dg.DagsterInstance,
        lakehouse: SmallLakehouse | None = None,
        catalog: Catalog = SMALL_CATALOG,
        data: Mapping[str, DataDays] | None = None,
    ) -> None:
        self.home, self.instance = home, instance
        self.lakehouse = lakehouse or SmallLakehouse(home / "lakehouse", catalog.steps)
        self.watch = fake_watch(self.lakehouse)
        self.builder = FakeBuilder(log=self.lakehouse.publisher.log, watch=self.watch)
        self.resources = fake_resources(self.builder, home)
        self.defs = code_location(catalog, self.resources, data=data)

    def evaluate(self, sensor: dg.SensorDefinition, cursor: str | None = None) -> SensorExecutionData:
        return evaluate_tick(sensor, self.instance, self.defs, self.resources, cursor)

    def backfills(self) -> list[PartitionBackfill]:
        return list(self.instance.get_backfills())

    def plan(self, first: date | str, last: date | str, *tables: str) -> dg.DagsterRun:
        """A run of ``tables`` that has not come to any check yet."""
        return self.instance.create_run_for_job(
            self.defs.resolve_implicit_global_asset_job_def(),
            asset_selection={dg.AssetKey(table) for table in tables},
            tags=range_tags(first, last),
        )

    def run_job(self, job: str, op: str, **config: object) -> dg.ExecuteInProcessResult:
        run_config = {"ops": {op: {"config": config}}}
        return self.defs.resolve_job_def(job).execute_in_process(
            instance=self.instance, run_config=run_config, raise_on_error=False
        )


def target_of(backfill: PartitionBackfill) -> dict[str, set[str]]:
    """The days of each table that a backfill is to build."""
    assert backfill.asset_backfill_data
    found: dict[str, set[str]] = {}
    for each in backfill.asset_backfill_data.target_subset.iterate_asset_partitions():
        found.setdefault(each.asset_key.to_user_string(), set()).add(str(each.partition_key))
    return found


def shown_on(instance: dg.DagsterInstance, asset: str, partition: str | None = None) -> list[dict[str, Any]]:
    """The values on the pages of an asset, or of one partition of it; newest first."""
    partitions = None if partition is None else [partition]
    chosen = dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=partitions)
    records = instance.fetch_materializations(chosen, limit=100).records
    events = (record.asset_materialization for record in records)
    return [{name: value.value for name, value in event.metadata.items()} for event in events if event]


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
