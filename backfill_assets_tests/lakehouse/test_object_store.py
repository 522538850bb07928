"""The lakehouse in an S3-compatible store: the same protocol, against a real server, with writers that compete."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.object_store import ObjectStore
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Published
from backfill_assets.settings import Settings, lakehouse_path
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake
from backfill_assets_tests.s3_store import BUCKET, s3_server

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with s3_server() as variables:
        yield variables


@pytest.fixture
def lakehouse(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty one; the environment leads there, as a person would set it."""
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/lakehouse-{next(_NUMBERS)}"


@pytest.mark.parametrize("place", ["store", "disk"])
def test_of_writers_at_once_exactly_one_writes(lakehouse: str, tmp_path: Path, place: str) -> None:
    """Everything else rests on it: delta-rs commits by the same conditional put. Nothing unfinished is left beside."""
    storage = Storage(lakehouse if place == "store" else str(tmp_path))
    for number in range(10):
        said = _at_once(lambda who, path=f"d/f{number}": storage.put_if_absent(path, str(who).encode()))  # type: ignore[misc]
        assert sorted(said.values()) == [False, False, False, True]
        (winner,) = [who for who, wrote in said.items() if wrote]
        assert storage.read_bytes(f"d/f{number}") == str(winner).encode()
    assert len(storage.files("d")) == 10


def _at_once(act: Callable[[int], bool]) -> dict[int, bool]:
    said: dict[int, bool] = {}
    start = threading.Barrier(4)

    def one(who: int) -> None:
        start.wait()
        said[who] = act(who)

    writers = [threading.Thread(target=one, args=(who,)) for who in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    return said


def test_files_are_found_read_and_deleted_as_on_a_disk(lakehouse: str, tmp_path: Path) -> None:
    """What goes past Delta: plans, logs read as text, reclaiming."""
    for storage in (Storage(lakehouse), Storage(str(tmp_path))):
        storage.write_bytes("a/b/one.json", b'{"n": 1}\n')
        storage.write_bytes("a/two", b"22")
        assert storage.exists("a/two") and storage.exists("a/b") and not storage.exists("a/three")
        assert storage.missing(["a/two", "a/three"]) == ["a/three"]
        assert sorted((file.path, file.size) for file in storage.files("a", recursive=True)) == [
            ("a/b/one.json", 9),
            ("a/two", 2),
        ]
        assert storage.folders("a") == ["b"]
        assert storage.read_json_lines("a/b/one.json") == [{"n": 1}]
        assert all(file.modified_ms > 1_500_000_000_000 for file in storage.files("a"))
        storage.delete("a/two")
        storage.delete("a/two")
        assert not storage.exists("a/two")
        assert storage.files("nowhere") == []


def test_a_life_in_a_store_with_a_death_and_a_rollback_and_keys_in_no_option_and_no_log(
    lakehouse: str, server: dict[str, str]
) -> None:
    """Published, finished by the next process, and taken back, without a copy. Every client has its keys by itself."""
    lake = Lake(lakehouse_path(lakehouse))
    lake.publish("p1", {"t": {D1: ["a"], D2: ["b"]}, "u": {D1: ["a"]}})
    lake.die(CrashPoint.TABLE_COMMITTED, lake.request("p2", {"t": {D1: ["A"], D2: []}, "u": {D1: ["A"]}}))
    assert isinstance(lake.publish("p3", {"t": {D3: ["c"]}}), Published)
    assert lake.rows("t") == {D1: ["A"], D3: ["c"]} and lake.rows("u") == {D1: ["A"]}
    assert isinstance(roll_back(lake.publisher(), "p2", id="undo", steps=()), Published)
    assert lake.rows("t") == {D1: ["a"], D2: ["b"], D3: ["c"]} and not lake.head.open
    store = ObjectStore.from_environment()
    settings = Settings.from_environment({"BACKFILL_LAKEHOUSE": lakehouse})
    told = repr([store, lake.storage, store.delta_rs_options(), store.spark_options(), settings])
    stored = b"".join(lake.storage.read_bytes(file.path) for file in lake.storage.files("", recursive=True))
    for secret in (server["AWS_ACCESS_KEY_ID"], server["AWS_SECRET_ACCESS_KEY"]):
        assert secret not in told and secret.encode() not in stored


@pytest.mark.parametrize("rounds", [2, pytest.param(4, marks=pytest.mark.long)])
def test_two_writers_compete_and_nothing_is_lost(lakehouse: str, rounds: int) -> None:
    """Both publish days of one table again and again, each on what it has seen: every success is in the table."""
    lake = Lake(lakehouse_path(lakehouse))
    lake.publish("p0", {"t": {D1: ["start"], D2: ["start"]}})
    outcomes: Counter[str] = Counter()
    failed: list[BaseException] = []

    def write(who: str, day: date) -> None:
        try:
            for number in range(rounds):
                shared = lake.publish(
                    f"{who}-{number}", {"t": {day: [f"{who}{number}"]}, "u": {D1: [f"{who}{number}"]}}
                )
                outcomes["published" if isinstance(shared, Published) else "moved"] += 1
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=each) for each in (("a", D1), ("b", D2))]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failed == []
    log = lake.publisher().log
    states = log.day_states(log.head())
    assert outcomes["published"] + outcomes["moved"] == 2 * rounds and outcomes["published"] >= rounds
    for day in (D1, D2):
        assert lake.rows("t")[day] == [_row(states[TableDay("t", day)].publication)]
    assert lake.rows("u") == {D1: [_row(states[TableDay("u", D1)].publication)]}


def _row(publication: str) -> str:
    return "start" if publication == "p0" else publication.replace("-", "")


def test_an_address_of_another_kind_is_refused() -> None:
    """A typing error in the scheme must not make a folder of that name."""
    assert str(lakehouse_path("s3://bucket/a/b")) == "s3://bucket/a/b"
    for wrong in ("s3:///x", "s3://", "gs://bucket", "http://bucket/x"):
        with pytest.raises(InvalidRequest, match="s3://bucket/prefix"):
            lakehouse_path(wrong)
