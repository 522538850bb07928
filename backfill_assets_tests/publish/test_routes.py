"""A notice goes to several places: each gets it once, what fails is tried again alone, wherever a process dies."""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from backfill_assets.errors import NoAnswer, NotDelivered
from backfill_assets.lakehouse.records import Notice
from backfill_assets.notice_routes import parse_routes
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.delivery import Outlet, Routed, deliver
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.outbox import announce, due_notices, withdraw
from backfill_assets.publish.senders import sender_of
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.audit import delivered_keys
from backfill_assets_tests.protocol.lake import D1, Lake, dying_at

URGENT = Notice(title="fact of 2017-03-01 cannot be repaired", severity="critical", dataset="sales", incident="i1")
PLAIN = Notice(title="March is right now")
TWO = "file:/a; slack:https://b from warning"


@dataclass
class Places:
    """What each place was sent, by kind; those that are ``down`` take nothing."""

    setting: str
    sent: list[tuple[str, str]] = field(default_factory=list)
    down: set[str] = field(default_factory=set)
    in_doubt: set[str] = field(default_factory=set)
    """They take it, and say nothing."""
    doubts: int = 0
    refused: set[str] = field(default_factory=set)
    """Keys that no place takes."""

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
        if due.key in self.places.refused:
            raise NotDelivered(f"{self.kind} does not take {due.key}")
        self.places.sent += [(self.kind, each.key) for each in due.parts]
        if self.kind in self.places.in_doubt:
            self.places.doubts += 1
            raise NoAnswer(f"{self.kind} says nothing")


def whoever_sends_has_ended() -> None:
    """A process that dies takes its threads along; one that plays it waits for them."""
    for thread in threading.enumerate():
        if thread.name.startswith("notice to"):
            thread.join()


@pytest.mark.parametrize(
    ("step", "times"),
    [(CrashPoint.NOTICE_READ, 2), (CrashPoint.NOTICE_SENT, 4), (CrashPoint.NOTICE_MARKED, 4)],
    ids=str,
)
def test_after_any_death_each_place_has_each_notice(tmp_path: Path, step: CrashPoint, times: int) -> None:
    """Once; of each place its one message that was under way may come twice: for people both were one."""
    for number in range(times):
        lake, places = Lake(tmp_path / f"{number}"), Places(TWO)
        announce(lake.storage, "incident-1", URGENT)
        request = lake.request("p1", {"t": {D1: ["a"]}})
        lake.publisher().publish(request.model_copy(update={"notice": URGENT}))
        with pytest.raises(Died):
            deliver(lake.publisher(dying_at(step, number)), places.sender)
        whoever_sends_has_ended()
        deliver(lake.publisher(), places.sender)
        counts = Counter(places.sent)
        assert counts.keys() == set(product(("file", "slack"), ("incident-1", "p1")))
        assert max(counts.values()) <= (1 if step is CrashPoint.NOTICE_READ else 2)
        assert sum(count - 1 for (kind, _), count in counts.items() if kind == "file") <= 1
        assert deliver(lake.publisher(), places.sender).sent == () and not due_notices(lake.publisher())
        assert delivered_keys(lake.publisher()) == ["incident-1", "p1"]
        assert not lake.storage.files("_outbox/routes", recursive=True)


def test_only_the_place_that_failed_is_tried_again(lake: Lake) -> None:
    announce(lake.storage, "incident-1", URGENT)
    announce(lake.storage, "begins", PLAIN)
    places = Places(TWO, down={"file"})
    for _ in range(2):
        found = deliver(lake.publisher(), places.sender, at_once=True)
        assert found.sent == () and dict(found.failed) == dict.fromkeys(["incident-1", "begins"], "file is down")
    assert places.sent == [("slack", "incident-1")]
    places.down.clear()
    assert set(deliver(lake.publisher(), places.sender, at_once=True).sent) == {"incident-1", "begins"}
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
    both = "Critical: 2 notices about sales\n  [n0] Critical: t0\n  [n1] Critical: t1"
    assert messages[0] == both
    firsts = ["[n2] Critical: t2", "Critical: 2 notices about i3"]
    assert [text.partition("\n")[0] for text in messages[1:]] == firsts
    assert sent == ["n0", "n1", "n2", "n3", "n4"] == delivered_keys(lake.publisher())


OVER = URGENT.model_copy(update={"title": "Over: fact of 2017-03-01 cannot be repaired", "resolved": True})


def test_what_is_over_before_it_was_sent_is_told_nowhere(lake: Lake) -> None:
    """Quiet hours, a filter, and a place that is down have withheld what began; who has it gets the end."""
    lake.clock = datetime(2017, 3, 1, 23, tzinfo=UTC)
    quiet = "webhook:https://c quiet 22:00-07:00"
    places = Places(f"file:/a; slack:https://b from critical; {quiet}; alertmanager:https://d", down={"alertmanager"})
    announce(lake.storage, "i1-opened", URGENT.model_copy(update={"severity": "warning"}))
    assert dict(deliver(lake.publisher(), places.sender).waiting).keys() == {"i1-opened"}
    announce(lake.storage, "i1-closed", OVER)
    found = deliver(lake.publisher(), places.sender)
    assert places.sent == [("file", "i1-opened"), ("file", "i1-closed")]
    assert (found.failed, found.waiting) == ((), ()) and "i1-closed" in found.sent
    places.down.clear()
    lake.clock += timedelta(days=1)
    assert deliver(lake.publisher(), places.sender).sent == () and len(places.sent) == 2
    assert not lake.storage.files("_outbox/told", recursive=True)


def test_what_is_over_everywhere_before_it_was_sent_is_not_spoken_of(lake: Lake) -> None:
    """Also if the process dies between taking back the beginning and the end."""
    places = Places("slack:https://b", down={"slack"})
    announce(lake.storage, "i1-opened", URGENT)
    deliver(lake.publisher(), places.sender)
    announce(lake.storage, "i1-closed", OVER)
    lake.storage.write_bytes("_outbox/delivered/i1-opened.json", URGENT.model_dump_json().encode())
    lake.storage.write_bytes("_outbox/told/i1/slack-x.json", b"{}")
    places.down.clear()
    found = deliver(lake.publisher(), places.sender, at_once=True)
    assert (found.sent, found.failed, places.sent) == ((), (), []) and not due_notices(lake.publisher())


def test_the_end_goes_to_all_who_heard_of_the_beginning_and_is_not_urgent(lake: Lake) -> None:
    """It is for the record, and passes a route that takes the critical alone; nobody is woken by it."""
    lake.clock = datetime(2017, 3, 1, 23, tzinfo=UTC)
    places = Places("slack:https://b from critical; webhook:https://c quiet 22:00-07:00")
    announce(lake.storage, "i1-opened", URGENT)
    deliver(lake.publisher(), places.sender)
    announce(lake.storage, "i1-closed", OVER)
    assert [due.notice.severity for due in due_notices(lake.publisher())] == ["info"]
    deliver(lake.publisher(), places.sender)
    assert (places.to("slack"), places.to("webhook")) == (["i1-opened", "i1-closed"], ["i1-opened"])
    lake.clock += timedelta(hours=9)
    deliver(lake.publisher(), places.sender)
    assert places.to("webhook") == ["i1-opened", "i1-closed"]


def test_the_end_of_what_an_earlier_version_has_told_goes_to_all(lake: Lake) -> None:
    """It did not keep where it was told: an alert would fire for a year."""
    places = Places("file:/a; alertmanager:https://d from critical")
    announce(lake.storage, "i1-closed", OVER)
    deliver(lake.publisher(), places.sender)
    assert sorted(places.sent) == [("alertmanager", "i1-closed"), ("file", "i1-closed")]
