"""A topic of each encoding, from its bytes to bronze; what cannot be decoded is quarantined with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from fastavro import parse_schema, schemaless_writer
from google.protobuf import descriptor_pb2
from pyspark.sql import types as T

from backfill_assets.errors import SourceAway
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.rebuild.lake import Lake
from backfill_assets.state.view import View
from backfill_assets.stream import live
from backfill_assets.stream.avro_events import Avro
from backfill_assets.stream.protobuf_events import Protobuf
from backfill_assets.stream.registry_events import Registry
from backfill_assets_tests.stream.registry import fake_registry
from backfill_assets_tests.stream.small_stream import SmallStream, Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_assets.model.event_format import EventFormat
    from backfill_assets_tests.stream.broker import Broker

pytestmark = pytest.mark.spark

AT = datetime(2026, 3, 2, 10, 0, 0, 123456, tzinfo=UTC)
SCHEMA = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "sold_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "fixed", "name": "Money", "size": 8, "logicalType": "decimal"}},
        {"name": "weight", "type": ["null", "double"], "default": None},
        {"name": "buyer", "type": {"type": "record", "name": "Buyer", "fields": [{"name": "age", "type": "int"}]}},
        {"name": "email", "type": ["null", "string"], "default": None},
    ],
}
SCHEMA["fields"][2]["type"] |= {"precision": 9, "scale": 2}  # type: ignore[index]
TEXTS = {"id": "7", "sold_at": "2026-03-02T10:00:00.123456Z", "price": "12.30", "weight": "1.0E40"}


class Sale(Contract):
    """A sound sale."""

    id: int = Field(key=True, description="Of the sale.")
    sold_at: datetime = Field(event_day=True, version=True, description="When.")
    price: Annotated[T.DecimalType, 9, 2] = Field(description="In euros.")
    weight: float = Field(nullable=True, description="In kilos.")


def catalog(events: EventFormat | None) -> Catalog:
    """The buyer is not declared: raw keeps it as text."""
    shop = LandedDataset(
        name="shop",
        description="Sales of a shop.",
        owners=("team:shop",),
        first_day=date(2026, 1, 1),
        rows="sales",
        most_rows=1_000,
        tolerated_rejects=5,
        events=events,
    )
    shop.row("v1", "Sales.")(Sale)
    return Catalog.of([shop])


@dataclass
class EncodedStream(SmallStream):
    events: EventFormat | None = None

    @property
    def lake(self) -> Lake:
        return replace(super().lake, catalog=catalog(self.events))

    def read_all(self, topic: Topic, values: Iterable[bytes]) -> EncodedStream:
        topic.send(values, partition=0)
        self.run(table="raw_shop", follow=True)
        return self

    def rows_of(self, table: str) -> list[dict[str, Any]]:
        rows = View.newest(self.storage).rows(table)
        assert rows is not None
        return sorted(rows.to_pylist(), key=lambda row: row["source_line"])


@pytest.fixture
def topic(kafka_broker: Broker) -> Topic:
    return Topic.new(kafka_broker, 1)


def sale(**changes: Any) -> dict[str, Any]:
    sold = {"id": 7, "sold_at": AT, "price": Decimal("12.30"), "weight": 1e40, "buyer": {"age": 30}, "email": "a@b.c"}
    return sold | changes


def in_avro(schema: Any, value: dict[str, Any]) -> bytes:
    into = BytesIO()
    schemaless_writer(into, parse_schema(schema), value)
    return into.getvalue()


def require_decoded(stream: EncodedStream, topic: Topic, reasons: list[str], **texts: Any) -> None:
    """The first event is sound, in raw and in bronze; each other one is quarantined at its offset, for its reason."""
    first, *others = stream.rows_of("raw_shop")
    expected = {**TEXTS, **texts}
    assert {name: first[name] for name in expected} == expected
    assert json.loads(json.loads(first["rescued"])["buyer"]) == {"age": 30}
    (sound,) = stream.rows_of("bronze_shop")
    assert (sound["id"], sound["sold_at"], sound["price"]) == (7, AT, Decimal("12.30"))
    rejected = stream.rows_of("quarantine_shop")
    assert [row["reasons"] for row in rejected] == [[f"event: {reason}"] for reason in reasons]
    assert [(row["source_file"], row["source_line"]) for row in rejected] == [
        (f"kafka:{topic.name}/0", offset) for offset in range(1, 1 + len(reasons))
    ]
    assert len(others) == len(reasons)


def test_a_topic_in_avro(spark: SparkSession, tmp_path: Path, topic: Topic) -> None:
    """A record with a field more than the schema has is no prefix of it; nor is one with an id in front."""
    stream = EncodedStream(spark, tmp_path, topic.source, events=Avro(json.dumps(SCHEMA)))
    sound = in_avro(SCHEMA, sale())
    more = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "till", "type": "string"}]}
    no_avro, longer = "it is no Avro of the declared schema", "it has more bytes than the declared schema reads"
    stream.read_all(topic, [sound, b"\xff", in_avro(more, sale(till="9")), b""])
    require_decoded(stream, topic, [no_avro, longer, no_avro])


def test_a_topic_in_protobuf(spark: SparkSession, tmp_path: Path, topic: Topic) -> None:
    """Money is text there."""
    file = descriptor_pb2.FileDescriptorProto(name="sale.proto", package="shop", syntax="proto3")
    kinds, message, buyer = (
        descriptor_pb2.FieldDescriptorProto,
        *(file.message_type.add(name=n) for n in ("Sale", "Buyer")),
    )
    buyer.field.add(name="age", number=1, type=kinds.TYPE_INT32, label=1)
    for number, (name, kind) in enumerate(
        [("id", "INT64"), ("sold_at", "STRING"), ("price", "STRING"), ("weight", "DOUBLE"), ("buyer", "MESSAGE")], 1
    ):
        of = ".shop.Buyer" if kind == "MESSAGE" else None
        message.field.add(name=name, number=number, type=getattr(kinds, f"TYPE_{kind}"), label=1, type_name=of)
    path = tmp_path / "sale.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    events = Protobuf(descriptor=path, message="shop.Sale")
    values = {name: sale()[name] for name in ("id", "weight", "buyer")}
    sound = events.message_class()(**values, sold_at="2026-03-02T12:00:00.123456789+02:00", price="12.30")
    stream = EncodedStream(spark, tmp_path, topic.source, events=events)
    stream.read_all(topic, [sound.SerializeToString(), b"\xff"])
    reason = "it is no Protobuf of the message shop.Sale"
    require_decoded(stream, topic, [reason], sold_at="2026-03-02T12:00:00.123456789+02:00")


def test_a_topic_whose_events_name_a_schema_of_a_registry(
    spark: SparkSession, tmp_path: Path, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that is away is waited for, and nothing of the batch is published; its secrets are in no plan."""
    file = tmp_path / "kafka.properties"
    monkeypatch.setenv("BACKFILL_KAFKA_PROPERTIES", str(file))
    stream = EncodedStream(spark, tmp_path, topic.source, events=Registry())
    with fake_registry() as registry:
        file.write_text(f"schema.registry.url={registry.url}\nschema.registry.max.retries=0\n")
        client = SchemaRegistryClient({"url": registry.url})
        conf = {"subject.name.strategy.type": "TOPIC"}
        write = AvroSerializer(client, json.dumps(SCHEMA), conf=conf)
        sound = write(sale(), SerializationContext(topic.name, MessageField.VALUE))
        registry.status = 503
        monkeypatch.setattr(live, "_PATIENCE_SECONDS", 0)
        with pytest.raises(SourceAway, match="schema registry at 127"):
            stream.read_all(topic, [sound, b"\x00\x00\x00\x00\x63x"])
        assert View.newest(stream.storage).rows("raw_shop") is None or not stream.rows_of("raw_shop")
        registry.status = 0
        stream.read_all(topic, [])
    require_decoded(stream, topic, ["the registry has no schema 99"])


def test_a_topic_in_json_with_values_as_they_are(spark: SparkSession, tmp_path: Path, topic: Topic) -> None:
    """Numbers, truth, nothing, parts and a moment of nanoseconds with an offset."""
    sold_at = "2026-03-02T12:00:00.123456789+02:00"
    line = f'{{"id": 7, "sold_at": "{sold_at}", "price": 12.30, "weight": null, "buyer": {{"age": 30}}, "ok": true}}'
    stream = EncodedStream(spark, tmp_path, topic.source)
    stream.read_all(topic, [line.encode()])
    require_decoded(stream, topic, [], sold_at=sold_at, price="12.3", weight=None)
    assert json.loads(stream.rows_of("raw_shop")[0]["rescued"]) == {"buyer": '{"age":30}', "ok": "true"}
