"""The producer's tally says what is in the topic: after a plain end, and when broker or producer were killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from backfill_assets.examples.sample.live import live_events
from backfill_assets_tests.stream.producer import LiveProducer, start_producer
from backfill_assets_tests.stream.sent import Sent, tally_in_topic

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
    assert len(texts(kafka_broker, topic)) == tally.lines
    assert tally.as_json() == tally_in_topic(producer.spec, kafka_broker.end_offsets(topic)).as_json()


def test_a_broker_that_is_killed_meanwhile_has_each_event_once(kafka_broker: Broker, tmp_path: Path) -> None:
    """The answer to some is lost with it: they are sent again, and count once."""
    with producing(kafka_broker, tmp_path / "sent.json", seconds=6) as (producer, topic):
        while sum(producer.sent.acknowledged) < RATE:
            time.sleep(0.05)
        kafka_broker.kill()
        time.sleep(1)
        kafka_broker.start()
        tally = producer.wait(120)
    assert tally.lines == 6 * RATE == sum(kafka_broker.end_offsets(topic).values())
    sent = islice(live_events(producer.spec), tally.lines)
    assert sorted(texts(kafka_broker, topic)) == sorted(event.text for event in sent)


def test_a_killed_producer_leaves_what_it_had_sent(kafka_broker: Broker, tmp_path: Path) -> None:
    with producing(kafka_broker, tmp_path / "sent.json") as (producer, topic):
        while sum(producer.sent.acknowledged) < RATE:
            time.sleep(0.05)
        producer.kill()
    sent, ends = Sent.read(tmp_path / "sent.json"), kafka_broker.end_offsets(topic)
    assert all(acknowledged <= ends[partition] for partition, acknowledged in enumerate(sent.acknowledged))
    assert not sent.is_complete and sum(sent.acknowledged) <= sum(ends.values()) <= sent.handed_over
    with pytest.raises(AssertionError, match="not all is sent"):
        producer.tally()
    assert tally_in_topic(producer.spec, ends).lines == sum(ends.values())


def test_a_stopped_producer_has_sent_all_that_it_began(kafka_broker: Broker, tmp_path: Path) -> None:
    with producing(kafka_broker, tmp_path / "sent.json") as (producer, topic):
        while not sum(producer.sent.acknowledged):
            time.sleep(0.05)
        assert producer.stop().lines == sum(kafka_broker.end_offsets(topic).values())
