"""Live events are the same for the same spec, and are of the kinds that they say they are."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.live_events import KINDS, EventKind, LiveEvent, LiveSpec, SaleVersion, live_events
from backfill_assets.examples.sample.sales_line import FIELDS

START = datetime(2026, 11, 23, 23, 59, 55, tzinfo=UTC)
OFTEN: dict[EventKind, float] = dict.fromkeys(set(KINDS) - {"sale"}, 0.08)
SPEC = LiveSpec(seed=5, start=START, events_per_second=200, shares=OFTEN)


def first(count: int, spec: LiveSpec = SPEC) -> list[LiveEvent]:
    return list(islice(live_events(spec), count))


@pytest.fixture(scope="module")
def events() -> list[LiveEvent]:
    """Ten seconds, over midnight."""
    return first(2_000)


def test_equal_specs_give_equal_events_and_others_give_others(events: list[LiveEvent]) -> None:
    assert first(2_000) == events
    other = first(2_000, replace(SPEC, seed=6))
    assert not {event.version for event in other if event.version} & {event.version for event in events}


def test_a_prefix_does_not_depend_on_how_many_follow(events: list[LiveEvent]) -> None:
    """The lines that were sent before a kill are known after it."""
    assert first(137) == events[:137]


def test_each_event_has_its_moment(events: list[LiveEvent]) -> None:
    assert [event.number for event in events] == list(range(2_000))
    assert events[0].moment == START and events[-1].moment == START + timedelta(seconds=1_999 / 200)
    assert {event.moment.date() for event in events} == {date(2026, 11, 23), date(2026, 11, 24)}


def test_each_kind_is_there(events: list[LiveEvent]) -> None:
    assert {event.kind for event in events} == set(KINDS)


def test_lines_say_what_their_versions_say(events: list[LiveEvent]) -> None:
    for event in events:
        if event.version is None:
            continue
        row = json.loads(event.text)
        identity = f"{row['basket_id']}-{row['product_id']}"
        cents = round(float(row["sales_value"]) * 100)
        day = date.fromisoformat(row["transaction_timestamp"][:10])
        assert event.version == (identity, day, row["updated_at"], row["currency"], cents)
        assert set(row) - set(FIELDS) == ({"loyalty_tier", "till"} if event.kind == "new_field" else set())


def test_unreadable_lines_are_of_no_other_transaction(events: list[LiveEvent]) -> None:
    """A version that cannot be read would still be newer than one that can."""
    readable = {event.version.transaction_id for event in events if event.version}
    for event in events:
        if event.kind == "unreadable" and event.text.endswith("}"):
            row = json.loads(event.text)
            assert f"{row['basket_id']}-{row['product_id']}" not in readable


def test_no_two_lines_of_a_transaction_have_one_version(events: list[LiveEvent]) -> None:
    """Else a hash of their content would choose, which the generator does not know."""
    texts: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for event in events:
        if event.version:
            texts[event.version.transaction_id, event.version.updated_at].add(event.text)
    twice = [event.text for event in events if event.kind == "duplicate"]
    assert twice and {len(of_version) for of_version in texts.values()} <= {1, 2}
    same = [sorted(of_version) for of_version in texts.values() if len(of_version) == 2]
    assert all("loyalty_tier" in with_field + plain for plain, with_field in same)


def is_of_its_kind(event: LiveEvent, version: SaleVersion, known: tuple[str, date] | None) -> bool:
    """``known`` is the newest version of the transaction before: its moment and day."""
    this = version.updated_at, version.day
    age = (event.moment.date() - version.day).days
    if event.kind in ("sale", "new_field", "late"):
        return known is None and age in (range(1, SPEC.late_days + 1) if event.kind == "late" else (0,))
    assert known is not None
    expected = {
        "correction": known < this and known[1] == version.day,
        "moved": known[0] < version.updated_at and known[1] != version.day,
        "duplicate": known == this,
        "older_version": version.updated_at < known[0],
    }
    return expected[event.kind]


def test_kinds_are_what_they_say(events: list[LiveEvent]) -> None:
    """Each event beside the newest version of its transaction before it."""
    newest: dict[str, tuple[str, date]] = {}
    for event in events:
        if (version := event.version) is not None:
            known = newest.get(version.transaction_id)
            assert is_of_its_kind(event, version, known), event
            newest[version.transaction_id] = max(known or ("", date.min), (version.updated_at, version.day))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": START.replace(tzinfo=None)}, "a moment in UTC"),
        ({"events_per_second": 0}, "more than 0"),
        ({"late_days": 31}, "between 0 and 30"),
        ({"shares": {"late": 0.9, "moved": 0.2}}, "at most 1 together"),
        ({"shares": {"strange": 0.1}}, "Kinds: sale, late"),
    ],
)
def test_an_impossible_spec_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        replace(SPEC, **change)  # type: ignore[arg-type]
    assert message in str(refused.value)
