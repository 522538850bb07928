"""Facts follow in a thread of their own: one following at a time, and none is left when a stream ends."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.examples.sample.landing_writer import landing
from backfill_assets.publish.publisher import Publisher
from backfill_assets.stream.batches import BatchRead, Checkpoint
from backfill_assets.stream.follow_loop import FollowLoop
from backfill_assets.stream.follower import Follower
from backfill_assets.stream.gained import Gained, GainedBatch
from backfill_assets.stream.landed import LandingReading
from backfill_assets.stream.sources import LandingFolder
from backfill_assets.stream.throttle import ReadLimit
from backfill_assets_tests.stream.small_stream import SmallStream, sales

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY = date(2026, 3, 2)
_PATIENCE_SECONDS = 30.0


@dataclass
class Played:
    """Each following waits until ``may_go`` is set, and says how many worked at once."""

    may_go: threading.Event = field(default_factory=threading.Event)
    has_begun: threading.Event = field(default_factory=threading.Event)
    done: list[str] = field(default_factory=list)
    at_once: list[int] = field(default_factory=list)
    _at_work: int = 0

    def __post_init__(self) -> None:
        self.loop = FollowLoop(self.follow, lambda: self.work("again"))

    def follow(self, gained: Gained) -> None:
        self.work(f"{len(gained.batches)} of {threading.current_thread().name}")

    def work(self, what: str) -> None:
        self._at_work += 1
        self.at_once.append(self._at_work)
        self.has_begun.set()
        assert self.may_go.wait(_PATIENCE_SECONDS)
        self.done.append(what)
        self._at_work -= 1

    def add(self) -> None:
        self.loop.add(GainedBatch(frozenset([DAY]), 1))


def test_a_following_takes_all_that_came_meanwhile_and_a_minute_without_a_batch_asks_again() -> None:
    played = Played()
    played.add()
    assert played.has_begun.wait(_PATIENCE_SECONDS)
    for _ in range(3):
        played.add()
    played.loop.again()
    assert len(played.loop.waiting.batches) == 3
    played.may_go.set()
    while played.loop.is_at_work:
        played.loop.pause(1)
    assert played.done == ["1 of stream-facts", "3 of stream-facts"], "a following tries again what was left, too"
    played.loop.again()
    played.loop.stop(_PATIENCE_SECONDS)
    assert played.done[2:] == ["again"] and set(played.at_once) == {1}


def test_a_stop_lets_it_do_what_waits_for_a_bounded_time_and_nothing_afterwards() -> None:
    played = Played()
    played.add()
    assert played.has_begun.wait(_PATIENCE_SECONDS)
    played.add()
    played.loop.stop(0.05)
    assert played.done == []
    played.may_go.set()
    (thread,) = (each for each in threading.enumerate() if each.name == "stream-facts" and each.is_alive())
    thread.join(_PATIENCE_SECONDS)
    assert played.done == ["1 of stream-facts"], "the next start finds the days that it has left"


def test_a_failure_is_kept_for_who_waits_and_ends_the_wait() -> None:
    def fail(gained: Gained) -> None:
        raise ValueError("a bug")

    loop = FollowLoop(fail, lambda: None)
    loop.add(GainedBatch(frozenset([DAY])))
    loop.stop(_PATIENCE_SECONDS)
    assert isinstance(loop.failure, ValueError) and not loop.is_at_work


@pytest.mark.timeout(300)
def test_a_stream_reads_on_while_slow_facts_follow_and_ends_after_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While that of the first batch is under way, two others come into raw. Each loop has handles of its own."""
    stream = SmallStream(spark, tmp_path, LandingFolder())
    followed, users = list[set[date]](), dict[str, Publisher]()
    publish, turns = LandingReading.publish, list[float]()

    def follow(self: Follower, days: Collection[date]) -> None:
        users["facts"] = self.lake.publisher
        turns.append(sys.getswitchinterval())
        latest = time.monotonic() + _PATIENCE_SECONDS
        while days and [each.kind for each in stream.reports].count("batch") < 3:
            assert time.monotonic() < latest, "raw waits for its facts"
            time.sleep(0.01)
        followed.extend([{*days}] if days else [])

    def read(self: LandingReading, rows: DataFrame, checkpoint: Checkpoint, number: int) -> BatchRead:
        users["raw"] = self.lake.publisher
        return publish(self, rows, checkpoint, number)

    monkeypatch.setattr(Follower, "follow", follow)
    monkeypatch.setattr(LandingReading, "publish", read)
    for number in range(3):
        with landing(stream.home / "landing") as files:
            files.write("sales", date(2026, 3, 2), sales([number]), f"number-{number}")
    stream.run(follow=True, two_loops=True, limit=ReadLimit.parse((), 1))
    assert [each.kind for each in stream.reports if each.kind != "reading"] == [*["batch"] * 3, *["followed"] * 2]
    assert followed == [{DAY}] * 2 and len(stream.raw()) == 3
    assert users["raw"] is not users["facts"] and users["raw"].log is not users["facts"].log
    assert max(turns[1:]) < sys.getswitchinterval() / 5, "threads take short turns while there are two loops"
