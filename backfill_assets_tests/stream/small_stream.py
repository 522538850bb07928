"""A stream of a few sales events into a lakehouse of its own: what tests of the stream need of the world."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.catalog import Catalog
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.state.stream_positions import TopicPositions, topic_positions
from backfill_assets.state.view import View
from backfill_assets.stream.live import Trigger
from backfill_assets.stream.reporter import StreamEvent
from backfill_assets.stream.run import StreamRequest, run_stream
from backfill_assets.stream.sources import KafkaTopic, StreamSource
from backfill_assets.stream.topic import StartRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_assets_tests.stream.broker import Broker

DAY = datetime(2026, 3, 2, 10, tzinfo=UTC)
RUN = RunInfo("test", "", "tests")


def sale(number: int, at: datetime = DAY, **changes: str) -> str:
    """One line of a receipt; ``changes`` are landed fields."""
    values = {
        "household_id": str(number % 7),
        "store_id": str(number % 3),
        "basket_id": str(number),
        "product_id": "1",
        "quantity": "1",
        "sales_value": f"{number % 50}.25",
        "retail_disc": "0.00",
        "coupon_disc": "0.00",
        "coupon_match_disc": "0.00",
        "transaction_timestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "currency": "EUR",
        "updated_at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
    }
    return json.dumps(values | changes)


class DiedInABatch(Exception):
    """In place of a process that died: of what Spark calls back, it hears an ``Exception`` alone."""


@dataclass
class SmallStream:
    """Streams ``source`` into ``raw_sales`` of a lakehouse below ``home``, in the Spark of the tests."""

    spark: SparkSession
    home: Path
    source: StreamSource
    reports: list[StreamEvent] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    crash_at: CrashPoint | None = None
    on_batch: Callable[[], None] = lambda: None
    catalog: Catalog = CATALOG

    @property
    def storage(self) -> Storage:
        return Storage(str(self.home / "lakehouse"))

    @property
    def lake(self) -> Lake:
        publisher = Publisher(self.storage, reached=self._reached)
        key = self.home / "token.key"
        if not key.exists():
            key.parent.mkdir(parents=True, exist_ok=True)
            key.write_text("a key for tests of the stream")
        return Lake(
            self.catalog, self.storage, publisher, LandingZone(self.home / "landing"), lambda: self.spark, str(key)
        )

    def _reached(self, point: CrashPoint, publication: str) -> None:
        if point is self.crash_at:
            self.crash_at = None
            raise DiedInABatch(point)

    def request(self, **changes: Any) -> StreamRequest:
        start = StartRequest(**{"from_beginning": True, **changes.pop("start", {})})
        request = StreamRequest("raw_sales", self.source, start, follow=False)
        return replace(request, trigger=Trigger(available_now=True), **changes)

    def run(self, **changes: Any) -> SmallStream:
        """Read what there is now."""
        run_stream(self.lake, self.request(**changes), RUN, self.messages.append, self.reports.append)
        return self

    def rows(self) -> list[dict[str, Any]]:
        rows = View.newest(self.storage).rows("raw_sales")
        return [] if rows is None else rows.to_pylist()

    def raw(self) -> list[dict[str, Any]]:
        """The rows of raw, without markers."""
        return [row for row in self.rows() if row["record_kind"] == "received"]

    def read(self) -> Counter[tuple[str, int]]:
        """How often raw has each event, by partition and offset."""
        return Counter((row["source_file"], row["source_line"]) for row in self.raw())

    def positions(self) -> TopicPositions:
        assert isinstance(self.source, KafkaTopic)
        return topic_positions(self.storage, "sales", self.source.topic)


@dataclass
class Topic:
    """A topic of the broker, and what was sent to it."""

    broker: Broker
    name: str
    partitions: int
    sent: Counter[tuple[str, int]] = field(default_factory=Counter)

    @classmethod
    def new(cls, broker: Broker, partitions: int = 2) -> Topic:
        return cls(broker, broker.new_topic(partitions), partitions)

    @property
    def source(self) -> KafkaTopic:
        return KafkaTopic(self.broker.address, self.name)

    def send(
        self,
        values: Iterable[str | bytes | None],
        partition: int | None = None,
        time: int = 0,
        key: str | bytes | None = None,
        headers: Sequence[tuple[str, str | bytes | None]] = (),
    ) -> None:
        """Send events, to the partitions in turn or to one of them; the broker has confirmed them afterwards.

        ``time`` is the one of their records, in milliseconds; 0 is now.
        """
        options = {**self.broker.client_options(), "message.max.bytes": 15_000_000}
        producer = Producer(options)
        problems: list[Any] = []

        def confirmed(error: Any, message: Any) -> None:
            problems.extend([error] if error else [])
            self.sent[f"kafka:{self.name}/{message.partition()}", message.offset()] += 1

        for number, value in enumerate(values):
            where = number % self.partitions if partition is None else partition
            producer.produce(
                self.name, value, key, partition=where, timestamp=time, on_delivery=confirmed, headers=list(headers)
            )
            producer.poll(0)
        assert producer.flush(30) == 0 and not problems


def sales(numbers: Sequence[int]) -> list[str]:
    return [sale(number) for number in numbers]
