"""Events that name their schema in a registry, decoded by its own client: an extra, loaded in workers alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from backfill_assets.errors import BackfillError, InvalidRequest, SourceAway, SourceUnreadable
from backfill_assets.stream.decoded_events import InJson, Read, Undecodable, each_value, in_workers
from backfill_assets.stream.event_texts import object_text

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from google.protobuf.descriptor_pool import DescriptorPool
    from pyspark.sql import DataFrame

OF_REGISTRY = "schema.registry."
"""Begins those names in the file of Kafka's properties that are the registry's."""
_PROPERTIES = "BACKFILL_KAFKA_PROPERTIES"
_FRAME = 5
_UNKNOWN_SCHEMA = 40403
_TRY_LATER = (408, 429)
_SERIALIZED = "serialized"


@dataclass(frozen=True)
class Registry:
    """A value has a magic byte and its schema's id in front: Avro, Protobuf or JSON, each decoded by the schema that
    wrote it. The file that ``BACKFILL_KAFKA_PROPERTIES`` names says where the registry is (``schema.registry.url``),
    and as whom to ask (``schema.registry.basic.auth.user.info``): workers read it.
    """

    def in_json(self, events: DataFrame, *, with_bytes: bool) -> DataFrame:
        if find_spec("fastavro") is None:
            hint = "Install it: pip install 'backfill-assets[registry]'"
            raise InvalidRequest("The client of a schema registry is not installed.", hint=hint)
        file = os.environ.get(_PROPERTIES, "").strip()
        settings_in(file)  # Wrong ones end the stream here.
        return in_workers(events, InJson(lambda: _reader(file), with_bytes))


def settings_in(file: str) -> dict[str, Any]:
    """The client's settings. Raises :class:`InvalidRequest`, without a value of the file."""
    from backfill_assets.stream.broker import read_properties

    try:
        properties = read_properties(Path(file).read_text()) if file else {}
    except OSError as error:
        raise InvalidRequest(f"{_PROPERTIES} names {file}: {error.strerror}.") from error
    asked = {
        name.removeprefix(OF_REGISTRY): int(text) if text.isdigit() else text
        for name, text in properties.items()
        if name.startswith(OF_REGISTRY)
    }
    if not asked.get("url"):
        hint = f"Write {OF_REGISTRY}url=https://HOST:PORT into the file that {_PROPERTIES} names."
        raise InvalidRequest("Nothing says where the schema registry is.", hint=hint)
    return {"timeout": 15, "max.retries": 1, **asked}


def _reader(file: str) -> Read:
    return each_value(registry_decoder(settings_in(file)))


def registry_decoder(settings: Mapping[str, Any]) -> Callable[[bytes], str]:
    """Raises :class:`Undecodable` of a value, :class:`SourceAway` and :class:`SourceUnreadable` of the registry."""
    asked = tuple(sorted(settings.items()))
    return _Decoder(_client(asked), _client(asked, _SERIALIZED), _place(str(settings["url"]))).text


@cache
def _client(settings: tuple[tuple[str, Any], ...], form: str = "") -> SchemaRegistryClient:
    """One a worker and form of schemas: it keeps what it was given, in whichever form."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    try:
        return SchemaRegistryClient(dict(settings))
    except (ValueError, TypeError, OSError) as error:
        names = ", ".join(OF_REGISTRY + name for name, _ in settings)
        raise InvalidRequest(
            f"The client of the schema registry takes no such settings ({type(error).__name__}).",
            hint=f"Correct these in the file that {_PROPERTIES} names: {names}.",
        ) from None


def _place(url: str) -> str:
    """Without user and password."""
    parts = urlsplit(url.partition(",")[0])
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


@dataclass
class _Decoder:
    client: SchemaRegistryClient
    serialized: SchemaRegistryClient
    place: str
    by_schema: dict[int, Callable[[bytes], str] | Undecodable] = field(default_factory=dict)
    """Of a schema that is not there, why: until the next batch."""

    def text(self, value: bytes) -> str:
        if len(value) <= _FRAME or value[0] != 0:
            raise Undecodable("it has no schema's id of a registry in front")
        number = int.from_bytes(value[1:_FRAME], "big")
        try:
            return self._of_schema(number)(value)
        except (BackfillError, Undecodable):
            raise
        except Exception as error:
            # A schema may refer to others, which are asked for here.
            raise self._of_registry(error) or Undecodable(
                f"it cannot be decoded by its schema {number} ({type(error).__name__})"
            ) from error

    def _of_schema(self, number: int) -> Callable[[bytes], str]:
        if number not in self.by_schema:
            self.by_schema[number] = self._asked(number)
        found = self.by_schema[number]
        if isinstance(found, Undecodable):
            raise found
        return found

    def _asked(self, number: int) -> Callable[[bytes], str] | Undecodable:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            schema = self.client.get_schema(number)
        except SchemaRegistryError as error:
            if error.error_code == _UNKNOWN_SCHEMA:
                return Undecodable(f"the registry has no schema {number}")
            raise self._of_registry(error) or error from error
        if schema.schema_type == "PROTOBUF":
            return self._protobuf(number)
        return _json if schema.schema_type == "JSON" else self._avro()

    def _avro(self) -> Callable[[bytes], str]:
        from confluent_kafka.schema_registry.avro import AvroDeserializer

        read = AvroDeserializer(self.client)

        def text(value: bytes) -> str:
            record = read(value)
            if not isinstance(record, dict):
                raise Undecodable("it is no record of Avro")
            return object_text(record)

        return text

    def _protobuf(self, number: int) -> Callable[[bytes], str]:
        from confluent_kafka.schema_registry import prefix_schema_id_deserializer
        from confluent_kafka.schema_registry.serde import SchemaId

        from backfill_assets.stream.protobuf_events import message_text

        classes = _Messages(self.serialized, number)

        def text(value: bytes) -> str:
            frame = SchemaId("PROTOBUF")
            message = prefix_schema_id_deserializer(value, None, frame)
            return message_text(classes.at(tuple(frame.message_indexes or (0,))), message.read())

        return text

    def _of_registry(self, error: Exception) -> BackfillError | None:
        from confluent_kafka.schema_registry import SchemaRegistryError
        from confluent_kafka.schema_registry.common._httpx_compat import httpx

        status = error.http_status_code if isinstance(error, SchemaRegistryError) else None
        if isinstance(error, httpx.TransportError) or (status and (status in _TRY_LATER or status >= 500)):
            return SourceAway(
                f"The schema registry at {self.place} does not answer.",
                hint="Nothing is lost: events are read when it answers. Check the address, and that it runs.",
            )
        if status is None:
            return None
        return SourceUnreadable(
            f"The schema registry at {self.place} refuses to give a schema (HTTP {status}).",
            hint=f"Correct {OF_REGISTRY}url or {OF_REGISTRY}basic.auth.user.info in the file that {_PROPERTIES} names.",
        )


def _json(value: bytes) -> str:
    """As it was written: no digit is lost."""
    try:
        return value[_FRAME:].decode()
    except UnicodeDecodeError as error:
        raise Undecodable("it is no UTF-8") from error


# ------------------------------------------------------------------ messages of a registry's schema


@dataclass
class _Messages:
    """Classes of a schema's messages, by their place in it; with what it imports."""

    client: SchemaRegistryClient
    number: int
    pool: DescriptorPool = field(init=False)
    classes: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from google.protobuf import descriptor_pool

        self.pool = descriptor_pool.DescriptorPool()
        schema = self.client.get_schema(self.number, fmt=_SERIALIZED)
        self.file = self._with_imports(f"schema {self.number}", schema)

    def at(self, place: tuple[int, ...]) -> Any:
        from google.protobuf import message_factory

        if place not in self.classes:
            first, *within = place
            found = list(self.pool.FindFileByName(self.file).message_types_by_name.values())[first]
            for each in within:
                found = found.nested_types[each]
            self.classes[place] = message_factory.GetMessageClass(found)
        return self.classes[place]

    def _with_imports(self, name: str, schema: Schema) -> str:
        import base64

        from google.protobuf import descriptor_pb2

        for each in schema.references or ():
            asked = self.client.get_version(str(each.subject), each.version or "latest", fmt=_SERIALIZED)
            self._with_imports(str(each.name), asked.schema)
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(str(schema.schema_str)))
        file.name = name
        for known in file.dependency:
            self._add_of_google(known)
        self.pool.Add(file)
        return name

    def _add_of_google(self, name: str) -> None:
        """What comes with Protobuf is in no registry."""
        from google.protobuf import (  # noqa: F401
            any_pb2,
            descriptor_pool,
            duration_pb2,
            struct_pb2,
            timestamp_pb2,
            wrappers_pb2,
        )

        if name.startswith("google/protobuf/"):
            known = descriptor_pool.Default().FindFileByName(name)
            self.pool.AddSerializedFile(known.serialized_pb)
