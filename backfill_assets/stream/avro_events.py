"""Events in Avro of one schema, decoded by Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from backfill_assets.errors import InvalidRequest
from backfill_assets.stream.decoded_events import VALUE, InJson, Undecodable, in_workers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_READ, _WHY = "as Spark read it", "why it is unreadable"
_NO_AVRO = "it is no Avro of the declared schema"
_LONGER = "it has more bytes than the declared schema reads"


@dataclass(frozen=True)
class Avro:
    """Each value is a record of ``schema``, the text or the path of one, in binary encoding without a frame. Values
    with a schema's id in front are for :class:`Registry`.
    """

    schema: Path | str
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        text = _text_of(self.schema)
        try:
            record = json.loads(text)
        except ValueError as error:
            raise _wrong(f"its schema is no JSON ({error})") from error
        if not (isinstance(record, dict) and record.get("type") == "record" and record.get("fields")):
            raise _wrong("its schema is no record with fields")
        object.__setattr__(self, "text", json.dumps(record))

    @property
    def fields(self) -> Sequence[str]:
        return [each["name"] for each in json.loads(self.text)["fields"]]

    def in_json(self, events: DataFrame, *, with_bytes: bool) -> DataFrame:
        from pyspark.sql.avro.functions import from_avro

        read = events.withColumn(_READ, from_avro(VALUE, self.text, {"mode": "PERMISSIVE"}))
        told = read.withColumn(_WHY, self._why(read))
        return in_workers(told, InJson(lambda: _texts, with_bytes), beside=(_READ, _WHY))

    def _why(self, read: DataFrame) -> Column:
        """Spark makes a record without any value of what it cannot decode, and ignores bytes behind a record: those
        of a field more would be lost. Values of one encoding are written again and compared.
        """
        from pyspark.sql import functions as F
        from pyspark.sql.avro.functions import to_avro

        nothing = reduce(and_, (read[_READ].getField(name).isNull() for name in self.fields))
        why = F.when(nothing, _NO_AVRO)
        if not has_one_encoding(json.loads(self.text)):
            return why
        return why.when(F.length(to_avro(read[_READ], self.text)) < F.length(VALUE), _LONGER)


def has_one_encoding(schema: Any) -> bool:
    """Lists and maps may be cut into blocks, and decimals of bytes be padded, as a writer likes."""
    if isinstance(schema, list):
        return all(map(has_one_encoding, schema))
    if not isinstance(schema, dict):
        return schema not in ("array", "map")
    if schema["type"] in ("array", "map") or (schema["type"] == "bytes" and "logicalType" in schema):
        return False
    return all(has_one_encoding(each["type"]) for each in schema.get("fields", ())) and (
        isinstance(schema["type"], str) or has_one_encoding(schema["type"])
    )


def _texts(batch: pa.RecordBatch) -> list[str | Undecodable]:
    why = batch.column(_WHY).to_pylist()
    return [Undecodable(each) if each else text for each, text in zip(why, _objects(batch), strict=True)]


def _objects(batch: pa.RecordBatch) -> Iterator[str]:
    from backfill_assets.judge.engine import database
    from backfill_assets.landing.parquet_texts import register_texts, text_of

    with database(threads=1) as connection:
        register_texts(connection)
        connection.register("events", pa.Table.from_arrays([batch.column(_READ)], ["event"]))
        (kind,) = connection.sql("FROM events").types
        parts = [(name, each) for name, each in kind.children]
        texts = [text_of(f"struct_extract_at(event, {at})", each, "") for at, (_, each) in enumerate(parts, start=1)]  # type: ignore[arg-type]
        rows = connection.execute(f"SELECT {', '.join(texts)} FROM events").fetchall()  # noqa: S608
    names = [name for name, _ in parts]
    return (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows)


def _text_of(schema: Path | str) -> str:
    try:
        return schema.read_text() if isinstance(schema, Path) else schema
    except OSError as error:
        raise _wrong(f"{schema} cannot be read ({error.strerror})") from error


def _wrong(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"Avro is declared wrong: {what}.", hint='Give its text, or Path(__file__).with_name("sale.avsc").'
    )
