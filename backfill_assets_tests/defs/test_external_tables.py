"""A table that others write, in Dagster: an asset of theirs that is observed, and what is made of it follows."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.definitions.schedule_definition import ScheduleExecutionData
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.execution.backfill import BulkActionStatus

from backfill_assets.days import DayRange
from backfill_assets.defs.checks import FRESH, WATCHDOG
from backfill_assets.defs.dagster_internals import DATA_VERSION_TAG
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.sensors import external_tables
from backfill_assets.defs.sensors.landed_files import landed_file_sensor
from backfill_assets.defs.specs import REPAIR_TAG
from backfill_assets.defs.start_here import ASSET, STATE
from backfill_assets.defs.timelines import JOB as TIMELINE_JOB
from backfill_assets.defs.watchdogs import JOB, STEP
from backfill_assets.lakehouse.named_timelines import create_timeline
from backfill_assets.model.catalog import Catalog
from backfill_assets.timeline.rewind import new_timeline
from backfill_assets_tests.defs.conftest import (
    DagsterLake,
    evaluate_tick,
    evaluated,
    materialized,
    run_range,
    shown_on,
    target_of,
)
from backfill_assets_tests.defs.orders_of_others import DAYS, FACT, KEY, PAIR, Orders, delete, orders_at, shop, write
from backfill_assets_tests.defs.small_dataset import SMALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE, TWO, THREE, FOUR = (date(2025, 1, day) for day in (1, 2, 3, 4))


class InDagster(Orders):
    """With sensors that are evaluated as the daemon does."""

    def run(self, days: object, *tables: str, spark: SparkSession | None = None) -> dg.ExecuteInProcessResult:
        self.given.spark = spark
        return run_range(self.defs, self.instance, str(days), *(tables or (FACT, PAIR)))

    def tick(self, sensor: dg.SensorDefinition, cursor: str | None = None) -> SensorExecutionData:
        return evaluate_tick(sensor, self.instance, self.defs, self.resources, cursor)

    def observe(self, cursor: str | None = None) -> SensorExecutionData:
        return self.tick(self.named("external_tables"), cursor)

    def repair(self) -> str:
        return str(self.tick(self.named("repairs")).skip_message)

    def named(self, sensor: str) -> dg.SensorDefinition:
        return self.defs.get_repository_def().get_sensor_def(sensor)


def observations(found: SensorExecutionData) -> dict[str, str]:
    """The data version of each day that a tick observes."""
    events = [each for each in found.asset_events if isinstance(each, dg.AssetObservation)]
    assert all(each.asset_key == KEY for each in events)
    return {str(each.partition): str((each.tags or {})[DATA_VERSION_TAG]) for each in events}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """The home of a fact that a native range built, of twelve orders on six days."""
    home = tmp_path_factory.mktemp("orders")
    with dg.DagsterInstance.ephemeral() as instance:
        made = InDagster(home, instance)
        write(made.there, range(12))
        done = made.run(DAYS, spark=spark)
        assert done.success, [each.step_failure_data.error for each in done.all_events if each.is_step_failure]
        assert materialized(instance, FACT) == [str(day) for day in DAYS]
    return home


@pytest.fixture
def orders(built: Path, tmp_path: Path, dagster_instance: dg.DagsterInstance) -> InDagster:
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    return InDagster(tmp_path, dagster_instance)


@pytest.fixture
def new_orders(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> InDagster:
    """Nothing is built yet."""
    found = InDagster(tmp_path, dagster_instance)
    write(found.there, range(12))
    return found


def test_it_is_an_asset_of_the_company_that_nothing_here_materializes(new_orders: InDagster) -> None:
    graph = new_orders.defs.resolve_asset_graph()
    node = graph.get(KEY)
    assert node.is_external and node.is_observable is False and not graph.get(dg.AssetKey(FACT)).is_external
    assert graph.get(dg.AssetKey(FACT)).parent_keys == {KEY}
    assert not graph.has(dg.AssetKey("orders"))
    spec = next(each for each in new_orders.defs.resolve_all_asset_specs() if each.key == KEY)
    assert [column.name for column in spec.metadata["dagster/column_schema"].columns] == ["order_id", "amount", "day"]
    assert spec.metadata["dagster/uri"] == str(new_orders.there)
    assert KEY not in {each.asset_key for each in graph.asset_check_keys}
    jobs = new_orders.defs.get_repository_def().get_all_jobs()
    assert KEY not in {key for job in jobs for key in job.asset_layer.executable_asset_keys}


def test_a_dataset_of_tables_of_others_alone_loads_and_builds_nothing(tmp_path: Path) -> None:
    """Before its first fact is declared, and where it has a report of a month and no table of a day."""
    from backfill_assets.defs.location import code_location
    from backfill_assets.model.derived_dataset import DerivedDataset

    only = DerivedDataset(
        name="shop", description="", owners=("o",), first_day=DAYS.first, external=(orders_at(tmp_path),)
    )
    defs = code_location(Catalog.of([only]), Orders(tmp_path).resources)
    assert not [job.name for job in defs.get_repository_def().get_all_jobs() if job.name.startswith("daily_")]
    assert "external_tables" in {each.name for each in defs.get_repository_def().sensor_defs}


def test_a_native_range_builds_the_fact_and_says_what_is(orders: InDagster, spark: SparkSession) -> None:
    assert orders.published() == orders.expected() and orders.published(PAIR) == orders.expected(1)
    assert set(orders.statuses().values()) == {"fresh"}
    write(orders.there, [12, 13])  # one on each of the first two days
    done = orders.run(DAYS, spark=spark)
    assert done.success and orders.published() == orders.expected()
    verdicts = {str(each.partition): each.passed for each in evaluated(orders.instance, done.run_id, FACT, FRESH)}
    assert verdicts == {str(day): True for day in DAYS}
    (newest,) = orders.instance.fetch_materializations(dg.AssetKey(FACT), limit=1).records
    assert newest.asset_materialization
    shown = newest.asset_materialization.metadata["dagster/column_lineage"]
    assert isinstance(shown, dg.TableColumnLineageMetadataValue)
    assert list(shown.value.deps_by_column["amount"]) == [dg.TableColumnDep(KEY, "amount")]
    assert orders.run(str(date(2025, 2, 1))).success is False  # others have written nothing on that day


def test_days_that_moved_are_observed_once_each_with_a_version(orders: InDagster) -> None:
    first = orders.observe()
    before = observations(first)
    assert list(before) == [str(day) for day in DAYS] and len(set(before.values())) == len(DAYS)
    again = orders.observe(first.cursor)
    assert not again.asset_events and again.skip_message == "No table of others has moved."
    delete(orders.there, "3")
    found = orders.observe(again.cursor)
    assert observations(found).keys() == {str(FOUR)}
    assert observations(found)[str(FOUR)] != before[str(FOUR)]
    assert found.skip_message == "Observed 1 day."


def test_a_tick_observes_its_most_and_the_next_goes_on(orders: InDagster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert external_tables._MOST_DAYS == 300
    monkeypatch.setattr(external_tables, "_MOST_DAYS", 4)
    first = orders.observe()
    delete(orders.there, "0")  # a day that was observed, while two are not yet
    second = orders.observe(first.cursor)
    assert [sorted(observations(each)) for each in (first, second)] == [
        ["2025-01-01", "2025-01-02", "2025-01-03", "2025-01-04"],
        ["2025-01-01", "2025-01-05", "2025-01-06"],
    ]
    assert not orders.observe(second.cursor).asset_events


def test_a_day_that_has_not_ended_is_observed_when_it_has(orders: InDagster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It moves for the last time while it has no partition, and other days move after it."""
    last = str(DAYS.last)
    with monkeypatch.context() as today:
        today.setattr(dg.DailyPartitionsDefinition, "has_partition_key", lambda _, key, **more: key < last)
        first = orders.observe()
        delete(orders.there, "0")
        second = orders.observe(first.cursor)
    assert observations(first).keys() == {str(day) for day in DAYS} - {last}
    assert observations(second).keys() == {str(ONE)}
    third = orders.observe(second.cursor)
    assert observations(third).keys() == {last}
    assert not orders.observe(third.cursor).asset_events


def test_a_log_that_was_made_again_is_observed_from_its_beginning(orders: InDagster) -> None:
    first = orders.observe()
    shutil.rmtree(orders.storage.root)
    assert observations(orders.observe(first.cursor)).keys() == {str(day) for day in DAYS}


def test_one_that_cannot_be_read_hides_no_other(new_orders: InDagster) -> None:
    new_orders.declare(orders_at(new_orders.there.parent / "nowhere", "away"), orders_at(new_orders.there))
    assert len(observations(new_orders.observe())) == len(DAYS)
    shutil.rmtree(new_orders.there)
    found = new_orders.observe()
    assert len(observations(found)) == len(DAYS), "what was looked at before is still observed"


def test_repairs_build_exactly_the_days_that_read_what_moved(orders: InDagster, spark: SparkSession) -> None:
    assert orders.repair() == "Nothing to repair."
    delete(orders.there, "2")
    assert orders.repair() == "Nothing to repair.", "nobody has looked"
    orders.observe()
    stale = {table: [day for day, of in orders.statuses(table).items() if of != "fresh"] for table in (FACT, PAIR)}
    assert stale == {FACT: [3], PAIR: [3, 4]}
    assert "Launched the backfill" in orders.repair()
    (launched,) = orders.instance.get_backfills()
    assert target_of(launched) == {FACT: {str(THREE)}, PAIR: {str(THREE), str(FOUR)}}
    assert launched.tags[REPAIR_TAG] == launched.backfill_id
    assert f"waits for the backfill {launched.backfill_id}" in orders.repair()
    assert orders.run(DayRange(THREE, FOUR), spark=spark).success
    orders.instance.update_backfill(launched._replace(status=BulkActionStatus.COMPLETED_SUCCESS))
    assert orders.published(PAIR) == orders.expected(1) and set(orders.statuses().values()) == {"fresh"}
    assert "Launched" not in orders.repair()


def test_rows_that_lie_in_other_files_launch_nothing(orders: InDagster) -> None:
    from deltalake import DeltaTable

    write(orders.there, [12])
    before = observations(orders.observe())
    orders.repair()
    launched = len(list(orders.instance.get_backfills()))
    DeltaTable(str(orders.there)).optimize.compact()
    after = observations(orders.observe())
    assert after == before, "a data version is about rows"
    orders.repair()
    assert len(list(orders.instance.get_backfills())) == launched == 1


def test_a_fact_begins_when_a_person_builds_its_first_day(new_orders: InDagster, spark: SparkSession) -> None:
    """Others have years of it: how much is computed here is no sensor's to say. From that day on they follow."""
    new_orders.observe()
    assert set(new_orders.statuses().values()) == {"missing"}
    assert new_orders.repair() == "Nothing to repair." and not list(new_orders.instance.get_backfills())
    assert new_orders.run(THREE, FACT, spark=spark).success
    assert "Launched the backfill" in new_orders.repair()
    (launched,) = new_orders.instance.get_backfills()
    days = {"2025-01-04", "2025-01-05", "2025-01-06"}
    assert target_of(launched) == {FACT: days, PAIR: {"2025-01-03", *days}}, "and not the days before"


def nightly(of: InDagster) -> ScheduleExecutionData:
    """What the schedule of the daily job does at two in the morning after the last day."""
    repository, moment = of.defs.get_repository_def(), datetime(2025, 1, 7, 2, tzinfo=UTC)
    with dg.build_schedule_context(
        of.instance, scheduled_execution_time=moment, repository_def=repository, resources=of.resources
    ) as context:
        return repository.get_schedule_def("every_day_shop").evaluate_tick(context)


def test_the_daily_job_builds_the_day_that_has_ended(orders: InDagster, spark: SparkSession) -> None:
    job = orders.defs.resolve_job_def("daily_shop")
    assert set(job.asset_layer.selected_asset_keys) == {dg.AssetKey(FACT), dg.AssetKey(PAIR)}
    (request,) = nightly(orders).run_requests or ()
    assert (request.partition_key, request.asset_selection) == ("2025-01-06", None)
    write(orders.there, [17])
    orders.given.spark = spark
    assert job.execute_in_process(instance=orders.instance, partition_key="2025-01-06").success
    assert orders.published() == orders.expected()


def test_no_night_begins_what_no_person_has_begun(new_orders: InDagster) -> None:
    """That its table was looked at is no beginning."""
    new_orders.observe()
    assert "Nothing is published of shop yet" in str(nightly(new_orders).skip_message)


def test_published_days_of_facts_are_read_again_and_those_of_others_are_not(
    orders: InDagster, spark: SparkSession
) -> None:
    orders.given.spark = spark

    def looked(**config: object) -> dict[str, set[str]]:
        done = orders.defs.resolve_job_def(JOB).execute_in_process(
            instance=orders.instance, run_config={"ops": {STEP: {"config": config}}}, raise_on_error=False
        )
        assert done.success
        tables = {FACT: dg.AssetKey(FACT), PAIR: dg.AssetKey(PAIR), "orders": KEY, "own": dg.AssetKey("orders")}
        said = {
            name: evaluated(orders.instance, done.run_id, key.to_user_string(), WATCHDOG)
            for name, key in tables.items()
        }
        assert all(each.passed for of in said.values() for each in of)
        return {name: {str(each.partition) for each in of} for name, of in said.items() if of}

    days = {str(day) for day in DAYS}
    assert looked() == {FACT: days, PAIR: days}
    assert looked(days=str(DAYS), tables=["orders", FACT]) == {FACT: days}


def test_what_dagster_shows_is_about_what_is_built_here(orders: InDagster) -> None:
    """Days that no run here has reported, their freshness, and the first page; nothing of it is about their table."""
    shows = orders.named("dagster_shows_what_is")
    cursor = orders.tick(shows).cursor
    assert materialized(orders.instance, FACT) == [str(day) for day in DAYS]
    assert not orders.instance.get_materialized_partitions(KEY)
    assert not orders.instance.get_materialized_partitions(dg.AssetKey("orders"))
    said = orders.tick(shows, cursor).skip_message
    assert said == "Dagster shows what is."
    (page, *_) = shown_on(orders.instance, ASSET)
    assert "nothing to repair" in page[STATE]
    assert "shop: 6 days in 2 tables" in page[STATE].replace("\\", "")
    delete(orders.there, "2")
    orders.observe()
    orders.repair()
    orders.tick(shows, cursor)
    (page, *_) = shown_on(orders.instance, ASSET)
    assert "repairs" in page[STATE]


def test_the_first_page_of_a_new_lakehouse_says_to_launch_a_range(new_orders: InDagster) -> None:
    new_orders.tick(new_orders.named("dagster_shows_what_is"))
    (page, *_) = shown_on(new_orders.instance, ASSET)
    assert page[STATE].replace("\\", "") == "Nothing is published yet. Launch a range."


def test_what_others_write_is_nothing_to_build_on_a_timeline(orders: InDagster) -> None:
    config = {"timeline": "try", "tables": ["orders"], "days": str(DAYS)}
    create_timeline(orders.storage, new_timeline(orders.storage, "try", "ana", datetime.now(UTC)))
    done = orders.defs.resolve_job_def(TIMELINE_JOB).execute_in_process(
        instance=orders.instance, run_config={"ops": {"build": {"config": config}}}, raise_on_error=False
    )
    assert not done.success
    (failure,) = [event for event in done.all_events if event.is_step_failure]
    assert "orders is a table of others" in str(failure.step_failure_data.error)


def test_landed_files_leaves_a_chain_alone_that_lands_nothing(new_orders: InDagster, tmp_path: Path) -> None:
    """Also beside one that does."""
    found = new_orders.tick(new_orders.named("landed_files"))
    assert found.skip_message == "Everything that landed is ingested, or its schedule will ingest it."
    catalog = Catalog.of([SMALL, shop(orders_at(new_orders.there))])
    lake = DagsterLake(tmp_path / "both", new_orders.instance, catalog=catalog)
    for source in ("sales", "fx_rates"):
        folder = tmp_path / "both" / "landing" / source / "2017-03-04"
        folder.mkdir(parents=True)
        (folder / "1.jsonl.gz").touch()
    sensor = landed_file_sensor(PartitionedTables(catalog))
    cursor = lake.evaluate(sensor).cursor
    assert "Launched the backfill initial-" in str(lake.evaluate(sensor, cursor).skip_message)
    (launched,) = new_orders.instance.get_backfills()
    assert FACT not in target_of(launched) and "raw_sales" in target_of(launched)
