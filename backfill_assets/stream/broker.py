"""Reads a topic: with Spark's Kafka source, and with the Kafka client in Spark's JVM for metadata and odd events."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JJavaError

from backfill_assets.errors import InvalidRequest, SourceAway, SourceUnreadable
from backfill_assets.state.stream_positions import TopicIds
from backfill_assets.stream.sources import KafkaTopic, OffsetRange, Offsets, TopicOffsets
from backfill_assets.text import suggest_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ANSWER_SECONDS = 15
_AWAY = re.compile(
    r"kafka\.common\.errors\.(?:Timeout|Disconnect|BrokerNotAvailable)Exception"
    r"|Cannot fetch record for offset|No resolvable bootstrap urls"
)
"""Not Spark's own timeouts, which mean something slow."""
_MISSING = re.compile(r"UnknownTopicOrPartition")
_OF_A_VALUE = "DuckDB: ((?:Invalid Input|Conversion|Out of Range) Error)"
_OF_AN_EVENT = re.compile(
    r"java\.lang\.(?:ArithmeticException|StackOverflowError)|kafka\.common\.errors\.(?:RecordDeserialization|CorruptRecord)"
    r"|Received exception when fetching the next record|\[(?:[A-Z_]+_OVERFLOW|CAST_INVALID_INPUT)[\].]"
    rf"|{_OF_A_VALUE}"
)
"""Errors of Spark (which converts event times to microseconds up front), of Kafka, and of DuckDB (which makes rows)."""
_TIME = re.compile(r"ConsumerRecord\(topic = [^,]*, partition = \d+,[^)]*? offset = (\d+), \w+ = (-?\d+),")
_GONE = re.compile(r"Some data may have been lost|OffsetOutOfRange|UnknownTopicOrPartition")


_AROUND = ("TASK_WRITE_FAILED",)
"""Conditions that only say where an error came up."""


class BrokerAway(SourceAway):
    """Nothing was read, and nothing is lost."""


@dataclass(frozen=True)
class KafkaRecord:
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    time: int | None = None
    """Milliseconds since 1970 if the producer is right."""
    reason: str = ""


class Message(NamedTuple):
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Broker:
    """Needs embedded Spark: the Kafka client runs in its JVM."""

    spark: SparkSession
    source: KafkaTopic
    properties: Mapping[str, str] = field(repr=False)
    """May contain secrets. ``isolation.level``: whether open transactions count. No reader joins a group."""
    with_headers: bool = False

    def stream(self, start: Offsets, most: int, beside: Mapping[str, Offsets] = MappingProxyType({})) -> DataFrame:
        """``beside`` are starts of other topics of this broker, for the same query."""
        starts = {self.source.topic: start, **beside}
        options = {
            "subscribe": ",".join(starts),
            "startingOffsets": _json(starts),
            "maxOffsetsPerTrigger": str(most),
        }
        return self.spark.readStream.format("kafka").options(**self._options(), **options).load()

    def read(self, *parts: OffsetRange) -> DataFrame:
        """At most one part of each partition."""
        topic = self.source.topic
        options = {
            "assign": json.dumps({topic: [each.partition for each in parts]}),
            "startingOffsets": _json({topic: {each.partition: each.first for each in parts}}),
            "endingOffsets": _json({topic: {each.partition: each.end for each in parts}}),
        }
        return self.spark.read.format("kafka").options(**self._options(), **options).load()

    def _options(self) -> dict[str, str]:
        kafka = {f"kafka.{name}": value for name, value in self.properties.items()}
        return {**kafka, "kafka.bootstrap.servers": self.source.servers, "failOnDataLoss": "true", **self._of_headers()}

    def _of_headers(self) -> dict[str, str]:
        return {"includeHeaders": "true"} if self.with_headers else {}

    def offsets(self) -> TopicOffsets:
        """Raises :class:`SourceUnreadable` for a missing topic, and :class:`BrokerAway`."""
        with self._client(self._new_consumer) as consumer:
            partitions = self._partitions(consumer)
            oldest = _by_partition(consumer.beginningOffsets(partitions))
            end = _by_partition(consumer.endOffsets(partitions))
        return TopicOffsets(oldest, end, self.ids())

    def ends(self) -> Offsets:
        with self._client(self._new_consumer) as consumer:
            return _by_partition(consumer.endOffsets(self._partitions(consumer)))

    def ids(self) -> TopicIds:
        """Brokers before Kafka 2.8 have one id for all topics."""
        names = self._jvm.java.util.ArrayList()
        names.add(self.source.topic)
        with self._client(self._new_admin) as admin:
            cluster = admin.describeCluster().clusterId().get()
            found = admin.describeTopics(names).allTopicNames().get().get(self.source.topic)
            return TopicIds(str(cluster), str(found.topicId()))

    def commit(self, group: str, offsets: Offsets) -> None:
        """Set what ``group`` has read, for tools that show its lag. Nothing here reads it. Raises
        :class:`SourceUnreadable` if the broker refuses, and :class:`BrokerAway`.
        """
        kafka = self._jvm.org.apache.kafka
        read = self._jvm.java.util.HashMap()
        for partition, offset in offsets.items():
            at = kafka.clients.consumer.OffsetAndMetadata(offset)
            read.put(kafka.common.TopicPartition(self.source.topic, partition), at)
        with self._client(self._new_admin) as admin:
            try:
                admin.alterConsumerGroupOffsets(group, read).all().get()
            except Py4JJavaError as error:
                raise broker_away(self.source, error) or SourceUnreadable(
                    f"{self.source} refuses to keep what the consumer group {group!r} has read: {reason_of(error)}.",
                    hint="Tools that show its lag are behind; raw has its own positions. Allow writing to the group,"
                    " and let nobody join it; or name another as group.id in the file of Kafka properties.",
                ) from error

    def send(self, topic: str, messages: Sequence[Message]) -> None:
        """To a topic of this broker, each acknowledged; at least once. Raises :class:`SourceUnreadable` if it refuses,
        and :class:`BrokerAway`.
        """
        clients = self._jvm.org.apache.kafka.clients.producer
        header = self._jvm.org.apache.kafka.common.header.internals.RecordHeader
        with self._client(self._new_producer) as producer:
            try:
                sent = []
                for key, value, headers in messages:
                    said = self._jvm.java.util.ArrayList()
                    for name, text in headers:
                        said.add(header(name, text))
                    sent.append(producer.send(clients.ProducerRecord(topic, None, key, value, said)))
                for each in sent:
                    each.get()
            except Py4JJavaError as error:
                # A topic that is missing times out like a broker that is away, which the stream's own reading tells.
                raise SourceUnreadable(
                    f"The topic {topic} at {self.source.servers} takes no rejected events: {reason_of(error)}.",
                    hint="They stay in quarantine, and are sent when it takes them. Create the topic, and allow writing"
                    " to it.",
                ) from error

    def offsets_since(self, day: date) -> Offsets:
        return self.offsets_at(datetime.combine(day, time.min, UTC))

    def offsets_at(self, moment: datetime) -> Offsets:
        """Of the first event received since, or the end."""
        since = int(moment.timestamp() * 1000)
        with self._client(self._new_consumer) as consumer:
            partitions = self._partitions(consumer)
            times = self._jvm.java.util.HashMap()
            for partition in partitions:
                times.put(partition, since)
            ends = _by_partition(consumer.endOffsets(partitions))
            found = consumer.offsetsForTimes(times)
            at = {entry.getKey().partition(): entry.getValue() for entry in found.entrySet()}
            return {number: end if at[number] is None else int(at[number].offset()) for number, end in ends.items()}

    def records(self, wanted: OffsetRange) -> Iterator[KafkaRecord]:
        for polled in self._polled(wanted):
            if isinstance(polled, KafkaRecord):
                yield polled
                continue
            for each in polled:
                if each.offset() < wanted.end:
                    headers = (
                        ((str(one.key()), one.value()) for one in each.headers().toArray()) if self.with_headers else ()
                    )
                    yield KafkaRecord(
                        wanted.partition, each.offset(), each.key(), each.value(), tuple(headers), each.timestamp()
                    )

    def times(self, wanted: OffsetRange) -> Iterator[KafkaRecord]:
        """Parsed from one string a poll: a JVM call for each event would be too slow."""
        for polled in self._polled(wanted):
            if isinstance(polled, KafkaRecord):
                yield polled
                continue
            for offset, sent in _TIME.findall(polled.toString()):
                if int(offset) < wanted.end:
                    yield KafkaRecord(wanted.partition, int(offset), time=int(sent))

    def _polled(self, wanted: OffsetRange) -> Iterator[Any]:
        partition = self._jvm.org.apache.kafka.common.TopicPartition(self.source.topic, wanted.partition)
        partitions = self._jvm.java.util.ArrayList()
        partitions.add(partition)
        with self._client(self._new_consumer) as consumer:
            consumer.assign(partitions)
            consumer.seek(partition, wanted.first)
            while (at := consumer.position(partition)) < wanted.end:
                try:
                    polled = consumer.poll(self._jvm.java.time.Duration.ofSeconds(ANSWER_SECONDS))
                except Exception as error:
                    if not is_about_an_event(error):
                        raise
                    yield KafkaRecord(wanted.partition, at, reason=reason_of(error))
                    consumer.seek(partition, at + 1)
                    continue
                if polled.isEmpty() and consumer.position(partition) == at:
                    raise BrokerAway(f"No Kafka broker at {self.source.servers} has sent offset {at:,}.")
                yield polled.records(partition)

    @property
    def _jvm(self) -> Any:
        return self.spark._jvm

    @contextmanager
    def _client(self, opened: Callable[[], Any]) -> Iterator[Any]:
        client = None
        try:
            client = opened()
            yield client
        except Exception as error:
            if isinstance(error, SourceUnreadable):
                raise
            raise self._explained(error) from error
        finally:
            if client is not None:
                client.close(self._jvm.java.time.Duration.ofSeconds(1))

    def _new_admin(self) -> Any:
        return self._jvm.org.apache.kafka.clients.admin.AdminClient.create(self._client_properties())

    def _new_producer(self) -> Any:
        serialization = self._jvm.org.apache.kafka.common.serialization
        properties = self._client_properties()
        properties.setProperty("max.block.ms", str(ANSWER_SECONDS * 1000))
        properties.setProperty("delivery.timeout.ms", str(2 * ANSWER_SECONDS * 1000))
        return self._jvm.org.apache.kafka.clients.producer.KafkaProducer(
            properties, serialization.ByteArraySerializer(), serialization.ByteArraySerializer()
        )

    def _new_consumer(self) -> Any:
        serialization = self._jvm.org.apache.kafka.common.serialization
        return self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
            self._client_properties(), serialization.ByteArrayDeserializer(), serialization.ByteArrayDeserializer()
        )

    def _client_properties(self) -> Any:
        properties = self._jvm.java.util.Properties()
        patience = str(ANSWER_SECONDS * 1000)
        ours = {
            "bootstrap.servers": self.source.servers,
            "allow.auto.create.topics": "false",
            "default.api.timeout.ms": patience,
            "request.timeout.ms": patience,
        }
        for name, value in {**self.properties, **ours}.items():
            properties.setProperty(name, value)
        return properties

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
    if not _AWAY.search(str(error)):
        return None
    return BrokerAway(
        f"No Kafka broker answers at {source.servers}.",
        hint="Nothing is lost: what was read is published, and the rest is read when the broker answers. Check the"
        " address, and that the broker listens there.",
    )


def is_about_an_event(error: Exception) -> bool:
    return _OF_AN_EVENT.search(str(error)) is not None


def reason_of(error: Exception) -> str:
    """The error's name only: its message may quote the event, which may be personal."""
    if of_a_value := re.search(_OF_A_VALUE, str(error)):
        return of_a_value[1]
    named = re.findall(r"\[([A-Z]+(?:_[A-Z]+)+)[\].]|\b(?:[a-z]+\.)+(\w+(?:Exception|Error))\b", str(error))
    conditions = [condition for condition, _ in named if condition and condition not in _AROUND]
    classes = [name for _, name in named if name]
    return str((conditions or classes or [type(error).__name__])[-1])


def says_events_are_gone(error: Exception) -> bool:
    return _GONE.search(str(error)) is not None


def read_properties(text: str) -> dict[str, str]:
    """``name=value`` lines. Values may be secret and are in no message."""
    lines = [line.strip() for line in text.splitlines()]
    found = {}
    for number, line in enumerate(lines, 1):
        if line and not line.startswith(("#", "!")):
            name, equals, value = line.partition("=")
            if not equals:
                raise InvalidRequest(f"Line {number} of the Kafka properties is not name=value.")
            found[name.strip()] = value.strip()
    return found


def _json(offsets: Mapping[str, Offsets]) -> str:
    return json.dumps({topic: {str(number): at for number, at in of.items()} for topic, of in offsets.items()})


def _by_partition(offsets: Any) -> dict[int, int]:
    return {entry.getKey().partition(): int(entry.getValue()) for entry in offsets.entrySet()}
