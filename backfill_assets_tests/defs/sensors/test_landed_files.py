"""The sensor ``landed_files`` on a real instance: a dataset begins once, by itself, when its files are there."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from deltalake import CommitProperties, Transaction, write_deltalake

from backfill_assets.days import DayRange
from backfill_assets.defs.look_back import EARLIER_TAG
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.sensors.landed_files import landed_file_sensor
from backfill_assets.defs.specs import VERSION_TAG
from backfill_assets.defs.under_way import launch_backfill
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.data_days import DataDays
from backfill_assets.landing.zone import LandingZone, position_id
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Reads
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.stream.lease import acquire_stream
from backfill_assets_tests.defs.conftest import DagsterLake, target_of
from backfill_assets_tests.defs.small_dataset import SMALL, SMALL_TABLES, TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse, table_of

DAYS = (date(2017, 3, 1), date(2017, 3, 2))
LOOKED_BACK_TO = Catalog(
    (
        replace(
            SMALL,
            steps=tuple(
                replace(each, versions=(replace(each.version(), reads=(Reads("bronze_sales", -7, 0),)),))
                if each.name == "fact_sales_transactions"
                else each
                for each in SMALL.steps
            ),
        ),
    )
)
"""The same, and its facts look back to the sales of a week."""


class World(DagsterLake):
    """With a landing zone, and a sensor that keeps its cursor from tick to tick as the daemon does."""

    cursor = ""

    def land(self, day: date, name: str = "a") -> None:
        path = self.home / "landing" / "sales" / str(day) / f"{name}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")

    def take_in(self, day: date, *names: str) -> None:
        self.lakehouse.publish(f"raw-{day}", {"raw_sales": {day: [1]}}, mode="append")
        taken = [Transaction(position_id("sales", f"sales/{day}/{name}.jsonl.gz"), 7) for name in names]
        properties = CommitProperties(app_transactions=taken)
        uri = self.lakehouse.storage.uri("raw_sales")
        write_deltalake(uri, table_of(day, []), mode="append", commit_properties=properties)

    def tick(self) -> str:
        found = self.evaluate(landed_file_sensor(SMALL_TABLES), self.cursor)
        self.cursor = found.cursor or ""
        return str(found.skip_message)


@pytest.fixture
def by_hand(world: World) -> PartitionBackfill:
    """A person has launched the first day of every table, which has landed."""
    world.land(DAYS[0])
    graph = world.defs.resolve_asset_graph()
    launch_backfill(world.instance, graph, dict.fromkeys(TABLES, DayRange.of(DAYS[0])), title="By hand")
    (backfill,) = world.backfills()
    return backfill


@pytest.fixture
def world(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> World:
    return World(tmp_path, dagster_instance)


def test_what_was_taken_in_is_read_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked up file by file, 20,000 of them took a tick 20 to 72 s, every minute."""
    names = [f"part-{number}" for number in range(30)]
    for name in names:
        world.land(DAYS[0], name)
    world.take_in(DAYS[0], *names)
    lookups: list[str] = []
    monkeypatch.setattr(MainTable, "transaction", lambda _, id: lookups.append(id))
    assert "or its schedule will" in world.tick()
    assert lookups == []


def test_a_dataset_whose_days_have_landed_begins_by_itself_once(world: World) -> None:
    """When nothing has landed for one tick, so that a delivery is not cut in two; then never again."""
    assert "or its schedule will" in world.tick()
    world.land(DAYS[0])
    assert "still landing" in world.tick()
    world.land(DAYS[1])
    assert "still landing" in world.tick()
    assert "Launched the backfill initial-" in world.tick()
    (backfill,) = world.backfills()
    assert target_of(backfill) == {table: set(map(str, DAYS)) for table in TABLES}
    assert backfill.tags[VERSION_TAG] == AS_PUBLISHED, "a published day keeps its version"
    world.tick()
    world.instance.update_backfill(backfill._replace(status=BulkActionStatus.COMPLETED_FAILED))
    world.tick()
    assert len(world.backfills()) == 1


def test_what_a_person_has_launched_is_theirs(world: World, by_hand: PartitionBackfill) -> None:
    """The demo lands days and launches them itself: nothing is launched beside it."""
    world.tick()
    world.tick()
    assert world.backfills() == [by_hand]


def test_what_was_launched_and_never_published_is_not_called_ingested(world: World, by_hand: PartitionBackfill) -> None:
    """Its backfill failed, or the lakehouse was deleted since: nothing ingests it until a person launches it."""
    assert f"Waiting: raw_sales 2017-03-01: the backfill {by_hand.backfill_id}" in world.tick()
    world.instance.update_backfill(by_hand._replace(status=BulkActionStatus.COMPLETED_FAILED))
    said = world.tick()
    assert "launched before, and nothing is published" in said
    assert said.endswith("backfill run raw_sales+ --days 2017-03-01")
    assert "or its schedule will" not in said


def test_a_table_that_was_made_and_never_published_to_is_not_called_ingested(world: World) -> None:
    """Its first run was killed after it had made the table: no schedule takes in what landed on earlier days."""
    world.land(DAYS[0])
    lakehouse = SmallLakehouse(world.home / "lakehouse")
    lakehouse.crash("killed", {"raw_sales": {DAYS[0]: [1]}}, CrashPoint.TABLES_READ)
    assert lakehouse.storage.exists("raw_sales/_delta_log")
    assert "still landing" in world.tick()
    assert "Launched the backfill initial-" in world.tick()
    (backfill,) = world.backfills()
    world.instance.update_backfill(backfill._replace(status=BulkActionStatus.COMPLETED_FAILED))
    assert "launched before, and nothing is published" in world.tick()


def test_a_late_file_is_left_to_a_stream_of_the_landing_folder(world: World) -> None:
    """It has found the file within seconds. A stream of a topic reads no files."""
    world.land(DAYS[0])
    world.take_in(DAYS[0], "a")
    world.land(DAYS[0], "late")
    storage = Storage(str(world.home / "lakehouse"))
    lease = acquire_stream(storage, "raw_sales", "landing")
    assert "waits for the stream of raw_sales" in world.tick()
    lease.beat(source="kafka://broker:9092/sales")
    assert "Launched the backfill late-" in world.tick()


def test_a_late_file_is_taken_in_by_one_backfill_of_raw(world: World) -> None:
    """It is found by its name; a day of which nothing was taken in is left to its schedule."""
    world.land(DAYS[0])
    world.take_in(DAYS[0], "a")
    assert "or its schedule will" in world.tick()
    world.land(DAYS[0], "late")
    world.land(DAYS[1])
    assert "Launched the backfill late-" in world.tick()
    (backfill,) = world.backfills()
    assert target_of(backfill) == {"raw_sales": {str(DAYS[0])}}
    world.tick()
    world.instance.update_backfill(backfill._replace(status=BulkActionStatus.COMPLETED_FAILED))
    assert "did not take them in" in world.tick()
    assert len(world.backfills()) == 1


def test_a_whole_day_that_lands_late_is_taken_in_once_a_later_one_was(world: World) -> None:
    """Before, the tick said that everything was ingested."""
    early, late = DAYS[0] - timedelta(days=1), DAYS[0]
    for day in (early, DAYS[1]):
        world.land(day)
        world.take_in(day, "a")
    world.land(late)
    world.tick()
    assert "Launched the backfill late-" in world.tick()
    (backfill,) = world.backfills()
    assert target_of(backfill) == {"raw_sales": {str(late)}}


def test_a_day_that_was_rolled_back_is_left_alone_and_named(world: World) -> None:
    """All of its files were given back."""
    early, late = DAYS[0] - timedelta(days=1), DAYS[0]
    for day in (early, late, DAYS[1]):
        world.land(day)
        world.take_in(day, "a")
    lakehouse = SmallLakehouse(world.home / "lakehouse")
    back = CommitProperties(app_transactions=[Transaction(position_id("sales", f"sales/{late}/a.jsonl.gz"), 0)])
    uri = lakehouse.storage.uri("raw_sales")
    write_deltalake(uri, table_of(late, []), mode="append", commit_properties=back)
    world.tick()
    assert f"raw_sales {late}: 1 file given back by a rollback" in world.tick()
    assert world.backfills() == []


def test_no_file_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs every minute, over all that ever landed."""
    monkeypatch.setattr(LandingZone, "files", None)
    world.land(DAYS[0])
    world.tick()


def test_rates_before_the_first_sale_land_late_and_older_ones_wait_for_nobody(
    tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """Partitions begin with the sales. Of the days before, those come in that are looked back to; the sample lands
    rates for two days more, which no result needs."""
    data = {"small": DataDays(DAYS[0], DAYS[1])}
    world = World(tmp_path, dagster_instance, catalog=LOOKED_BACK_TO, data=data)
    sensor = landed_file_sensor(PartitionedTables(LOOKED_BACK_TO, data))
    for n in range(9):
        world.land(DAYS[0] - timedelta(days=n))
    for n in (0, 2):
        world.take_in(DAYS[0] - timedelta(days=n), "a")
    still_landing = world.evaluate(sensor)
    said = str(world.evaluate(sensor, still_landing.cursor).skip_message)
    assert "Launched the backfill late-" in said and "Waiting" not in said
    (backfill,) = world.backfills()
    assert target_of(backfill) == {"raw_sales": {str(DAYS[0])}}
    assert backfill.tags[EARLIER_TAG] == f"raw_sales {DAYS[0] - timedelta(days=1)}"
