"""A notice goes to several places: each gets it once, what fails is tried again alone, wherever a process dies."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from backfill_assets.errors import NotDelivered
from backfill_assets.lakehouse.records import Notice
from backfill_assets.notice_routes import parse_routes
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.outbox import DueNotice, Outlet, Routed, announce, deliver, due_notices, withdraw
from backfill_assets.publish.senders import AlertmanagerSender, SlackSender, sender_of
from backfill_assets_tests.protocol.audit import delivered_keys
from backfill_assets_tests.protocol.lake import D1, Died, Lake, dying_at
from backfill_assets_tests.publish.test_outbox import serving

URGENT = Notice(title="fact of 2017-03-01 cannot be repaired", severity="critical", dataset="sales", incident="i1")
PLAIN = Notice(title="March is right now")
TWO = "file:/a; slack:https://b from warning"


@dataclass
class Places:
    """What each place was sent, by kind; those that are ``down`` take nothing."""

    setting: str
    sent: list[tuple[str, str]] = field(default_factory=list)
    down: set[str] = field(default_factory=set)

    @property
    def sender(self) -> Routed:
        routes = parse_routes(self.setting)
        return Routed(routes, {route.name: _Place(route.kind, self) for route in (*routes, *parse_routes("log"))})

    def to(self, kind: str) -> list[str]:
        return [key for at, key in self.sent if at == kind]


@dataclass
class _Place:
    kind: str
    places: Places

    def send(self, due: DueNotice) -> None:
        if self.kind in self.places.down:
            raise NotDelivered(f"{self.kind} is down")
        self.places.sent += [(self.kind, each.key) for each in due.parts]


@pytest.mark.parametrize(
    ("step", "again"),
    [
        (CrashPoint.NOTICE_READ, (0, 0)),
        (CrashPoint.NOTICE_SENT, (1, 1, 2, 1)),
        (CrashPoint.NOTICE_MARKED, (0, 0, 1, 0)),
    ],
    ids=str,
)
def test_after_any_death_each_place_has_each_notice(tmp_path: Path, step: CrashPoint, again: Sequence[int]) -> None:
    """Once; ``again`` are those that died between sending and marking: two that were one message for people."""
    for number, twice in enumerate(again):
        lake, places = Lake(tmp_path / f"{number}"), Places(TWO)
        announce(lake.storage, "incident-1", URGENT)
        request = lake.request("p1", {"t": {D1: ["a"]}})
        lake.publisher().publish(request.model_copy(update={"notice": URGENT}))
        with pytest.raises(Died):
            deliver(lake.publisher(dying_at(step, number)), places.sender)
        deliver(lake.publisher(), places.sender)
        counts = Counter(places.sent)
        assert counts.keys() == set(product(("file", "slack"), ("incident-1", "p1")))
        assert counts.total() == 4 + twice
        assert deliver(lake.publisher(), places.sender).sent == () and not due_notices(lake.publisher())
        assert delivered_keys(lake.publisher()) == ["incident-1", "p1"]
        assert not lake.storage.files("_outbox/routes", recursive=True)


def test_only_the_place_that_failed_is_tried_again(lake: Lake) -> None:
    announce(lake.storage, "incident-1", URGENT)
    announce(lake.storage, "begins", PLAIN)
    places = Places(TWO, down={"file"})
    for _ in range(2):
        found = deliver(lake.publisher(), places.sender)
        assert found.sent == () and dict(found.failed) == dict.fromkeys(["incident-1", "begins"], "file is down")
    assert places.sent == [("slack", "incident-1")]
    places.down.clear()
    assert set(deliver(lake.publisher(), places.sender).sent) == {"incident-1", "begins"}
    assert Counter(places.sent) == Counter([("slack", "incident-1"), ("file", "incident-1"), ("file", "begins")])


def test_a_place_that_is_no_longer_declared_holds_nothing_up(lake: Lake) -> None:
    """What the others have already is delivered, and they do not get it again."""
    announce(lake.storage, "incident-1", URGENT)
    places = Places(TWO, down={"slack"})
    deliver(lake.publisher(), places.sender)
    places.setting = "file:/a"
    assert deliver(lake.publisher(), places.sender).sent == ("incident-1",)
    assert places.sent == [("file", "incident-1")] and not due_notices(lake.publisher())


def test_marks_of_a_withdrawn_notice_go(lake: Lake) -> None:
    announce(lake.storage, "incident-1", URGENT)
    places = Places(TWO, down={"slack"})
    deliver(lake.publisher(), places.sender)
    withdraw(lake.storage, "incident-1")
    assert lake.storage.files("_outbox/routes", recursive=True)
    deliver(lake.publisher(), places.sender)
    assert not lake.storage.files("_outbox/routes", recursive=True)


def test_what_another_process_sends_meanwhile_is_left_to_it(lake: Lake) -> None:
    """Two sensors look at the same moment: neither place gets it twice."""
    announce(lake.storage, "incident-1", URGENT)
    places, others = Places(TWO), [lambda: deliver(lake.publisher(), places.sender)]

    def reached(step: CrashPoint, about: str) -> None:
        if step is CrashPoint.NOTICE_READ and others:
            others.pop()()

    assert deliver(lake.publisher(reached), places.sender).sent == ()
    assert Counter(places.sent) == {("file", "incident-1"): 1, ("slack", "incident-1"): 1}


def test_quiet_hours_hold_a_route_and_no_other(lake: Lake) -> None:
    """What is critical goes at once; the rest goes when they end, and to the others now."""
    lake.clock = datetime(2017, 3, 1, 23, tzinfo=UTC)
    warning = URGENT.model_copy(update={"severity": "warning"})
    announce(lake.storage, "a", URGENT)
    announce(lake.storage, "b", warning)
    places = Places(TWO + " quiet 22:00-07:00")
    found = deliver(lake.publisher(), places.sender)
    name = parse_routes(TWO)[1].name
    assert (found.sent, found.waiting, places.to("slack")) == (("a",), (("b", name),), ["a"])
    lake.clock += timedelta(hours=8)
    assert deliver(lake.publisher(), places.sender).sent == ("b",)
    assert (places.to("slack"), sorted(places.to("file"))) == (["a", "b"], ["a", "b"])


def test_people_get_one_message_about_a_dataset_and_machines_each_notice(lake: Lake) -> None:
    """Sixty incidents of one night are one message; each of them is marked."""
    for number, (dataset, incident) in enumerate(
        (("sales", "i1"), ("sales", ""), ("fx", "i2"), ("", "i3"), ("", "i3"))
    ):
        about = {"dataset": dataset, "incident": incident, "title": f"t{number}"}
        announce(lake.storage, f"n{number}", URGENT.model_copy(update=about))
        os.utime(lake.storage.uri(f"_outbox/due/n{number}.json"), (number, number))
    messages: list[str] = []
    sent: list[str] = []

    @dataclass
    class Machine:
        def send(self, due: DueNotice) -> None:
            sent.append(due.key)

    routes = parse_routes("log; file:/a")
    outlets: dict[str, Outlet] = {routes[0].name: sender_of(routes, messages.append).outlets["log"]}
    assert deliver(lake.publisher(), Routed(routes, outlets | {routes[1].name: Machine()})).sent
    assert messages[0] == "2 notices about sales\n  [n0] t0\n  [n1] t1"
    assert [text.partition("\n")[0] for text in messages[1:]] == ["[n2] t2", "2 notices about i3"]
    assert sent == ["n0", "n1", "n2", "n3", "n4"] == delivered_keys(lake.publisher())


def test_slack_gets_a_text_that_it_does_not_read_as_its_own(lake: Lake) -> None:
    with serving() as server:
        SlackSender(server.url).send(DueNotice("k1", URGENT.model_copy(update={"lines": ("1 < 2 & <!channel>",)})))
    assert server.bodies["k1"] == {
        "text": f"*critical* [k1] {URGENT.title}\n1 &lt; 2 &amp; &lt;!channel&gt;",
    }


def test_an_alert_fires_until_its_incident_is_over() -> None:
    """The same labels say that it is the same alert; a notice that is about no incident is one of its own."""
    over = URGENT.model_copy(update={"title": "fact of 2017-03-01 is right again", "resolved": True})
    with serving() as server:
        sender = AlertmanagerSender(server.url.replace("/hook", "/am/"))
        for key, notice in (("k1", URGENT), ("k2", over), ("k3", PLAIN)):
            sender.send(DueNotice(key, notice))
        sender.send(DueNotice("k4", PLAIN, together=(DueNotice("k5", URGENT), DueNotice("k6", over))))
    assert server.paths == ["/am/api/v2/alerts?token=secret"] * 4
    (opened,), (closed,), (plain,), both = (server.bodies[key] for key in ("k1", "k2", "k3", "k4"))
    labels = {"alertname": "BackfillIncident", "severity": "critical", "dataset": "sales", "incident": "i1"}
    assert opened["labels"] == closed["labels"] == labels and len(both) == 2
    assert opened["annotations"]["summary"] == URGENT.title and opened["endsAt"] > opened["startsAt"]
    assert closed["endsAt"] == closed["startsAt"] >= opened["startsAt"]
    assert plain["labels"] == {"alertname": "BackfillNotice", "severity": "info", "notice": "k3"}
    assert "endsAt" not in plain
