"""Sensors that fail or stand still are told of; an address is called only while all of them run to their end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from backfill_assets.errors import NotDelivered
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.automation import SensorBook, all_is_well
from backfill_assets.upkeep.heartbeat import beat
from backfill_assets.upkeep.incidents import IncidentBook
from backfill_assets_tests.simulator.store import SimulatedStorage
from backfill_assets_tests.upkeep.healing import WEEKS, Life, sound

pytestmark = pytest.mark.data
NOON = datetime(2017, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path))


def _fails(storage: Storage, at: datetime, error: str = "boom") -> bool:
    return SensorBook(storage).note_failure("repairs", 60, at, error, "mend it")


def _told(storage: Storage) -> list[str]:
    return sorted(file.path.rpartition("/")[2] for file in storage.files("_outbox/due"))


def test_the_second_failure_in_a_row_opens_one_incident_and_the_next_good_end_closes_it(storage: Storage) -> None:
    """One is often a restart. However long it goes on, it is told once."""
    assert [_fails(storage, NOON + n * MINUTE) for n in range(4)] == [False, True, False, False]
    (incident,) = IncidentBook(storage).open()
    assert (incident.table, incident.cause, incident.severity) == ("repairs", Cause.AUTOMATION, "critical")
    assert "failed 2 times in a row: boom" in incident.words and incident.next_step == "mend it"
    SensorBook(storage).note_end("repairs", 60, NOON + 5 * MINUTE)
    assert IncidentBook(storage).open() == [] and [n.rpartition("-")[2] for n in _told(storage)] == [
        "closed.json",
        "opened.json",
    ]
    _fails(storage, NOON + 6 * MINUTE)
    SensorBook(storage).note_end("repairs", 60, NOON + 7 * MINUTE)
    assert len(_told(storage)) == 2, "one failure between two good ends"


def test_the_sensor_repairs_leaves_what_the_others_have_opened(memory: SimulatedStorage) -> None:
    life = Life.beginning(memory, sound(WEEKS))
    SensorBook(memory).note_failure("campaigns", 30, life.now, "boom", "")
    SensorBook(memory).note_failure("campaigns", 30, life.now, "boom", "")
    life.go_on(3)
    assert [each.table for each in life.book.open()] == ["campaigns"]


def test_what_a_person_has_closed_is_told_again_only_after_a_good_end(storage: Storage) -> None:
    for n in range(2):
        _fails(storage, NOON + n * MINUTE)
    (incident,) = IncidentBook(storage).open()
    IncidentBook(storage).ask_to_close(incident, "ana", "known", NOON)
    assert not any(_fails(storage, NOON + n * MINUTE) for n in range(2, 5))
    assert IncidentBook(storage).open() == []
    SensorBook(storage).note_end("repairs", 60, NOON + 5 * MINUTE)
    assert [_fails(storage, NOON + n * MINUTE) for n in range(6, 8)] == [False, True]


def test_one_document_is_written_once_a_minute(storage: Storage) -> None:
    book, file = SensorBook(storage), Path(storage.root, "_sensors", "repairs.json")
    book.note_end("repairs", 30, NOON)
    first = file.stat().st_mtime_ns
    book.note_end("repairs", 30, NOON + timedelta(seconds=30))
    assert file.stat().st_mtime_ns == first
    book.note_end("repairs", 30, NOON + MINUTE)
    assert file.stat().st_mtime_ns > first and len(list(file.parent.iterdir())) == 1


def test_a_sensor_that_stands_still_is_named(storage: Storage) -> None:
    book = SensorBook(storage)
    book.note_end("repairs", 60, NOON)
    book.note_end("campaigns", 30, NOON + 13 * MINUTE)
    (words,) = book.troubles(NOON + 14 * MINUTE)
    assert words == "the sensor repairs last ran to its end 14 minutes ago: is dagster-daemon running?"
    assert not list(book.troubles(NOON + 14 * MINUTE, ["repairs"]))


def test_all_is_well_while_each_sensor_ended_well_just_now(storage: Storage) -> None:
    book, names, now = SensorBook(storage), ["campaigns", "repairs"], NOON + 2 * MINUTE
    book.note_end("repairs", 60, NOON)
    assert not all_is_well(book.all(), names, now), "one has never ended"
    book.note_end("campaigns", 60, NOON)
    assert all_is_well(book.all(), names, now)
    _fails(storage, now)
    assert not all_is_well(book.all(), names, now), "a single failure is enough to fall silent"
    book.note_end("repairs", 60, now)
    assert all_is_well(book.all(), names, now) and not all_is_well(book.all(), names, now + 10 * MINUTE)


@pytest.fixture
def calls() -> Iterator[tuple[str, list[str]]]:
    found: list[str] = []

    class Watcher(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.append(self.path)
            self.send_response(500 if "down" in self.path else 200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Watcher)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", found
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_address_is_called_once_a_minute_and_its_secret_stays(
    storage: Storage, calls: tuple[str, list[str]]
) -> None:
    address, paths = calls
    assert [beat(storage, f"{address}/s3cret", NOON + timedelta(seconds=n)) for n in (0, 20, 40, 60)] == [1, 0, 0, 1]
    assert paths == ["/s3cret", "/s3cret"] and len(storage.files("_sensors/heartbeat")) == 1
    with pytest.raises(NotDelivered, match=r"127\.0\.0\.1:\d+ answered the heartbeat with 500") as error:
        beat(storage, f"{address}/s3cret-down", NOON + 3 * MINUTE)
    assert "s3cret" not in str(error.value)
