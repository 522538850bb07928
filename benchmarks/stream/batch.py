"""What a micro-batch of a topic costs without a broker: its events as raw rows, published, and what follows from them.

Run with ``python -m benchmarks.stream.batch [--events 20000] [--days 31] [--batches 12] [--home FOLDER]``. A process
with the settings of a stream appends batches of live sales, of which some are late by up to so many days, from files
with the columns of Spark's Kafka source; bronze, facts and daily revenue follow, and small files are put together, as
behind each batch of a stream. Prints seconds of the clock and of the processor (Python, the JVM and its workers) for
each part of a batch. The first batches are those of a JVM that has just started, and build their days whole.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table as Rows

from backfill_assets import clock
from backfill_assets.cli.foreground import foreground_spark
from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.live import LiveEvent, LiveSpec, land_references, live_events
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.settings import Settings
from backfill_assets.spark.session import driver_memory, profile
from backfill_assets.state.stream_positions import TopicPositions
from backfill_assets.stream.facts import Facts
from backfill_assets.stream.follower import Follower
from backfill_assets.stream.gained import Gained, GainedBatch
from backfill_assets.stream.live import stream_settings
from backfill_assets.stream.sources import KafkaTopic, OffsetRange
from backfill_assets.stream.topic import StartRequest, TopicReading
from backfill_assets_tests.clock import FakeClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RAW = CATALOG.step("raw_sales")
PARTITIONS = 4
RUN = RunInfo("benchmark")
_START = datetime(2026, 3, 2, 6, tzinfo=UTC)
_EVENTS_A_SECOND = 2_000
_COLUMNS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
"""What of Spark's Kafka source is used."""


class WithoutBroker(TopicReading):
    """A topic that is nowhere: its events are given."""

    def require_same_topic(self) -> None:
        """Nobody makes another one."""


class Untold:
    """Nobody asks how late events are."""

    def followed(self, gained: Gained, seconds: float) -> None:
        pass

    def followed_again(self) -> None:
        pass


@dataclass(frozen=True)
class Cost:
    """Seconds of the clock, and of the processor."""

    clock: float
    cpu: float


@dataclass
class Batches:
    """Appends batch after batch, and lets what follows grow."""

    spark: SparkSession
    home: Path
    late_days: int
    time: FakeClock = field(default_factory=lambda: FakeClock(_START))
    """In use while it is played."""
    ends: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def __post_init__(self) -> None:
        storage, key = Storage(str(self.home / "lakehouse")), self.home / "token.key"
        key.write_text("a key for the benchmark of batches")
        publisher = Publisher(storage)
        landing = LandingZone(self.home / "landing")
        today = _START.date()
        land_references(landing.root, DayRange(today - timedelta(days=self.late_days), today))
        lake = Lake(CATALOG, storage, publisher, landing, lambda: self.spark, str(key))
        topic = KafkaTopic("nowhere:9092", "sales")
        self.reading = WithoutBroker(lake, RAW, RUN, say, topic=topic, properties={}, asked=StartRequest())
        self.reading.known = TopicPositions("sales", begun=True)
        self.facts = Facts(Follower(lake.of_another_thread(), RAW, RUN, say, say), Untold())
        self.events = live_events(LiveSpec(7, _START, _EVENTS_A_SECOND, self.late_days))
        self.watch = Watch()

    def play(self, number: int, count: int) -> dict[str, Cost]:
        """One batch of so many events: what each part of it took."""
        rows, planned = self.land(number, list(islice(self.events, count)))
        found: dict[str, Cost] = {}
        with self.watch.cost(found, "raw"):
            done = self.reading.append(rows, planned)
        assert done is not None
        with self.watch.cost(found, "follow"):
            self.facts.follow(Gained((GainedBatch(frozenset(done.days)),)))
        return found

    def land(self, number: int, events: Sequence[LiveEvent]) -> tuple[DataFrame, list[OffsetRange]]:
        """A file for each partition, so that it is a task of its own; and their offsets."""
        self.time.moment = max(self.time.moment, events[-1].moment)
        parts, planned = [], []
        for partition in range(PARTITIONS):
            own = events[partition::PARTITIONS]
            first, end = self.ends[partition], self.ends[partition] + len(own)
            path = self.home / f"events-{number}-{partition}.parquet"
            pq.write_table(_table(partition, first, own), path)
            parts.append(self.spark.read.parquet(str(path)))
            planned.append(OffsetRange(partition, first, end))
            self.ends[partition] = end
        return reduce(DataFrame.union, parts), planned


def _table(partition: int, first: int, events: Sequence[LiveEvent]) -> pa.Table:
    values = [event.text.encode() for event in events]
    count = len(events)
    columns = [
        [None] * count,
        values,
        ["sales"] * count,
        [partition] * count,
        range(first, first + count),
        [event.moment for event in events],
    ]
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, _COLUMNS.types, strict=True)], _COLUMNS)


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


class Watch:
    """Of this process, its JVM and Spark's workers, also of those that have ended."""

    def __init__(self) -> None:
        self._own = psutil.Process()

    def _cpu(self) -> float:
        family = (self._own, *self._own.children(recursive=True))
        return sum(sum(each.cpu_times()[:4]) for each in family)

    @contextmanager
    def cost(self, found: dict[str, Cost], part: str) -> Iterator[None]:
        clock, cpu = time.monotonic(), self._cpu()
        yield
        found[part] = Cost(time.monotonic() - clock, self._cpu() - cpu)


def measure(
    home: Path, events: int, days: int, batches: int, after: Callable[[int, Batches], None] = lambda *_: None
) -> list[dict[str, Cost]]:
    settings = Settings.at(home)
    options = stream_settings(profile(settings), driver_memory(), on_s3=False)
    with ExitStack() as stack:
        spark = foreground_spark(settings, stack, options)
        played = Batches(spark, home, days - 1)
        stack.enter_context(clock.use(played.time))
        found = []
        for number in range(batches):
            found.append(played.play(number, events))
            costs = "; ".join(f"{part} {cost.clock:.2f} s, CPU {cost.cpu:.2f}" for part, cost in found[-1].items())
            say(f"batch {number + 1}: {costs}")
            after(number, played)
        return found


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream.batch")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--days", type=int, default=31, help="late events are of so many days, with today")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--home", type=Path, help="a new folder that is kept")
    asked = parser.parse_args(arguments)
    os.environ.pop("SPARK_REMOTE", None)
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(asked.home or Path(temporary), asked.events, asked.days, asked.batches)
    warm = found[len(found) // 2 :]
    shown = Rows("part", "clock s", "CPU s", title=f"{asked.events:,} events, {asked.days} days: warm median")
    for part in warm[0]:
        clock, cpu = (median(getattr(each[part], name) for each in warm) for name in ("clock", "cpu"))
        shown.add_row(part, f"{clock:.2f}", f"{cpu:.2f}")
    Console().print(shown)


if __name__ == "__main__":
    main(sys.argv[1:])
