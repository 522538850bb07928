"""The tally says what must become of live events: the same as reading all lines back, in any order."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, date, datetime
from itertools import islice

import pytest

from backfill_assets.examples.sample.live import LiveEvent, LiveSpec, live_events
from backfill_assets_tests.examples.sample.live_tally import LiveTally, winner_checksum
from backfill_assets_tests.examples.sample.test_live import OFTEN

SPEC = LiveSpec(3, datetime(2026, 11, 23, 23, 59, 55, tzinfo=UTC), 200, late_days=10, shares=OFTEN)


@pytest.fixture(scope="module")
def events() -> list[LiveEvent]:
    return list(islice(live_events(SPEC), 3_000))


def read_back(texts: list[str]) -> tuple[dict[str, list[tuple[str, date]]], int]:
    """The versions of each transaction, and how many lines cannot be read: from the lines alone."""
    versions: defaultdict[str, list[tuple[str, date]]] = defaultdict(list)
    unreadable = 0
    for text in texts:
        try:
            row = json.loads(text)
            float(row["sales_value"])
            day = date.fromisoformat(row["transaction_timestamp"][:10])
        except ValueError:
            unreadable += 1
        else:
            versions[f"{row['basket_id']}-{row['product_id']}"].append((row["updated_at"], day))
    return versions, unreadable


def outcome(known: list[tuple[str, date]]) -> tuple[dict[date, str], dict[date, str]]:
    """The winning moment on each day of one transaction, and that of the days that lose to another day."""
    best = {day: max(moment for moment, other in known if other == day) for _, day in known}
    lost = {
        day
        for day, moment in best.items()
        if any(other != day and abs((other - day).days) <= 7 and newer > moment for newer, other in known)
    }
    return {day: best[day] for day in best if day not in lost}, {day: best[day] for day in lost}


def test_the_tally_is_what_the_lines_say(events: list[LiveEvent]) -> None:
    versions, unreadable = read_back([event.text for event in events])
    winners: dict[tuple[date, str], str] = {}
    superseded: dict[tuple[date, str], str] = {}
    for transaction, known in versions.items():
        won, lost = outcome(known)
        winners |= {(day, transaction): moment for day, moment in won.items()}
        superseded |= {(day, transaction): moment for day, moment in lost.items()}
    tally = LiveTally(events)
    assert {key: version.updated_at for key, version in tally.winners().items()} == winners
    assert {key: version.updated_at for key, version in tally.superseded().items()} == superseded
    assert len(superseded) > 100 and tally.quarantined == unreadable > 100
    assert tally.lines == 3_000 == unreadable + tally.deduplicated + len(winners) + len(superseded)


def test_the_order_of_arrival_changes_nothing_and_a_prefix_is_tallied_from_its_length(events: list[LiveEvent]) -> None:
    """The checksum distinguishes what wins."""
    tally = LiveTally(events)
    assert LiveTally(random.Random(1).sample(events, len(events))).as_json() == tally.as_json()
    assert LiveTally.up_to(SPEC, 777).as_json() == LiveTally(events[:777]).as_json()
    winner = next(iter(tally.winners().values()))
    assert winner_checksum(winner) != winner_checksum(winner._replace(cents=winner.cents + 1))


def test_a_version_more_than_a_week_away_supersedes_nothing() -> None:
    """As in the facts: both days keep their line."""

    def event(number: int, day: str, second: int) -> LiveEvent:
        moment = f"2026-11-23T10:00:{second:02d}.000000Z"
        line = {"basket_id": "1", "product_id": "2", "transaction_timestamp": f"{day}T10:00:00Z"}
        text = json.dumps({**line, "updated_at": moment, "currency": "EUR", "sales_value": "1.00"})
        return LiveEvent(number, "sale", SPEC.start, text)

    assert len(LiveTally([event(0, "2026-11-15", 1), event(1, "2026-11-23", 2)]).winners()) == 2
    near = LiveTally([event(0, "2026-11-16", 1), event(1, "2026-11-23", 2)])
    assert list(near.winners()) == [(date(2026, 11, 23), "1-2")]
    assert list(near.superseded()) == [(date(2026, 11, 16), "1-2")]
