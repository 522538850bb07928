"""The producer's tally says what is in the topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

from backfill_assets.examples.sample.live import live_events
from backfill_assets_tests.stream.producer import LiveProducer, start_producer

if TYPE_CHECKING:
    from backfill_assets_tests.stream.broker import Broker

PARTITIONS = 3
RATE = 2_000


@contextmanager
def producing(broker: Broker, file: Path, **options: Any) -> Iterator[tuple[LiveProducer, str]]:
    topic = broker.new_topic(PARTITIONS)
    all_options = {"events_per_second": RATE, "partitions": PARTITIONS} | options
    producer = start_producer(broker.address, topic, file, **all_options)
    try:
        yield producer, topic
    finally:
        producer.kill()


def texts(broker: Broker, topic: str) -> list[str]:
    """Every line of a topic."""
    consumer = Consumer(broker.client_options() | {"group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[str] = []
    while len(found) < sum(broker.end_offsets(topic).values()):
        found += [(message.value() or b"").decode() for message in consumer.consume(1_000, timeout=1)]
    consumer.close()
    return found


def test_all_events_are_in_the_topic_once_and_in_time(kafka_broker: Broker, tmp_path: Path) -> None:
    began = time.monotonic()
    with producing(kafka_broker, tmp_path / "sent.json", seconds=3) as (producer, topic):
        tally = producer.wait(60)
    assert tally.lines == 3 * RATE and time.monotonic() - began < 30
    sent = islice(live_events(producer.spec), tally.lines)
    assert sorted(texts(kafka_broker, topic)) == sorted(event.text for event in sent)


def test_a_stopped_producer_has_sent_all_that_it_began(kafka_broker: Broker, tmp_path: Path) -> None:
    with producing(kafka_broker, tmp_path / "sent.json") as (producer, topic):
        while not sum(producer.sent.acknowledged):
            time.sleep(0.05)
        assert producer.stop().lines == sum(kafka_broker.end_offsets(topic).values())
