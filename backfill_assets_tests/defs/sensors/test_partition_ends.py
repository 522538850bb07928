"""Partitions of data that has ended grow with it: the sensor has the code location loaded again, once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.defs import dagster_internals
from backfill_assets.defs.dagster_internals import GrpcServerCodeLocationOrigin
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.sensors.shows_what_is import ends_of_data, shows_what_is_sensor
from backfill_assets.settings import Settings
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG

pytestmark = pytest.mark.story

END = date(2017, 5, 29)
SERVER = GrpcServerCodeLocationOrigin("localhost", port=4000, location_name="small")
Tick = Callable[..., Any]


@pytest.fixture
def reloads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The code servers that were asked to load their code again."""
    asked: list[object] = []

    class NowTimer:
        daemon = False

        def __init__(self, seconds: float, call: Callable[[], None]) -> None:
            self.call = call

        def start(self) -> None:
            self.call()

    class Client:
        def reload_code(self, timeout: int) -> None:
            asked.append(timeout)

    monkeypatch.setattr(dagster_internals.threading, "Timer", NowTimer)
    monkeypatch.setattr(GrpcServerCodeLocationOrigin, "create_client", lambda self: Client())
    return asked


@pytest.fixture
def tick(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> Tick:
    def evaluate(cursor: str | None = None, origin: object = SERVER) -> Any:
        sensor = shows_what_is_sensor(PartitionedTables(SMALL_CATALOG, {"small": END}), {})
        resources = fake_resources(FakeBuilder(), tmp_path)
        with dg.build_sensor_context(instance=dagster_instance, cursor=cursor, resources=resources) as context:
            context._code_location_origin = origin  # type: ignore[assignment]
            return sensor.evaluate_tick(context)

    return evaluate


def _land(home: Path, day: date) -> None:
    folder = Settings.at(home).landing / "sales" / str(day)
    folder.mkdir(parents=True)
    (folder / "part.jsonl.gz").touch()


def test_partitions_that_end_with_the_data_stay(tick: Tick, tmp_path: Path, reloads: list[object]) -> None:
    """It is on from the start, and costs a listing of names."""
    _land(tmp_path, END)
    assert tick().skip_message == "Dagster shows what is."
    assert reloads == []


def test_a_later_day_has_the_code_location_loaded_again_once(tick: Tick, tmp_path: Path, reloads: list[object]) -> None:
    """Web server and daemon see the server that follows; one that stays as it is is not asked again for ever."""
    _land(tmp_path, date(2017, 6, 5))
    first = tick()
    assert first.skip_message == (
        "The data ends elsewhere now: small on 2017-06-05. The code location is being loaded again."
    )
    assert len(reloads) == 1
    assert "press Reload" in str(tick(first.cursor).skip_message)
    assert len(reloads) == 1


def test_a_server_that_cannot_be_asked_is_left_to_a_person(tick: Tick, tmp_path: Path, reloads: list[object]) -> None:
    """As under `dagster dev`, which keeps the code server to itself."""
    _land(tmp_path, date(2017, 6, 5))
    assert "press Reload" in str(tick(origin=None).skip_message)
    assert reloads == []


def test_a_landing_zone_that_cannot_be_read_changes_nothing(tick: Tick, tmp_path: Path, reloads: list[object]) -> None:
    """A folder that is a link to nothing, or a disk that is away for a minute."""
    _land(tmp_path, END)
    (Settings.at(tmp_path).landing / "sales" / "2017-06-01").symlink_to(tmp_path / "nowhere")
    assert ends_of_data(SMALL_CATALOG, Settings.at(tmp_path)) is None
    assert "cannot be read" in str(tick().skip_message)
    assert reloads == []
