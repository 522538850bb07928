"""Each publication's event arrives, whatever the receiver does: it is down, fails, or its answer is lost."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.publish import lineage_outbox
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.lineage_outbox import LineageRound, send_lineage, sent_up_to
from backfill_assets.publish.places import SHORTEST
from backfill_assets.settings import Settings, wants_lineage
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.lake import D1, Lake, dying_at
from backfill_assets_tests.web_server import served

pytestmark = pytest.mark.protocol
"""They start servers."""


@dataclass
class Receiver:
    """Answers with ``answers`` in turn (``lost``: takes the event, and hangs up), then with 201."""

    answers: list[int | str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    """Those that it took."""
    keys: list[str | None] = field(default_factory=list)
    url: str = ""

    @property
    def publications(self) -> list[str]:
        return [each["run"]["facets"]["backfill_publication"]["publication"] for each in self.events]

    @property
    def runs(self) -> list[str]:
        return [each["run"]["runId"] for each in self.events]


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = state.answers.pop(0) if state.answers else 201
            state.keys.append(self.headers["Authorization"])
            if answer in (201, "lost"):
                state.events.append(json.loads(body))
            if answer == "lost":
                self.connection.close()
                return
            self.send_response(int(answer))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Quiet."""

    with served(Handler, port) as url:
        state.url = url
        yield state


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch, lake: Lake) -> Iterator[Receiver]:
    with receiving() as found, clock.use(lake.time):
        monkeypatch.setenv("OPENLINEAGE_URL", found.url)
        monkeypatch.setenv("OPENLINEAGE_API_KEY", "very-secret")
        yield found


def _send(lake: Lake, *, at_once: bool = False, dies_at: int | None = None) -> LineageRound:
    publisher = lake.publisher() if dies_at is None else lake.publisher(dying_at(CrashPoint.NOTICE_SENT, dies_at))
    settings = Settings.from_environment({"BACKFILL_LAKEHOUSE": str(lake.root)})
    return send_lineage(publisher, settings, lambda: CATALOG, at_once=at_once)


def _publish(lake: Lake, *ids: str) -> None:
    for id in ids:
        lake.publish(id, {"t": {D1: [id]}})


def test_each_publication_is_told_once_in_the_order_of_the_log(lake: Lake, receiver: Receiver) -> None:
    _publish(lake, "p1", "p2")
    assert _send(lake).sent == ("p1", "p2") and _send(lake).sent == ()
    _publish(lake, "p3")
    assert _send(lake).sent == ("p3",)
    assert receiver.publications == ["p1", "p2", "p3"] and len(set(receiver.runs)) == 3
    assert receiver.keys == ["Bearer very-secret"] * 3
    assert not [name for name in os.environ if name.startswith("OPENLINEAGE__")], "the client's own names for it"


def test_what_was_aborted_is_not_told(lake: Lake, receiver: Receiver) -> None:
    _publish(lake, "p1")
    lake.die(CrashPoint.PREPARED, lake.request("p2", {"t": {D1: ["b"]}}))
    assert _send(lake).sent == ("p1",), "it is open"
    lake.publisher().abort("p2", by="ana", reason="")
    _publish(lake, "p3")
    assert _send(lake).sent == ("p3",)


def test_a_receiver_that_fails_is_left_alone_and_gets_all_of_it_in_the_end(lake: Lake, receiver: Receiver) -> None:
    """It answers 500, and then takes an event whose answer is lost: that one arrives twice, as the same run."""
    _publish(lake, "p1", "p2")
    receiver.answers = [500, 201, "lost"]
    found = _send(lake)
    assert found.sent == () and "takes no events since" in str(found) and "answered 500" in str(found)
    assert not _send(lake).sent and len(receiver.keys) == 1, "it is left alone for a minute"
    lake.clock += SHORTEST
    assert _send(lake).sent == ("p1",), "the answer to p2 was lost"
    assert "did not answer (ConnectionError)" in str(_send(lake))
    assert _send(lake, at_once=True) == LineageRound(("p2",))
    assert receiver.publications == ["p1", "p2", "p2"] and len(set(receiver.runs)) == 2
    assert not lake.storage.files("_outbox/failing")


def test_a_receiver_that_is_down_stops_no_publication_and_its_address_is_not_told(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as found:
        pass
    monkeypatch.setenv("OPENLINEAGE_URL", f"{found.url}/token=very-secret")
    _publish(lake, "p1")
    before = clock.seconds()
    said = str(_send(lake))
    assert clock.seconds() - before < 3 and "did not answer" in said and "secret" not in said
    _publish(lake, "p2")
    with receiving(int(found.url.rpartition(":")[2])) as again:
        assert _send(lake, at_once=True).sent == ("p1", "p2")
    assert again.publications == ["p1", "p2"]


@pytest.mark.parametrize("dies_at", [0, 1, 2])
def test_after_a_death_events_arrive_again_as_the_same_runs(
    lake: Lake, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    monkeypatch.setattr(lineage_outbox, "_AT_ONCE", 2)
    _publish(lake, "p1", "p2", "p3")
    with suppress(Died):
        _send(lake, dies_at=dies_at)
    _send(lake, at_once=True)
    assert set(receiver.publications) == {"p1", "p2", "p3"} and len(receiver.events) <= 5
    assert len(set(receiver.runs)) == 3
    assert sent_up_to(lake.storage) == lake.publisher().log.closed_at("p3")


def test_a_round_has_an_end_and_the_next_one_goes_on(
    lake: Lake, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage_outbox, "_AT_ONCE", 1)
    monkeypatch.setattr(lineage_outbox, "_MOST_SECONDS", -1.0)
    _publish(lake, "p1", "p2")
    first = _send(lake)
    assert first.sent == ("p1",) and "the next round goes on" in str(first)
    assert _send(lake) == LineageRound(("p2",)) and receiver.publications == ["p1", "p2"]


def test_a_folded_log_is_told_as_well(lake: Lake, receiver: Receiver) -> None:
    from backfill_assets.publish.fold import fold

    _publish(lake, "p1", "p2")
    lake.clock += timedelta(days=90)
    fold(lake.publisher().log, clock.now())
    assert _send(lake).sent == ("p1", "p2")


def test_declarations_that_cannot_be_loaded_and_a_damaged_position_are_said(lake: Lake, receiver: Receiver) -> None:
    def wrong() -> Any:
        raise InvalidRequest("No datasets are named.", hint="Name some.")

    _publish(lake, "p1")
    settings = Settings.from_environment({"BACKFILL_LAKEHOUSE": str(lake.root)})
    said = send_lineage(lake.publisher(), settings, wrong)
    assert said.failing and (said.failing.words, said.failing.next_step) == ("No datasets are named.", "Name some.")
    lake.storage.write_bytes("_outbox/lineage/sent.json", b"?")
    assert "sent.json is damaged" in str(_send(lake, at_once=True)) and not receiver.events


def test_without_the_extra_it_says_how_to_install_it(lake: Lake, receiver: Receiver, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    _publish(lake, "p1")
    found = _send(lake).failing
    assert found and found.next_step == "pip install 'backfill-assets[lineage]'"


def test_it_is_off_until_the_clients_own_settings_name_a_receiver(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_one() -> Any:
        raise AssertionError("what is off reads nothing")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    refuse: Callable[[], Any] = no_one
    _publish(lake, "p1")
    settings = Settings.from_environment({"BACKFILL_LAKEHOUSE": str(lake.root)})
    assert send_lineage(lake.publisher(), settings, refuse) == LineageRound()
    assert not wants_lineage({}) and wants_lineage({"OPENLINEAGE_URL": "http://h"})
    assert wants_lineage({"OPENLINEAGE__TRANSPORT__TYPE": "console"})
    assert not wants_lineage({"OPENLINEAGE_URL": "http://h", "OPENLINEAGE_DISABLED": "True"})
    Path("openlineage.yml").write_text("transport: {type: console}")
    assert wants_lineage({})
