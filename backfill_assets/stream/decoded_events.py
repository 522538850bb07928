"""Events decoded in Spark's workers: each value becomes the text of a JSON object, or says why it cannot."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from backfill_assets.model.bronze_query import UNREADABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUE = "value"
_SET_APART = re.compile(rb'\{"unreadable": "[^"\\]*"\}')
"""What ``events`` has put in the place of a value."""


class Undecodable(Exception):
    """Why a value cannot be decoded, without a part of it."""


Read = Callable[[pa.RecordBatch], Sequence["str | Undecodable"]]
"""A text or a reason for each row of a batch; of a null value, any."""


def each_value(decode: Callable[[bytes], str]) -> Read:
    """``decode`` raises :class:`Undecodable`."""

    def decoded(value: bytes | None) -> str | Undecodable:
        try:
            return "" if value is None else decode(value)
        except Undecodable as why:
            return why

    return lambda batch: [decoded(value) for value in batch.column(VALUE).to_pylist()]


@dataclass(frozen=True)
class InJson:
    """Work of a partition. ``reader`` is called in the worker, once."""

    reader: Callable[[], Read]
    with_bytes: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = self.reader()
        for batch in batches:
            values = batch.column(VALUE).to_pylist()
            found = [self._text(value, text) for value, text in zip(values, read(batch), strict=True)]
            at = batch.schema.get_field_index(VALUE)
            yield batch.set_column(at, pa.field(VALUE, pa.binary()), pa.array(found, pa.binary()))

    def _text(self, value: bytes | None, text: str | Undecodable) -> bytes | None:
        if value is None or _SET_APART.fullmatch(value):
            return value
        return text.encode() if isinstance(text, str) else self._undecoded(value, str(text))

    def _undecoded(self, value: bytes, reason: str) -> bytes:
        kept = {VALUE: base64.b64encode(value).decode()} if self.with_bytes else {}
        return json.dumps({UNREADABLE: reason, **kept}).encode()


def in_workers(events: DataFrame, work: InJson, beside: Sequence[str] = ()) -> DataFrame:
    """Lazy. The columns ``beside`` are for the reader alone."""
    from backfill_assets.spark.workers import carrying, require_workers

    require_workers(events.sparkSession)
    wanted = [name for name in events.columns if name not in beside]

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (batch.select(wanted) for batch in work(batches))

    return events.mapInArrow(carrying(decoded), events.select(*wanted).schema)
