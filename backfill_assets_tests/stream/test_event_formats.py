"""Values of a topic's events, decoded: each kind of value has the text that raw keeps of it, and each that cannot be
decoded has a reason."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, timestamp_pb2

from backfill_assets.errors import InvalidRequest, SourceAway, SourceUnreadable
from backfill_assets.landing.odd_lines import as_plain_object
from backfill_assets.stream.avro_events import Avro, has_one_encoding
from backfill_assets.stream.decoded_events import InJson, Undecodable, each_value
from backfill_assets.stream.event_texts import object_text
from backfill_assets.stream.protobuf_events import Protobuf, message_text
from backfill_assets.stream.registry_events import Registry, registry_decoder, settings_in
from backfill_assets_tests.stream.registry import FakeRegistry, fake_registry

AT = datetime(2017, 3, 1, 10, 0, 0, 123456, tzinfo=UTC)
RECORD = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "sold_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "weight", "type": ["null", "double"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
SOLD = {"id": 7, "sold_at": AT, "price": Decimal("12.30"), "weight": None, "tags": ["a", "ä"]}
AS_TEXTS = {
    "id": "7",
    "sold_at": "2017-03-01T10:00:00.123456Z",
    "price": "12.30",
    "weight": None,
    "tags": '["a","ä"]',
}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", ""),
        (True, "true"),
        (-7, "-7"),
        (1.0, "1.0"),
        (1e40, "1.0E40"),
        (float("-inf"), "-Infinity"),
        (Decimal("0E-8"), "0.00000000"),
        (AT, "2017-03-01T10:00:00.123456Z"),
        (datetime(2017, 3, 1, 10, 0, 0, 500_000), "2017-03-01T10:00:00.5"),  # noqa: DTZ001
        (date(2017, 3, 1), "2017-03-01"),
        (b"ana", "ana"),
        (b"\xff", "base64: /w=="),
        ({"a": [1, None, 0.5, "x", float("nan")], "b": {"c": False}}, '{"a":[1,null,0.5,"x","NaN"],"b":{"c":false}}'),
    ],
)
def test_a_value_has_the_text_that_it_has_in_parquet(value: Any, text: str | None) -> None:
    """The object is a plain one, so that raw reads it the fast way."""
    written = object_text({"it": value})
    assert json.loads(written) == {"it": text} == json.loads(as_plain_object(written) or "")


# ------------------------------------------------------------------ what cannot be decoded


def read_by(decode: Callable[[bytes], str], values: list[bytes | None], *, with_bytes: bool = True) -> list[Any]:
    batch = pa.record_batch({"value": pa.array(values, pa.binary()), "offset": pa.array(range(len(values)))})
    (found,) = InJson(lambda: each_value(decode), with_bytes)(iter([batch]))
    assert found.schema.names == ["value", "offset"] and found.column("offset").equals(batch.column("offset"))
    return [value and json.loads(value) for value in found.column("value").to_pylist()]


def refuses_odd(value: bytes) -> str:
    if len(value) % 2:
        raise Undecodable("it is odd")
    return json.dumps({"text": value.decode()})


def test_an_event_that_cannot_be_decoded_says_why_and_others_go_on() -> None:
    """With its bytes if they are of nobody. What is set apart already is left as it is."""
    apart = b'{"unreadable": "CorruptRecordException"}'
    values = [b"ab", b"abc", None, apart, b'{"unreadable": "ab", "x": "y"}']
    assert read_by(refuses_odd, values) == [
        {"text": "ab"},
        {"unreadable": "it is odd", "value": base64.b64encode(b"abc").decode()},
        None,
        {"unreadable": "CorruptRecordException"},
        {"text": values[4].decode()},  # type: ignore[union-attr]
    ]
    assert read_by(refuses_odd, [b"abc"], with_bytes=False) == [{"unreadable": "it is odd"}]


# ------------------------------------------------------------------ what is declared


def test_avro_is_declared_by_the_text_or_the_path_of_a_record(tmp_path: Path) -> None:
    path = tmp_path / "sale.avsc"
    path.write_text(json.dumps(RECORD, indent=2))
    assert Avro(path).text == Avro(json.dumps(RECORD)).text and Avro(path).fields[:2] == ["id", "sold_at"]
    for wrong in ("{", '"long"', '{"type": "record", "name": "x", "fields": []}', tmp_path / "absent"):
        with pytest.raises(InvalidRequest, match="Avro is declared wrong"):
            Avro(wrong)


def test_bytes_behind_a_record_are_looked_for_where_a_value_has_one_encoding() -> None:
    assert not has_one_encoding(RECORD)
    fields: Any = RECORD["fields"]
    assert has_one_encoding({"type": "record", "fields": [*fields[:2], fields[3]]})
    within = {"type": "record", "fields": [{"name": "x", "type": ["null", {"type": "map", "values": "long"}]}]}
    assert not has_one_encoding({"type": "record", "fields": [{"name": "y", "type": within}]})


# ------------------------------------------------------------------ Protobuf


def sale_file() -> descriptor_pb2.FileDescriptorProto:
    """As ``protoc`` describes it: a message of a number, a moment, a name that may be absent, bytes and parts."""
    file = descriptor_pb2.FileDescriptorProto(name="sale.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message, one, many = file.message_type.add(name="Sale"), 1, 3
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, (name, kind, label, of) in enumerate(
        [
            ("id", kinds.TYPE_INT64, one, ""),
            ("sold_at", kinds.TYPE_MESSAGE, one, ".google.protobuf.Timestamp"),
            ("name", kinds.TYPE_STRING, one, ""),
            ("raw", kinds.TYPE_BYTES, one, ""),
            ("weight", kinds.TYPE_FLOAT, one, ""),
            ("parts", kinds.TYPE_MESSAGE, many, ".shop.Sale"),
            ("state", kinds.TYPE_ENUM, one, ".shop.State"),
        ],
        start=1,
    ):
        added = message.field.add(name=name, number=number, type=kind, label=label, type_name=of or None)
        if name == "name":
            message.oneof_decl.add(name="_name")
            added.proto3_optional, added.oneof_index = True, 0
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    return file


@pytest.fixture
def descriptor(tmp_path: Path) -> Path:
    time = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    path = tmp_path / "sale.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[time, sale_file()]).SerializeToString())
    return path


def message_of(descriptor: Path, **values: Any) -> Any:
    message = Protobuf(descriptor=descriptor, message="shop.Sale").message_class()(**values)
    message.sold_at.FromDatetime(AT)
    return message


def test_a_message_is_read_with_its_defaults_and_with_what_its_descriptor_lacks(descriptor: Path) -> None:
    of = Protobuf(descriptor=descriptor, message="shop.Sale").message_class()
    message = message_of(descriptor, id=7, weight=0.1, state=1, raw=b"\xff", parts=[{"id": 8, "name": ""}])
    found = json.loads(message_text(of, message.SerializeToString() + b"\x48\x05" + b"\x52\x01x"))
    assert (found["id"], found["sold_at"], found["name"]) == ("7", "2017-03-01T10:00:00.123456Z", None)
    assert (found["weight"], found["state"], found["raw"]) == ("0.1", "PAID", "base64: /w==")
    assert json.loads(found["unknown fields"]) == {"9": 5, "10": "x"}
    (part,) = json.loads(found["parts"])
    assert part == {"id": 8, "sold_at": None, "name": "", "raw": "", "weight": 0.0, "parts": [], "state": "NEW"}
    for wrong in (b"\x0a\xff", b"{"):
        with pytest.raises(Undecodable, match=r"no Protobuf of the message shop\.Sale"):
            message_text(of, wrong)


def test_protobuf_is_declared_by_a_whole_descriptor_and_one_of_its_messages(descriptor: Path) -> None:
    alone = descriptor.with_name("alone.desc")
    alone.write_bytes(descriptor_pb2.FileDescriptorSet(file=[sale_file()]).SerializeToString())
    for path, message, why in (
        (descriptor, "Sale", "has no message 'Sale'"),
        (alone, "shop.Sale", "all that it imports"),
        (descriptor.with_name("absent"), "shop.Sale", "cannot be read"),
    ):
        with pytest.raises(InvalidRequest, match=why):
            Protobuf(descriptor=path, message=message).message_class()


# ------------------------------------------------------------------ a registry


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        yield registry


VALUE = SerializationContext("sales", MessageField.VALUE)
BY_TOPIC = {"subject.name.strategy.type": "TOPIC"}


def decoder(registry: FakeRegistry) -> Callable[[bytes], str]:
    return registry_decoder({"url": registry.url, "max.retries": 0})


def test_each_event_is_decoded_by_the_schema_that_wrote_it(registry: FakeRegistry, descriptor: Path) -> None:
    """Asked for once. A message may be any of its file; JSON stays as it was written."""
    client = SchemaRegistryClient({"url": registry.url})
    avro = AvroSerializer(client, json.dumps(RECORD), conf=BY_TOPIC)(SOLD, VALUE)
    message = message_of(descriptor, id=7)
    proto = ProtobufSerializer(type(message), client, BY_TOPIC)(message, VALUE)
    schema = {"title": "sale", "type": "object", "properties": {"id": {"type": "number"}}}
    of_json = JSONSerializer(json.dumps(schema), client, conf=BY_TOPIC)({"id": 1.5}, VALUE)
    registry.asked.clear()
    decode = decoder(registry)
    for _ in range(2):
        assert json.loads(decode(avro)) == AS_TEXTS
        assert json.loads(decode(proto)) == json.loads(message_text(type(message), message.SerializeToString()))
        assert json.loads(decode(of_json)) == {"id": 1.5}
    assert json.loads(decoder(registry)(avro)) == AS_TEXTS, "another batch of the worker"
    assert len([each for each in registry.asked if each.startswith("/schemas/")]) == 4, "Protobuf's in both forms"


def test_an_unknown_schema_is_an_error_of_its_event(registry: FakeRegistry) -> None:
    """As is a value without a frame, or one that its schema does not fit."""
    client = SchemaRegistryClient({"url": registry.url})
    sound = AvroSerializer(client, json.dumps(RECORD), conf=BY_TOPIC)(SOLD, VALUE)
    unknown = b"\x00\x00\x00\x00\x63" + sound[5:]
    read = read_by(decoder(registry), [sound, unknown, b"{}", sound[:9], sound, unknown])
    assert [each.get("unreadable", "") for each in read] == [
        "",
        "the registry has no schema 99",
        "it has no schema's id of a registry in front",
        "it cannot be decoded by its schema 1 (IndexError)",
        "",
        "the registry has no schema 99",
    ]
    assert [each.rpartition("/")[2] for each in registry.asked].count("99") == 1, "once a batch"


@pytest.mark.parametrize(("status", "kind"), [(503, SourceAway), (429, SourceAway), (401, SourceUnreadable)])
def test_a_registry_that_gives_no_answer_stops_the_batch(
    registry: FakeRegistry, status: int, kind: type[Exception]
) -> None:
    """No event is to blame: one that is away is waited for, one that refuses is told."""
    registry.status = status
    with pytest.raises(SourceUnreadable) as stopped:
        decoder(registry)(b"\x00\x00\x00\x00\x01x")
    assert type(stopped.value) is kind and registry.url.removeprefix("http://") in stopped.value.message


def test_a_registry_that_is_nowhere_is_away() -> None:
    with pytest.raises(SourceAway, match=r"registry at 127\.0\.0\.1:1 does not answer") as away:
        registry_decoder({"url": "http://ana:s3cret@127.0.0.1:1", "max.retries": 0})(b"\x00\x00\x00\x00\x01x")
    assert "s3cret" not in str(away.value)


def test_the_registry_is_named_in_the_file_of_properties_and_no_secret_in_a_message(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("security.protocol=SSL\nschema.registry.basic.auth.user.info=ana:s3cret\n")
    with pytest.raises(InvalidRequest, match=r"schema\.registry\.url"):
        settings_in(str(file))
    file.write_text(f"{file.read_text()}schema.registry.url=http://there:8081\nschema.registry.colour=s3cret\n")
    assert settings_in(str(file)) == {
        "timeout": 15,
        "max.retries": 1,
        "basic.auth.user.info": "ana:s3cret",
        "url": "http://there:8081",
        "colour": "s3cret",
    }
    with pytest.raises(InvalidRequest, match=r"schema\.registry\.colour") as refused:
        registry_decoder(settings_in(str(file)))
    assert "s3cret" not in str(refused.value)
    assert hash(Registry()) == hash(Registry())
