"""Asks a Kafka broker what it has of a topic, through the client that Spark's connector brings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.stream.offsets import Offsets, TopicOffsets
from backfill_assets.stream.sources import KafkaTopic
from backfill_assets.text import suggest_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWER_SECONDS = 15
"""A broker that does not answer within this is away."""
_AWAY = re.compile(
    r"kafka\.common\.errors\.(?:Timeout|Disconnect|BrokerNotAvailable)Exception"
    r"|Cannot fetch record for offset|No resolvable bootstrap urls"
)
"""Of Kafka's client and of Spark's connector. Spark has timeouts of its own, which say that something else is slow."""
_MISSING = re.compile(r"UnknownTopicOrPartition")
_PAST_ALL_TIMES = re.compile(r"java\.lang\.ArithmeticException: long overflow")
"""Spark turns the time of each event into microseconds, before the event can be looked at."""
_GONE = re.compile(r"Some data may have been lost|OffsetOutOfRange|UnknownTopicOrPartition")


class BrokerAway(SourceUnreadable):
    """No broker answers: nothing was read, and what is there is read when one does."""


class Broker:
    """One look at the brokers of a topic. Needs an embedded Spark, whose JVM the client runs in."""

    def __init__(self, spark: SparkSession, source: KafkaTopic, properties: Mapping[str, str]) -> None:
        self.source = source
        self._properties = properties
        self._jvm: Any = spark._jvm

    def offsets(self) -> TopicOffsets:
        """The oldest and the end offset of each partition. Raises :class:`SourceUnreadable` for a missing topic, and
        :class:`BrokerAway`.
        """
        with self._consumer() as consumer:
            partitions = self._partitions(consumer)
            return TopicOffsets(
                _by_partition(consumer.beginningOffsets(partitions)), _by_partition(consumer.endOffsets(partitions))
            )

    def offsets_since(self, day: date) -> Offsets:
        """By partition, the offset of the first event that reached the topic on ``day`` (UTC) or later."""
        since = int(datetime.combine(day, time.min, UTC).timestamp() * 1000)
        with self._consumer() as consumer:
            partitions = self._partitions(consumer)
            times = self._jvm.java.util.HashMap()
            for partition in partitions:
                times.put(partition, since)
            ends = _by_partition(consumer.endOffsets(partitions))
            found = consumer.offsetsForTimes(times)
            at = {entry.getKey().partition(): entry.getValue() for entry in found.entrySet()}
            return {number: end if at[number] is None else int(at[number].offset()) for number, end in ends.items()}

    @contextmanager
    def _consumer(self) -> Iterator[Any]:
        consumer = None
        try:
            consumer = self._new_consumer()
            yield consumer
        except Exception as error:
            if isinstance(error, SourceUnreadable):
                raise
            raise self._explained(error) from error
        finally:
            if consumer is not None:
                consumer.close(self._jvm.java.time.Duration.ofSeconds(1))

    def _new_consumer(self) -> Any:
        properties = self._jvm.java.util.Properties()
        patience = str(ANSWER_SECONDS * 1000)
        ours = {
            "bootstrap.servers": self.source.servers,
            "allow.auto.create.topics": "false",
            "default.api.timeout.ms": patience,
            "request.timeout.ms": patience,
        }
        for name, value in {**self._properties, **ours}.items():
            properties.setProperty(name, value)
        serialization = self._jvm.org.apache.kafka.common.serialization
        return self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
            properties, serialization.ByteArrayDeserializer(), serialization.ByteArrayDeserializer()
        )

    def _partitions(self, consumer: Any) -> Any:
        infos = consumer.partitionsFor(self.source.topic)
        if infos is None or infos.isEmpty():
            raise self._missing_topic(consumer)
        partitions = self._jvm.java.util.ArrayList()
        for info in infos:
            partitions.add(self._jvm.org.apache.kafka.common.TopicPartition(self.source.topic, info.partition()))
        return partitions

    def _missing_topic(self, consumer: Any) -> SourceUnreadable:
        topics = sorted(str(name) for name in consumer.listTopics().keySet() if not str(name).startswith("__"))
        similar = suggest_name(self.source.topic, topics)
        has = f"It has: {', '.join(topics[:10])}." if topics else "It has no topics."
        return SourceUnreadable(
            f"The broker {self.source.servers} has no topic {self.source.topic!r}. {has}",
            hint=f"{similar} Create the topic, or name the right one in --from.".strip(),
        )

    def _explained(self, error: Exception) -> Exception:
        if _MISSING.search(str(error)):
            return SourceUnreadable(f"The broker {self.source.servers} has no topic {self.source.topic!r}.")
        return broker_away(self.source, error) or error


def broker_away(source: KafkaTopic, error: Exception) -> BrokerAway | None:
    """What ``error`` says of a broker that does not answer; None if it is about something else."""
    if not _AWAY.search(str(error)):
        return None
    return BrokerAway(
        f"No Kafka broker answers at {source.servers}.",
        hint="Nothing is lost: what was read is published, and the rest is read when the broker answers. Check the"
        " address, and that the broker listens there.",
    )


def unreadable_time(source: KafkaTopic, error: Exception) -> SourceUnreadable | None:
    """What ``error`` says of an event whose time Spark cannot read; None if it is about something else."""
    if not _PAST_ALL_TIMES.search(str(error)):
        return None
    return SourceUnreadable(
        f"An event of {source} has a time that Spark cannot read. It is in nanoseconds, perhaps: Kafka's are in"
        " milliseconds.",
        hint="Correct the producer. The event can be passed over once it is deleted: delete the records of its"
        " partition up to it (kafka-delete-records.sh), then start with --accept-gap, which records which they are.",
    )


def says_events_are_gone(error: Exception) -> bool:
    """Whether Spark could not read what it had planned to, as the events or their topic were deleted meanwhile."""
    return _GONE.search(str(error)) is not None


def read_properties(text: str) -> dict[str, str]:
    """Kafka client properties, ``name=value`` a line. Values may be secret: they are in no message."""
    lines = [line.strip() for line in text.splitlines()]
    found = {}
    for number, line in enumerate(lines, 1):
        if line and not line.startswith(("#", "!")):
            name, equals, value = line.partition("=")
            if not equals:
                raise InvalidRequest(f"Line {number} of the Kafka properties is not name=value.")
            found[name.strip()] = value.strip()
    return found


def _by_partition(offsets: Any) -> dict[int, int]:
    return {entry.getKey().partition(): int(entry.getValue()) for entry in offsets.entrySet()}
