"""A real Kafka broker on the loopback interface, in a process of its own: started, stopped, killed and started again.

One process is broker and controller (KRaft). Its data and its ports stay the same over all of its starts.
"""

from __future__ import annotations

import secrets
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import (
    ENDED_WITH_ITS_STARTER,
    LOOPBACK,
    answers,
    dismiss_watch,
    end_process,
    free_port,
)
from backfill_assets.spark.java import java_command
from backfill_assets_tests.stream.broker_jars import class_path

LARGEST_MESSAGE = 16 * 1024 * 1024
"""In bytes: a message of 10 MB can be sent."""
_JAVA = ("-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_CLUSTER = "4L6g3nShT-eMCtK--X86sw"
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
broker.heartbeat.interval.ms=300
broker.session.timeout.ms=1500
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=2097152
log.flush.start.offset.checkpoint.interval.ms=500
log.initial.task.delay.ms=500
log.retention.ms=-1
message.max.bytes={largest}
replica.fetch.max.bytes={largest}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
"""
_PATIENCE_SECONDS = 60.0
_BATCH_OVERHEAD = 12
"""Bytes of a stored batch before what its length counts: its base offset and the length."""
_LAST_OFFSET_DELTA = 23
"""Where a stored batch (Kafka's message format v2) has the offset of its last record, counted from the first."""


@dataclass
class Broker:
    """``home`` holds data, configuration and log; nothing runs before :meth:`start`."""

    settings: Settings
    home: Path
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What ``bootstrap.servers`` takes."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def log(self) -> Path:
        """What all starts have printed: warnings and errors."""
        return self.home / "broker.log"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start on the data that is there, and wait until each partition can be read; nothing if it runs."""
        if self.is_running:
            return
        self._format()
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._wait_until_it_answers()

    def stop(self) -> None:
        """End it as an operator would; kill it if that takes more than 20 seconds."""
        end_process(self._require_process())

    def kill(self) -> None:
        """As ``kill -9``: it writes nothing more."""
        process = self._require_process()
        process.kill()
        process.wait()
        dismiss_watch(process)

    def new_topic(self, partitions: int = 1, **options: str) -> str:
        """:meth:`create_topic` with a name that no other test has, on a broker that is started if none runs."""
        self.start()
        topic = f"sales-{secrets.token_hex(4)}"
        self.create_topic(topic, partitions, **options)
        return topic

    def create_topic(self, topic: str, partitions: int = 1, **options: str) -> None:
        """``options`` are the topic's own, with ``_`` for each dot: ``retention_ms="1000"``."""
        config = {name.replace("_", "."): value for name, value in options.items()}
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
        self.admin.create_topics([wanted])[topic].result(_PATIENCE_SECONDS)
        _until(
            lambda: len(self._partitions(topic)) == partitions and self._knows_offsets(topic),
            f"{topic} has no {partitions} partitions",
        )

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(_PATIENCE_SECONDS)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete what is before an offset of each partition, as retention does; a kill within a second undoes it."""
        offsets = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        for done in self.admin.delete_records(offsets).values():
            done.result(_PATIENCE_SECONDS)

    def read_by(self, group: str, topic: str) -> dict[int, int]:
        """What the consumer group has committed, by partition."""
        asked = ConsumerGroupTopicPartitions(group)
        found = self.admin.list_consumer_group_offsets([asked])[group].result(_PATIENCE_SECONDS)
        return {each.partition: each.offset for each in found.topic_partitions or () if each.topic == topic}

    @contextmanager
    def member_of(self, group: str, topic: str) -> Iterator[None]:
        """A consumer that owns the partitions of ``topic`` within ``group``."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group, "enable.auto.commit": False})
        try:
            consumer.subscribe([topic])
            _until(lambda: consumer.poll(0.2) is not None or bool(consumer.assignment()), f"{group} owns nothing")
            yield
        finally:
            consumer.close()

    def damage(self, topic: str, offset: int, partition: int = 0) -> int:
        """Change a byte of the stored batch that ``offset`` is in, as a disk does; returns its number of records."""
        segment = self.home / "data" / f"{topic}-{partition}" / f"{0:020d}.log"
        stored = bytearray(segment.read_bytes())
        at = 0
        while at < len(stored):
            first, length = struct.unpack_from(">qi", stored, at)
            (last_delta,) = struct.unpack_from(">i", stored, at + _LAST_OFFSET_DELTA)
            if first <= offset <= first + last_delta:
                stored[at + _BATCH_OVERHEAD + length - 1] ^= 0xFF
                segment.write_bytes(stored)
                return int(last_delta) + 1
            at += _BATCH_OVERHEAD + length
        raise AssertionError(f"{segment} has no batch with offset {offset}")

    def end_offsets(self, topic: str) -> dict[int, int]:
        """By partition: the offset that the next message gets."""
        return self._offsets(topic, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    @cached_property
    def admin(self) -> AdminClient:
        """Kept: what a client is asked ends with it."""
        return AdminClient(self.client_options())

    def client_options(self) -> dict[str, str | int | float | bool]:
        """For a client of confluent-kafka, which prints nothing while the broker is away and returns to it at once."""
        return {"bootstrap.servers": self.address, "log_level": 2, "reconnect.backoff.max.ms": 500}

    def _offsets(self, topic: str, which: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): which for partition in self._partitions(topic)}
        answered = self.admin.list_offsets(asked)
        return {each.partition: int(done.result(_PATIENCE_SECONDS).offset) for each, done in answered.items()}

    def _knows_offsets(self, topic: str) -> bool:
        """A broker may name itself as a leader before it acts as one, or before it knows since when it is."""
        try:
            self.end_offsets(topic)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_LEADER_EPOCH):
                return False
            raise
        return True

    def _partitions(self, topic: str) -> list[int]:
        """Those with a leader."""
        known = self.admin.list_topics(topic, timeout=_PATIENCE_SECONDS).topics[topic].partitions
        return sorted(number for number, partition in known.items() if partition.leader >= 0)

    @property
    def _properties(self) -> Path:
        return self.home / "server.properties"

    def _command(self) -> list[str]:
        return ["sh", "-c", ENDED_WITH_ITS_STARTER, "TERM", *self._java(), "kafka.Kafka", str(self._properties)]

    def _java(self) -> list[str]:
        return [str(java_command()), *_JAVA, _LOG_LEVEL, "-cp", class_path(self.settings)]

    def _format(self) -> None:
        """Write the configuration, and make an empty store at the first start."""
        data = self.home / "data"
        ports = {"port": self.port, "controller_port": self.controller_port}
        self.home.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(_PROPERTIES.format(host=LOOPBACK, data=data, largest=LARGEST_MESSAGE, **ports))
        if not data.exists():
            tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._properties)]
            subprocess.run([*self._java(), *tool], check=True, capture_output=True, timeout=_PATIENCE_SECONDS)

    def _wait_until_it_answers(self) -> None:
        try:
            _until(self._answers, "the broker did not come up")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log.read_text(errors='replace')[-2000:]}") from error

    def _answers(self) -> bool:
        """Whether it can be read and written: it listens before it leads the partitions that it has."""
        assert self.is_running, "the broker has ended"
        if not answers(self.port):
            return False
        try:
            known = self.admin.list_topics(timeout=5)
        except KafkaException:
            return False
        partitions = [each for topic in known.topics.values() for each in topic.partitions.values()]
        return bool(known.brokers) and all(each.leader >= 0 for each in partitions)

    def _require_process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the broker was never started"
        return self._process


@contextmanager
def running_broker(settings: Settings, home: Path) -> Iterator[Broker]:
    """A started broker, stopped afterwards."""
    broker = Broker(settings, home)
    try:
        broker.start()
        yield broker
    finally:
        if broker.is_running:
            broker.kill()


def _until(done: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.1)
