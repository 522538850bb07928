"""Which errors say that no broker answers: those of Kafka's client and of Spark's connector, not every timeout."""

from __future__ import annotations

import pytest

from backfill_assets.stream.broker import BrokerAway, broker_away
from backfill_assets.stream.sources import KafkaTopic

TOPIC = KafkaTopic("there:9092", "sales")


@pytest.mark.parametrize(
    "said",
    [
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed out",
        "org.apache.kafka.common.errors.DisconnectException: Cancelled in-flight METADATA request",
        "org.apache.kafka.common.errors.BrokerNotAvailableException",
        "java.util.concurrent.TimeoutException: Cannot fetch record for offset 7 in 512 milliseconds",
        "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given in bootstrap.servers",
    ],
)
def test_a_broker_that_does_not_answer_is_named(said: str) -> None:
    away = broker_away(TOPIC, RuntimeError(said))
    assert isinstance(away, BrokerAway) and away.message == "No Kafka broker answers at there:9092."


@pytest.mark.parametrize(
    "said",
    [
        "java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]",
        "org.apache.spark.rpc.RpcTimeoutException: Cannot receive any reply in 120 seconds",
    ],
)
def test_a_timeout_of_spark_is_not_the_brokers(said: str) -> None:
    """To wait for the broker would hide what is slow."""
    assert broker_away(TOPIC, RuntimeError(said)) is None
