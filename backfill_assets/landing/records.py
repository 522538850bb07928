"""The records of a landed file in any format, and batches for formats that read one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.landing.compressed import content_of
from backfill_assets.landing.json_lines import JsonLines
from backfill_assets.landing.line_reader import lines_of, readable
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_format import OTHERS, Format, declared_format

_JSON_LINES: Format = JsonLines()
_ROWS_AT_ONCE = 10_000
Fields: TypeAlias = Mapping[str, str | None]


def format_of(source: Source) -> Format:
    return declared_format(source) or _JSON_LINES


def records_of(source: Source, path: Path) -> Iterator[pa.RecordBatch]:
    return format_of(source).records(path, source.value_fields)


def fields_of(
    source: Source, path: Path, number: int | None = None
) -> Iterator[tuple[str | None, Mapping[str, Any] | None]]:
    """Text, if the format has one, and fields, None if unreadable, of each record or the one with ``number``."""
    of_json = format_of(source).of_json
    for batch in records_of(source, path):
        wanted = batch if number is None else batch.filter(pc.equal(batch["number"], number))
        for record in wanted.to_pylist():
            yield record["value"], (_of_json(record["value"]) if of_json else _of_columns(record))


def _of_json(text: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text, parse_float=str)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _of_columns(record: Mapping[str, Any]) -> Fields | None:
    if record["fields"] is None:
        return None
    return {**record["fields"], **{other["key"]: other["value"] for other in record["others"] or ()}}


def lines_in(path: Path) -> Iterator[tuple[int, str]]:
    for lines in lines_of(content_of(path)):
        yield from zip(lines["number"].to_pylist(), readable(lines["value"]).to_pylist(), strict=True)


def batches_of(fields: Sequence[str], rows: Iterable[tuple[int, Fields | str]]) -> Iterator[pa.RecordBatch]:
    """A text in place of fields is an unreadable record."""
    declared, left = set(fields), iter(rows)
    while some := list(islice(left, _ROWS_AT_ONCE)):
        read = [None if isinstance(each, str) else each for _, each in some]
        known = [None if each is None else {name: each.get(name) for name in fields} for each in read]
        others = [
            [(name, text) for name, text in (each or {}).items() if name not in declared] or None for each in read
        ]
        yield pa.record_batch(
            {
                "number": pa.array([number for number, _ in some], pa.int64()),
                "value": pa.array([each if isinstance(each, str) else None for _, each in some], pa.string()),
                "fields": pa.array(known, pa.struct([(name, pa.string()) for name in fields])),
                "others": pa.array(others, OTHERS),
            }
        )
