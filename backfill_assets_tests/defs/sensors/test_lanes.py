"""One table that cannot be read, or one sensor that fails, stops nothing else, and is told."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.defs import own_lakehouse
from backfill_assets.defs.own_lakehouse import EVERY_TAG
from backfill_assets.defs.sensors import repairs
from backfill_assets.defs.start_here import lakehouse_state, state_metadata
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.notice_routes import parse_routes
from backfill_assets.publish.mend import carry_out, plan_mend
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.automation import SensorBook
from backfill_assets.upkeep.incidents import IncidentBook
from backfill_assets_tests.defs.conftest import target_of
from backfill_assets_tests.defs.fake_builder import FakeBackfill
from backfill_assets_tests.defs.sensors.test_repairs import DAY, SENSOR, World
from backfill_assets_tests.defs.small_chain import publish_chain
from backfill_assets_tests.defs.small_dataset import SMALL_TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse

DAYS = [DAY, date(2017, 3, 5), date(2017, 3, 6)]
REPORT = "fact_daily_revenue"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> SmallLakehouse:
    """Each day of everything by a publication of its own."""
    found = SmallLakehouse(tmp_path_factory.mktemp("published") / "lakehouse")
    for number, day in enumerate(DAYS):
        publish_chain(found, f"p{number}", [day])
    return found


@pytest.fixture
def world(published: SmallLakehouse, dagster_instance: dg.DagsterInstance, tmp_path: Path) -> World:
    shutil.copytree(published.storage.root, tmp_path / "lakehouse")
    lakehouse = SmallLakehouse(tmp_path / "lakehouse")
    lakehouse.minutes = published.minutes
    return World(tmp_path, dagster_instance, lakehouse)


def _lose_the_newest_but_one(world: World) -> None:
    sorted(Path(world.lakehouse.storage.root, REPORT, "_delta_log").glob("*.json"))[-2].unlink()


def _set(world: World, **changes: Any) -> None:
    before = world.resources["backfill"]
    settings = replace(before.settings, **changes)
    world.resources["backfill"] = FakeBackfill(fake=before.fake, settings=settings, catalog=CATALOG, spark=before.spark)


def _open(world: World) -> dict[Cause, str]:
    return {each.cause: each.table for each in IncidentBook(world.lakehouse.storage).open()}


def _due(world: World) -> list[str]:
    return [file.path for file in world.lakehouse.storage.files("_outbox/due")]


def test_a_fault_in_another_table_is_repaired_beside_a_table_that_cannot_be_read(world: World) -> None:
    """It is an incident of its own, told once with what mends it; mended, it closes, and its days follow."""
    _lose_the_newest_but_one(world)
    world.late_row(DAY)
    told = world.tick()
    (backfill,) = world.backfills()
    assert set(target_of(backfill)) == {"bronze_sales", "quarantine_sales", "fact_sales_transactions"}
    assert f"backfill maintain --mend {REPORT}" in told
    world.tick()
    assert _open(world) == {Cause.LATE: "bronze_sales", Cause.UNREADABLE: REPORT}
    assert len(_due(world)) == 1, "late rows heal by themselves, and are only listed"
    page = str(state_metadata(lakehouse_state(world.instance, world.resources["backfill"], SMALL_TABLES)))
    assert f"backfill maintain --mend {REPORT}" in page
    publisher = world.lakehouse.publisher
    carry_out(publisher, plan_mend(publisher, REPORT))
    world.tick()
    assert _open(world) == {Cause.LATE: "bronze_sales"} and len(_due(world)) == 2


def test_what_was_open_about_it_stays_open(world: World) -> None:
    """Of a table that cannot be read nothing is known to be right again."""
    _set(world, repairs="days=1,settle=0")
    for day in DAYS[:2]:
        world.lakehouse.write_past_the_protocol(REPORT, day, [9])
    world.tick()
    (before,) = IncidentBook(world.lakehouse.storage).open()
    assert (before.cause, before.state) == (Cause.FOREIGN_WRITE, "person"), "beyond the bounds"
    _lose_the_newest_but_one(world)
    world.tick()
    assert _open(world) == {Cause.FOREIGN_WRITE: REPORT, Cause.UNREADABLE: REPORT}


def test_a_sensor_that_fails_twice_is_told_by_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also ``repairs``, which tells of all else; told at once, and over with its next good tick."""
    file = world.home / "notices.jsonl"
    backfill = world.resources["backfill"]
    routes = replace(backfill.settings, notices=parse_routes(f"file:{file}"))
    world.resources["backfill"] = FakeBackfill(
        fake=backfill.fake, settings=routes, catalog=CATALOG, spark=backfill.spark
    )

    def broken(*_: object) -> object:
        raise LakehouseUnusable("The log is on fire.", hint="Put it out.")

    with monkeypatch.context() as patched:
        patched.setattr(repairs, "heal", broken)
        for _ in range(3):
            with pytest.raises(LakehouseUnusable):
                world.tick()
    assert _open(world) == {Cause.AUTOMATION: repairs.SENSOR}
    (told,) = file.read_text().splitlines()
    assert "The log is on fire." in told and "Put it out." in told
    page = str(state_metadata(lakehouse_state(world.instance, world.resources["backfill"], SMALL_TABLES)))
    assert "The sensor repairs failed 3 times in a row" in page and "The log is on fire." in page
    world.tick()
    assert _open(world) == {} and not list(SensorBook(world.lakehouse.storage).troubles(world.lakehouse.now()))


def test_the_heartbeat_is_called_while_every_sensor_ends_well(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[str] = []
    monkeypatch.setattr(own_lakehouse, "beat", lambda storage, address, now: beats.append(address))
    backfill = world.resources["backfill"]
    called = replace(backfill.settings, heartbeat="http://127.0.0.1:9/s3cret")
    world.resources["backfill"] = FakeBackfill(
        fake=backfill.fake, settings=called, catalog=CATALOG, spark=backfill.spark
    )
    own = [each for each in world.defs.sensors or () if EVERY_TAG in each.tags]
    assert len(own) == 5
    for sensor in own[1:]:
        world.evaluate(sensor)
    assert beats == [], "one has not run yet"
    world.evaluate(own[0])
    assert beats == ["http://127.0.0.1:9/s3cret"]
    with monkeypatch.context() as patched:
        patched.setattr(repairs, "heal", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            world.evaluate(SENSOR)
    world.evaluate(own[0])
    assert len(beats) == 1, "one has failed since"
