"""A place that fails is left alone for a while that grows, is tried again, and is shown without its address."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.errors import NotDelivered
from backfill_assets.notice_routes import parse_routes
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.outbox import announce
from backfill_assets.publish.places import LONGEST, failing_places, note_failure, pause_after
from backfill_assets_tests.protocol.lake import Lake
from backfill_assets_tests.publish.test_routes import PLAIN, URGENT, Places

ROUTES = parse_routes("slack:https://hooks.example/T/secret; file:/a")
START = datetime(2017, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(("failures", "minutes"), [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (1000, 30)])
def test_the_pause_grows_and_is_bounded(failures: int, minutes: int) -> None:
    assert pause_after(failures) == timedelta(minutes=minutes) <= LONGEST


def test_a_place_that_fails_is_not_tried_at_every_round(lake: Lake) -> None:
    """Two hours of a sensor that looks each minute: 1 + 2 + 4 + 8 + 16 + 30 minutes, not 120 tries; others go on."""
    places, tries = Places("slack:https://b; file:/a", down={"slack"}), 0
    lake.clock = START
    announce(lake.storage, "a", URGENT)
    for minute in range(120):
        lake.clock = START + timedelta(minutes=minute)
        found = deliver(lake.publisher(), places.sender)
        tries += found.failing[0].last == lake.clock
        if minute == 30:
            announce(lake.storage, "b", PLAIN)
    assert tries == 8 and places.to("file") == ["a", "b"]
    (why,) = {why for _, why in found.failed}
    assert why == f"{found.failing[0].name} is left alone until {found.failing[0].again:%H:%M} UTC: slack is down"
    places.down.clear()
    assert deliver(lake.publisher(), places.sender).sent == ()
    lake.clock += LONGEST
    found = deliver(lake.publisher(), places.sender)
    assert sorted(found.sent) == ["a", "b"] == sorted(places.to("slack")) and found.failing == ()


def test_a_person_who_asks_has_it_tried_at_once(lake: Lake) -> None:
    announce(lake.storage, "a", URGENT)
    places = Places("slack:https://b", down={"slack"})
    deliver(lake.publisher(), places.sender)
    places.down.clear()
    assert deliver(lake.publisher(), places.sender).sent == ()
    assert deliver(lake.publisher(), places.sender, at_once=True).sent == ("a",)


def test_a_place_that_refuses_one_message_and_takes_others_is_up(lake: Lake) -> None:
    """It is not left alone, and the next notice goes there."""
    places = Places("file:/a")
    places.refused = {"a"}
    for key in "ab":
        announce(lake.storage, key, PLAIN)
    found = deliver(lake.publisher(), places.sender)
    assert (found.sent, dict(found.failed), found.failing) == (("b",), {"a": "file does not take a"}, ())


def test_what_is_kept_survives_the_process_and_shows_no_address(lake: Lake) -> None:
    """The moments, the words and what a person does; of routes that are declared, in their order."""
    slack, file = (route.name for route in ROUTES)
    note_failure(lake.storage, file, NotDelivered("the disk is full"), START)
    for hour in (13, 14):
        why = NotDelivered("hooks.example answered 403", hint="Make a new webhook.")
        note_failure(lake.storage, slack, why, START.replace(hour=hour))
    first, second = failing_places(lake.storage, ROUTES)
    assert str(first) == (
        f"{slack} takes no notices since 2017-03-01 13:00 UTC. Last tried at 2017-03-01 14:00 UTC: "
        "hooks.example answered 403. Tried again from 2017-03-01 14:02 UTC on"
    )
    assert (first.failures, first.next_step, second.name) == (2, "Make a new webhook.", file)
    assert "secret" not in lake.storage.read_bytes(f"_outbox/failing/{slack}.json").decode()
    assert [each.name for each in failing_places(lake.storage, ROUTES[1:])] == [file]


def test_a_damaged_memory_of_failures_holds_nothing_up(lake: Lake) -> None:
    """The place is tried; a later version may keep more."""
    name = ROUTES[0].name
    note_failure(lake.storage, name, NotDelivered("no"), START)
    kept = json.loads(lake.storage.read_bytes(f"_outbox/failing/{name}.json"))
    lake.storage.replace_bytes(f"_outbox/failing/{name}.json", json.dumps({**kept, "more": 1}).encode())
    assert len(failing_places(lake.storage, ROUTES)) == 1
    lake.storage.replace_bytes(f"_outbox/failing/{name}.json", b"{")
    assert failing_places(lake.storage, ROUTES) == []
    assert note_failure(lake.storage, name, NotDelivered("no"), START).failures == 1
