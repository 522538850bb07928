"""What a stream says of itself: how late events are in raw, and in the last table that follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from backfill_assets import clock
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.stream.batches import BatchRead
from backfill_assets.stream.delays import Delays, Received, delays_of
from backfill_assets.stream.gained import Gained, GainedBatch
from backfill_assets.stream.lease import HeldEvents, StreamBatch, acquire_stream
from backfill_assets.stream.reporter import StreamEvent, StreamReporter
from backfill_assets.stream.run import _tell
from backfill_assets_tests.clock import FakeClock

SENT = datetime(2026, 3, 2, 10, tzinfo=UTC)
DAY, NEXT = date(2026, 3, 2), date(2026, 3, 3)


@dataclass
class Follows:
    """A follower whose days are ``pending`` as long as they are held."""

    pending: set[date] = field(default_factory=set)
    held: dict[date, HeldEvents] = field(default_factory=dict)
    steps: tuple[Any, ...] = (SimpleNamespace(name="fact"), SimpleNamespace(name="fact_daily_revenue"))


@dataclass
class Watching:
    """A stream of which batches are published at moments that are set."""

    home: Path
    follows: Follows | None
    time: FakeClock
    reports: list[StreamEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lease = acquire_stream(Storage(str(self.home)), "raw_sales", "landing")
        reading = SimpleNamespace(is_live=True, boundary_text="all", start=None, positions=())
        self.watched = StreamReporter(self.lease, cast("Any", reading), self.reports.append, cast("Any", self.follows))

    def publish(self, day: date, *, in_raw: float, followed: float) -> None:
        received = Received.of(10, [round(SENT.timestamp() * 1000)])
        self.time.moment = SENT + timedelta(seconds=followed)
        read = BatchRead(10, received, 0, "publication", (day,), SENT + timedelta(seconds=in_raw))
        self.watched.published(read, StreamBatch(at=clock.now(), batch=1, events=10, seconds=1.0))
        self.watched.followed(Gained((GainedBatch(frozenset([day]), 10, received),)), 2.0)

    @property
    def delays(self) -> dict[str, Delays]:
        return self.lease.status.delays


@pytest.fixture
def watching(tmp_path: Path, time: FakeClock) -> Watching:
    time.moment = SENT
    return Watching(tmp_path, Follows(), time)


def test_the_delay_until_revenue_is_named_beside_the_one_until_raw(watching: Watching) -> None:
    watching.publish(DAY, in_raw=3, followed=9)
    assert watching.delays == {"raw_sales": Delays(3, 3), "fact_daily_revenue": Delays(9, 9)}
    assert [each.text for each in watching.reports] == [
        "batch 1: 10 events in 1.0 s; in raw_sales after p50 3.0 s, p99 3.0 s",
        "1 batch followed: 10 events in 2.0 s; in fact_daily_revenue after p50 9.0 s, p99 9.0 s",
    ]


def test_a_start_says_what_it_waits_for_once(watching: Watching) -> None:
    """It may take minutes, and a log has no progress beside these lines; a query that is started again is no start."""
    progress: list[str] = []
    tell = partial(_tell, watching.lease, progress.append, watching.reports.append)
    tell("3 days that fell behind: built first")
    assert watching.lease.status.note == "3 days that fell behind: built first"
    watching.watched.started()
    watching.watched.started()
    tell("bronze_sales: 1/3 days staged")
    assert [(each.kind, each.text.partition(".")[0]) for each in watching.reports] == [
        ("starting", "Starting: 3 days that fell behind: built first"),
        ("reading", "Reading landing"),
    ]
    assert progress == ["bronze_sales: 1/3 days staged"]


def test_events_of_a_day_that_waits_count_when_it_has_followed(watching: Watching) -> None:
    """By then they are late: they were in raw all the time, and readers of revenue did not have them."""
    assert watching.follows is not None
    watching.follows.pending = {DAY}
    watching.publish(DAY, in_raw=3, followed=9)
    watching.publish(NEXT, in_raw=4, followed=10)
    assert watching.delays["fact_daily_revenue"].p99 == 10
    watching.follows.pending, watching.time.moment = set(), SENT + timedelta(seconds=70)
    watching.watched.followed_again()
    assert watching.delays == {"raw_sales": Delays(3, 4), "fact_daily_revenue": Delays(10, 70)}


def held(day: date) -> HeldEvents:
    return HeldEvents(table="bronze_sales", day=day, rule="few_rejected", why="90 of 100", events=99, since=SENT)


def test_events_that_a_gate_holds_back_are_told_and_are_in_no_delay_of_revenue(watching: Watching) -> None:
    """What was published in time says nothing of them. They count once a person or the source has put it right."""
    assert watching.follows is not None
    watching.follows.held = {DAY: held(DAY)}
    watching.publish(DAY, in_raw=3, followed=9)
    words = "99 events of 2026-03-02 held back by few_rejected of bronze_sales since 2026-03-02 10:00:00Z"
    assert watching.delays == {"raw_sales": Delays(3, 3)} and words in watching.reports[-1].text
    assert watching.lease.status.held_back == (held(DAY),)
    watching.publish(NEXT, in_raw=4, followed=10)
    assert watching.delays["fact_daily_revenue"] == Delays(10, 10)
    watching.follows.held, watching.time.moment = {}, SENT + timedelta(seconds=70)
    watching.watched.followed_again()
    assert watching.delays["fact_daily_revenue"].p99 == 70 and not watching.lease.status.held_back


def test_a_stream_of_raw_alone_names_no_other_table(tmp_path: Path, time: FakeClock) -> None:
    watching = Watching(tmp_path, None, time)
    watching.publish(DAY, in_raw=3, followed=9)
    assert watching.delays == {"raw_sales": Delays(3, 3)}
    assert watching.reports[-1].text == "batch 1: 10 events in 1.0 s; in raw_sales after p50 3.0 s, p99 3.0 s"


# ----------------------------------------------------------------------------- over the batches of the last minutes


NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


def ago(events: int, *seconds: float) -> Received:
    """Events that were received so long ago, in equal parts."""
    return Received.of(events, [round((NOW.timestamp() - each) * 1000) for each in seconds])


def test_delays_are_those_of_events_and_not_of_batches() -> None:
    """One slow batch of few events is not the 99th percentile of all; one slow fiftieth of a batch is."""
    recent = [*ago(1_000, 2).weighted(NOW), *ago(5, 60).weighted(NOW)]
    assert delays_of(recent) == Delays(2, 2)
    recent += ago(1_000, *[2.0] * 48, 40.0, 40.0).weighted(NOW)
    assert delays_of(recent) == Delays(2, 40)


def test_the_percentiles_of_a_batch_are_exact_where_times_are_kept() -> None:
    hundred = ago(100, *map(float, range(1, 101)))
    found = hundred.delays(NOW)
    assert found.p50 == pytest.approx(50, abs=1) and found.p99 == pytest.approx(99, abs=1)
    later = hundred.delays(NOW + timedelta(seconds=10))
    assert (later.p50 - found.p50, later.p99 - found.p99) == (10, 10)


def test_a_clock_that_is_behind_gives_no_negative_delay() -> None:
    assert ago(3, -5).delays(NOW) == Delays(0, 0)
