"""Key, headers and time of an event's record become columns of raw, and the value cannot say them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from backfill_assets.landing.landing_files import LandingFile, lines_query
from backfill_assets.landing.token_key import tokens_by
from backfill_assets.spark.workers import errors_of_workers
from backfill_assets.stream.broker import Broker as Reader
from backfill_assets.stream.events import deleted_keys, event_rows
from backfill_assets.stream.sources import OffsetRange
from backfill_assets_tests.strategies.landed_sales import land, land_key
from backfill_assets_tests.stream.recorded_sales import SOURCE, catalog_of
from backfill_assets_tests.stream.small_stream import SmallStream, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from backfill_assets_tests.stream.broker import Broker

KEY = "0123456789abcdef0123456789abcdef"
SENT = datetime(2026, 3, 2, 10, 0, 0, 123_000, UTC)
TODAY = date(2026, 3, 3)
SOLD = {"sold_at": "2026-03-02T09:59:00Z"}
PARTS = ("sale", "till", "household", "sent_at")
_EVENTS = (
    "key binary, value binary, partition int, offset bigint, timestamp timestamp,"
    " headers array<struct<key: string, value: binary>>"
)


def told(value: object, key: bytes | None = b"s-1", time: datetime = SENT, *headers: tuple[str, bytes | None]) -> Any:
    return key, None if value is None else json.dumps(value).encode(), time, list(headers)


def events(spark: SparkSession, *given: Any) -> DataFrame:
    rows = [(key, value, 0, number, time, headers) for number, (key, value, time, headers) in enumerate(given)]
    return spark.createDataFrame(rows, _EVENTS)


def token(root: Path, value: str) -> str:
    import pyarrow as pa

    return str(tokens_by(Path(land_key(root, KEY)), 9)(pa.array([value]))[0])


@pytest.mark.spark
def test_what_the_record_says_is_text_in_raw_and_the_value_cannot_forge_it(spark: SparkSession, tmp_path: Path) -> None:
    """The last header of a name counts; bytes that are no text are Base64; no time is null; a token hides a person."""
    forged = {**SOLD, "record key": "s-9", "record time": "2020-01-01T00:00:00Z"}
    given = [
        told(SOLD, b"s-1", SENT, ("till", b"1"), ("till", b"2"), ("household_id", b"7")),
        told(forged, None, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), ("till", None)),
        told(SOLD, b"\xff", SENT),
    ]
    rows = event_rows(SOURCE, "sales", events(spark, *given), land_key(tmp_path, KEY), TODAY)
    found = [tuple(row[name] for name in PARTS) for row in rows.orderBy("source_line").collect()]
    moment = "2026-03-02T10:00:00.123Z"
    assert found == [
        ("s-1", "2", token(tmp_path, "7"), moment),
        (None, None, None, None),
        ("base64: /w==", None, None, moment),
    ]
    (rescued,) = (json.loads(row["rescued"]) for row in rows.where("source_line = 1").collect())
    assert rescued == {"record key": "s-9", "record time": "2020-01-01T00:00:00Z"}


@pytest.mark.spark
def test_a_tombstone_deletes_the_key_that_its_record_has(spark: SparkSession, tmp_path: Path) -> None:
    tombs = deleted_keys(SOURCE, "sales", events(spark, told(None, b"s-1")), land_key(tmp_path, KEY), TODAY)
    assert [row["deleted key"] for row in tombs.collect()] == ['{"0":"s-1"}']


def test_rows_of_landed_files_have_no_record(tmp_path: Path) -> None:
    path = land(tmp_path, "sales", "2026-03-02", "a", [{**SOLD, "record key": "s-9", "till": "3", "household_id": "7"}])
    file = LandingFile(path, "sales/2026-03-02/a.jsonl.gz", date(2026, 3, 2), 1)
    with lines_query(SOURCE, land_key(tmp_path, KEY)).rows([file]) as batches:
        (row,) = (row for batch in batches for row in batch.to_pylist())
    assert [row[name] for name in PARTS] == [None] * 4
    assert json.loads(row["rescued"]) == {"record key": "s-9", "till": "3", "household_id": token(tmp_path, "7")}


@pytest.mark.spark
def test_a_stream_keeps_them_whoever_reads_the_event(spark: SparkSession, tmp_path: Path, kafka_broker: Broker) -> None:
    """Spark does; the client reads an event whose time Spark cannot, and its neighbours. What is rejected of it is sent
    to the declared topic, without the person's number.
    """
    rejected = kafka_broker.new_topic(1)
    topic = Topic(kafka_broker, kafka_broker.new_topic(1, message_timestamp_after_max_ms=str(2**63 - 1)), 1)
    headers: list[tuple[str, str | bytes | None]] = [("till", "4"), ("household_id", b"7"), ("other", None)]
    for number, unit in enumerate((1, 1_000_000)):
        topic.send([json.dumps(SOLD)], time=int(SENT.timestamp() * 1_000) * unit, key=f"s-{number}", headers=headers)
    topic.send([json.dumps(SOLD)], key="s-3", headers=[("till", "x"), ("household_id", b"7")])
    stream = SmallStream(spark, tmp_path, topic.source, catalog=catalog_of(rejected)).run(follow=True)
    *rows, broken = sorted(stream.raw(), key=lambda row: row["source_line"])
    assert [row["sale"] for row in rows] == ["s-0", "s-1"] and {row["till"] for row in rows} == {"4"}
    assert {row["sent_at"] for row in rows} == {"2026-03-02T10:00:00.123Z"}
    assert len({row["household"] for row in rows}) == 1 and len(rows[0]["household"]) == 64
    reader = Reader(spark, topic.source, {}, with_headers=True)
    by_spark = reader.read(OffsetRange(0, 0, 1))
    with errors_of_workers():
        again = event_rows(SOURCE, topic.name, by_spark, str(tmp_path / "token.key"), TODAY).collect()
    assert [row.asDict() for row in again] == rows[:1]
    (letter,) = messages_in(kafka_broker, rejected)
    assert letter.key() == f"{topic.name}/0/2".encode() and dict(letter.headers() or ())["publication"]
    told = json.loads(letter.value() or b"")
    assert told["reasons"] == ["till: 'x' is not a bigint"] and told["row"]["household"] == broken["household"]
    stream.run(follow=True)
    assert len(messages_in(kafka_broker, rejected)) == 1


def messages_in(broker: Broker, topic: str) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    while len(found) < broker.end_offsets(topic)[0]:
        found += [each for each in consumer.consume(10, 5.0) if not each.error()]
    consumer.close()
    return found
