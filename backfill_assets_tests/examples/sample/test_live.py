"""Live sales are the same for the same spec, of the kinds that they say, and land at their rate in whole files."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.sample.live import (
    KINDS,
    EventKind,
    LiveEvent,
    LiveLanding,
    LiveSpec,
    land_references,
    live_events,
)
from backfill_assets.examples.sample.real import land_real
from backfill_assets.examples.sample.sales_line import FIELDS
from backfill_assets.landing.zone import LandingZone
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.declared import source_named
from backfill_assets_tests.examples.sample.landed_lines import fingerprint, landed_lines
from backfill_assets_tests.examples.sample.live_tally import SaleVersion, version_of

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
    """However many follow: the lines that were sent before a kill are known after it."""
    assert first(137) == events[:137]
    other = first(2_000, replace(SPEC, seed=6))
    assert not set(map(version_of, other)) & set(map(version_of, events)) - {None}


def test_each_event_has_its_moment(events: list[LiveEvent]) -> None:
    assert [event.number for event in events] == list(range(2_000))
    assert events[0].moment == START and events[-1].moment == START + timedelta(seconds=1_999 / 200)


def test_unreadable_lines_are_of_no_other_transaction(events: list[LiveEvent]) -> None:
    """A version that cannot be read would still be newer than one that can."""
    readable = {version.transaction_id for event in events if (version := version_of(event))}
    for event in events:
        if event.kind == "unreadable" and not event.text.endswith("}"):
            continue
        row = json.loads(event.text)
        assert event.kind != "unreadable" or f"{row['basket_id']}-{row['product_id']}" not in readable
        assert set(row) - set(FIELDS) == ({"loyalty_tier", "till"} if event.kind == "new_field" else set())


def test_no_two_lines_of_a_transaction_have_one_version(events: list[LiveEvent]) -> None:
    """Else a hash of their content would choose, which the generator does not know."""
    texts: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for event in events:
        if version := version_of(event):
            texts[version.transaction_id, version.updated_at].add(event.text)
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
    """Each event beside the newest version of its transaction before it; each kind is there."""
    assert {event.kind for event in events} == set(KINDS)
    newest: dict[str, tuple[str, date]] = {}
    for event in events:
        if (version := version_of(event)) is not None:
            known = newest.get(version.transaction_id)
            assert is_of_its_kind(event, version, known), event
            newest[version.transaction_id] = max(known or ("", date.min), (version.updated_at, version.day))


NOON = LiveSpec(seed=1, start=datetime(2026, 11, 23, 12, tzinfo=UTC), events_per_second=30)
TODAY = date(2026, 11, 23)


def live_lines(root: Path) -> list[str]:
    return [text for path, lines in landed_lines(root, "sales").items() if "live-2" in path for text in lines]


def test_a_file_lands_each_second_and_all_events_once(tmp_path: Path, time: FakeClock) -> None:
    live = LiveLanding(NOON, tmp_path)
    live.land_for(3.5)
    assert (live.files, live.lines, time.slept) == (4, 105, [1, 1, 1, 0.5])
    assert live_lines(tmp_path) == [event.text for event in islice(live_events(NOON), 105)]
    names = [file.path for file in LandingZone(tmp_path).files(source_named("sales"), [TODAY])]
    assert names == [
        f"sales/{TODAY}/live-20261123T120000.000000-1-{number:06d}-{TODAY}.jsonl.gz" for number in (1, 2, 3, 4)
    ]
    time.at_sleep = lambda: time.pass_seconds(2)
    live.land_for(10)
    assert live.lines == 105 + 300, "slow seconds are made up for"


def test_two_that_start_within_one_second_land_beside_each_other(tmp_path: Path) -> None:
    """With the same seed, too: neither files nor baskets are the same."""
    for start in (NOON.start, NOON.start + timedelta(microseconds=1)):
        LiveLanding(replace(NOON, start=start), tmp_path).land(list(islice(live_events(NOON), 30)))
    assert len(live_lines(tmp_path)) == 60
    baskets = [
        {each.transaction_id for each in map(version_of, islice(live_events(replace(NOON, start=start)), 30)) if each}
        for start in (NOON.start, NOON.start + timedelta(microseconds=1))
    ]
    assert not baskets[0] & baskets[1]


def test_after_midnight_they_land_on_the_next_day(tmp_path: Path, time: FakeClock) -> None:
    spec = LiveSpec(1, datetime(2026, 11, 23, 23, 59, 59, tzinfo=UTC), 30)
    live = LiveLanding(spec, tmp_path)
    live.land_for(2)
    zone = LandingZone(tmp_path)
    assert [len(zone.files(source_named("sales"), [day])) for day in DayRange.parse("2026-11-23..2026-11-24")] == [1, 1]
    assert len(zone.files(source_named("fx_rates"), [date(2026, 11, 24)])) == 1


def test_interrupted_it_leaves_whole_files_and_knows_how_many(tmp_path: Path, time: FakeClock) -> None:
    live = LiveLanding(NOON, tmp_path)

    def interrupt_after_two_seconds() -> None:
        if clock.seconds() > 1_002.5:
            raise KeyboardInterrupt

    time.at_sleep = interrupt_after_two_seconds
    with pytest.raises(KeyboardInterrupt):
        live.land_for(None)
    assert live.lines == len(live_lines(tmp_path)) == 60


def test_a_write_that_does_not_end_leaves_nothing_and_a_disk_that_takes_no_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(path: Path, target: Path) -> None:
        raise KeyboardInterrupt

    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    live, events = LiveLanding(NOON, tmp_path), list(islice(live_events(NOON), 5))
    land_references(tmp_path, DayRange(NOON.first_day, TODAY))
    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        live.land(events)
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(LakehouseUnusable, match="cannot be written: No space left"):
        live.land(events)
    assert (live.lines, live.files, list((tmp_path / "sales" / f"{TODAY}").iterdir())) == (0, 0, [])


def test_each_day_has_rates_products_and_a_delivery_of_sales(tmp_path: Path) -> None:
    """A late sale needs all of them on its own day; and the rate may be of some days before."""
    land_references(tmp_path, DayRange(NOON.first_day, TODAY))
    zone = LandingZone(tmp_path)
    assert zone.days(source_named("sales")) == tuple(DayRange.parse("2026-11-18..2026-11-22"))
    assert zone.days(source_named("products")) == tuple(DayRange.parse("2026-11-18..2026-11-23"))
    assert zone.days(source_named("fx_rates")) == tuple(DayRange.parse("2026-11-08..2026-11-23"))
    rates = landed_lines(tmp_path, "fx_rates")
    assert all(len(lines) > 20 for lines in rates.values())
    before = fingerprint(tmp_path)
    land_references(tmp_path, DayRange(NOON.first_day, TODAY))
    assert fingerprint(tmp_path) == before, "what has landed is left alone"


def test_beside_real_sales_only_what_is_missing_lands(tmp_path: Path) -> None:
    land_real(DayRange.parse("2017-03-03..2017-03-04"), tmp_path)
    before = fingerprint(tmp_path)
    land_references(tmp_path, DayRange.parse("2017-03-03..2017-03-05"))
    added = fingerprint(tmp_path).keys() - before.keys()
    assert added == {
        "fx_rates/2017-03-05/fx_rates-2017-03-05.jsonl.gz",
        "products/2017-03-05/products-2017-03-05.jsonl.gz",
    }
    weekend = landed_lines(tmp_path, "fx_rates")["fx_rates/2017-03-04/fx_rates-2017-03-04.jsonl.gz"]
    assert weekend == []
    land_real(DayRange.parse("2017-03-03..2017-03-05"), tmp_path)
