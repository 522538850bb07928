"""Several topics into one table: one query, each event once, positions of each topic with its rows."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.errors import SourceUnreadable
from backfill_assets.state.stream_positions import topic_positions
from backfill_assets.stream.batches import BatchRead
from backfill_assets.stream.delays import SHARES, Received
from backfill_assets.stream.several_topics import batch_of, together
from backfill_assets.stream.sources import KafkaTopics, Start
from backfill_assets_tests.stream.small_stream import SmallStream, Topic, sales

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_assets_tests.stream.broker import Broker

FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)


def test_a_batch_of_several_topics_has_the_days_and_events_of_all() -> None:
    reads = [BatchRead(3, Received.of(3, [1, 2, 3]), 0, "p1", (SECOND,)), BatchRead(1, None, 0, "p2", (FIRST, SECOND))]
    found = batch_of([*reads, BatchRead()])
    assert (found.events, found.publication, found.days) == (4, "p2", (FIRST, SECOND))
    assert found.received == Received.of(3, [1, 2, 3]) and batch_of([]).received is None


def test_times_of_receipt_count_by_their_topics_events() -> None:
    merged = Received.merged([Received.of(90, [5] * 90), Received.of(10, [1, 9])])
    assert merged.events == 100 and merged.at_ms[0] == 1 and merged.at_ms[-1] == 9
    assert merged.at_ms[SHARES.index(0.1)] == merged.at_ms[SHARES.index(0.9)] == 5


def test_a_start_says_what_each_topic_begins_with() -> None:
    starts = {"a": Start({0: 1}, False, {}, "goes on"), "b": Start({0: 0}, True, {}, "begins")}
    assert together(starts) == Start({}, True, {}, "a goes on; b begins")


@pytest.mark.spark
def test_each_event_of_each_topic_is_in_raw_once(spark: SparkSession, tmp_path: Path, kafka_broker: Broker) -> None:
    """A topic that is added later begins by itself, and one that has lost events is named."""
    one, two = Topic.new(kafka_broker), Topic.new(kafka_broker, 1)
    one.send(sales(range(4)))
    two.send(sales(range(4, 7)))
    stream = SmallStream(spark, tmp_path, one.source).run()
    stream.source = KafkaTopics(kafka_broker.address, (one.name, two.name))
    stream.run()
    one.send(sales(range(7, 9)), partition=1)
    two.send(sales(range(9, 10)))
    stream.run()
    assert stream.read() == one.sent + two.sent
    offsets = {topic.name: topic_positions(stream.storage, "sales", topic.name).next_offsets for topic in (one, two)}
    assert offsets == {one.name: {0: 2, 1: 4}, two.name: {0: 4}}
    assert [kafka_broker.read_by("backfill-raw_sales", each) for each in offsets] == [*offsets.values()]
    last = stream.reports[-1]
    assert last.figures["events"] == 3, "one batch of both"
    two.send(sales(range(10, 12)))
    kafka_broker.delete_records(two.name, {0: 5})
    with pytest.raises(SourceUnreadable, match=f"{two.name} has deleted 1 offset that raw has not read"):
        stream.run()
    stream.run(start={"accept_gap": True})
    del two.sent[f"kafka:{two.name}/0", 4]
    assert stream.read() == one.sent + two.sent
