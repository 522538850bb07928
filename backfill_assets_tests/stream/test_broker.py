"""The broker of the tests is a real one: what is written to it is read by Spark, also after it was killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from backfill_assets_tests.stream.broker import Broker

MESSAGES = 1_000
PARTITIONS = 3


@pytest.fixture
def topic(kafka_broker: Broker) -> str:
    """A topic of three partitions with a thousand messages."""
    name = kafka_broker.new_topic(PARTITIONS)
    producer = Producer(kafka_broker.client_options())
    for number in range(MESSAGES):
        producer.produce(name, f"message {number}", partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return name


def read(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": broker.address, "subscribe": topic}
    return spark.read.format("kafka").options(**options).load()


def test_spark_reads_each_message_once(spark: SparkSession, kafka_broker: Broker, topic: str) -> None:
    messages = read(spark, kafka_broker, topic)
    assert messages.count() == MESSAGES
    assert messages.select("partition", "offset").distinct().count() == MESSAGES
    assert messages.selectExpr("cast(value AS string)").distinct().count() == MESSAGES


def test_a_killed_broker_has_kept_what_it_confirmed(spark: SparkSession, kafka_broker: Broker, topic: str) -> None:
    """It starts again at the same address, on the same data."""
    before, address = kafka_broker.end_offsets(topic), kafka_broker.address
    kafka_broker.kill()
    assert not kafka_broker.is_running
    kafka_broker.start()
    assert (kafka_broker.address, kafka_broker.end_offsets(topic)) == (address, before)
    assert read(spark, kafka_broker, topic).count() == MESSAGES


def test_a_stopped_broker_is_started_for_the_next_topic(kafka_broker: Broker) -> None:
    """A test may leave it down: the next one asks for its own topic first."""
    kafka_broker.stop()
    assert kafka_broker.end_offsets(kafka_broker.new_topic(2)) == {0: 0, 1: 0}


def test_deleted_records_are_gone(spark: SparkSession, kafka_broker: Broker, topic: str) -> None:
    """As when retention has passed: the offsets begin later."""
    kafka_broker.delete_records(topic, {0: 100})
    assert kafka_broker.first_offsets(topic) == {0: 100, 1: 0, 2: 0}
    assert read(spark, kafka_broker, topic).count() == MESSAGES - 100
