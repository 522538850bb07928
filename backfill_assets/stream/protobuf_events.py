"""Events in Protobuf of one message, decoded by Google's library: there is no JAR of Spark's for each release."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.errors import InvalidRequest
from backfill_assets.stream.decoded_events import InJson, Read, Undecodable, each_value, in_workers
from backfill_assets.stream.event_texts import object_text

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from pyspark.sql import DataFrame

UNKNOWN = "unknown fields"
"""By their numbers. A name with a space is none of a field."""
_AT = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Protobuf:
    """Each value is a ``message``, by its full name, without a frame. ``descriptor`` is what ``protoc
    --include_imports --descriptor_set_out`` writes. Values with a schema's id in front are for :class:`Registry`.

    A field without a value is null if its absence can be told, else its default. Fields that the descriptor lacks are
    kept by number.
    """

    descriptor: Path
    message: str
    files: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "files", self.descriptor.read_bytes())
        except OSError as error:
            raise _wrong(f"{self.descriptor} cannot be read ({error.strerror})") from error

    def in_json(self, events: DataFrame, *, with_bytes: bool) -> DataFrame:
        self.message_class()  # A wrong one ends the stream here.
        return in_workers(events, InJson(self._reader, with_bytes))

    def _reader(self) -> Read:
        of = self.message_class()
        return each_value(lambda value: message_text(of, value))

    def message_class(self) -> type[Message]:
        """Raises :class:`InvalidRequest`."""
        from google.protobuf import descriptor_pb2, message_factory
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message import DecodeError

        pool = DescriptorPool()
        try:
            for file in descriptor_pb2.FileDescriptorSet.FromString(self.files).file:
                pool.Add(file)
            found: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName(self.message))
        except KeyError as error:
            raise _wrong(f"{self.descriptor} has no message {self.message!r}") from error
        except (DecodeError, TypeError) as error:
            raise _wrong(f"{self.descriptor} is no set of descriptors with all that it imports") from error
        return found


def message_text(of: type[Message], value: bytes) -> str:
    """Raises :class:`Undecodable`."""
    from google.protobuf.message import DecodeError

    try:
        message = of.FromString(value)
    except (DecodeError, UnicodeDecodeError) as error:
        raise Undecodable(f"it is no Protobuf of the message {of.DESCRIPTOR.full_name}") from error
    return object_text(_fields(message))


def _fields(message: Message) -> dict[str, Any]:
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = {each.name: _value_of(message, each) for each in message.DESCRIPTOR.fields}
    found |= {f"[{each.full_name}]": _value(value, each) for each, value in message.ListFields() if each.is_extension}
    unknown = UnknownFieldSet(message)
    return {**found, **({UNKNOWN: _by_number(unknown)} if len(unknown) else {})}


def _value_of(message: Message, of: Any) -> Any:
    if of.has_presence and not message.HasField(of.name):
        return None
    return _value(getattr(message, of.name), of)


def _value(value: Any, of: Any) -> Any:
    if of.message_type is not None and of.message_type.GetOptions().map_entry:
        item = of.message_type.fields_by_name["value"]
        return {_name(key): _single(value[key], item) for key in sorted(value)}
    return [_single(each, of) for each in value] if of.is_repeated else _single(value, of)


def _single(value: Any, of: Any) -> Any:
    if of.message_type is not None:
        return _message(value)
    if of.enum_type is not None:
        known = of.enum_type.values_by_number.get(value)
        return known.name if known else value
    return _of_32_bits(value) if of.type == of.TYPE_FLOAT else value


def _message(value: Message) -> Any:
    from google.protobuf import json_format

    name = value.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        return _moment(value)
    if name.startswith("google.protobuf."):
        return json_format.MessageToDict(value)
    return _fields(value)


def _moment(value: Any) -> datetime | str:
    try:
        return _AT + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        return f"{value.seconds} seconds"


def _of_32_bits(value: float) -> float:
    """The fewest digits that give it again."""
    import numpy as np

    return float(str(np.float32(value))) if math.isfinite(value) else value


def _name(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _by_number(unknown: Any) -> Mapping[str, Any]:
    found: dict[str, list[Any]] = {}
    for number, value in _numbered(unknown):
        found.setdefault(str(number), []).append(value)
    return {number: values[0] if len(values) == 1 else values for number, values in found.items()}


def _numbered(unknown: Any) -> Iterator[tuple[int, Any]]:
    for each in unknown:
        yield each.field_number, each.data if isinstance(each.data, int | bytes) else _by_number(each.data)


def _wrong(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"Protobuf is declared wrong: {what}.",
        hint="Write it with protoc --include_imports --descriptor_set_out=FILE, and name the message with its package.",
    )
