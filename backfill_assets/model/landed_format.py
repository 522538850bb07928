"""The interface of formats, such as ``landing/json_lines.py``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa

from backfill_assets.model.arrival_days import arrival_day
from backfill_assets.model.declaration import Source

if TYPE_CHECKING:
    from backfill_assets.model.event_format import EventFormat

OTHERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
VALUES = "values by type"
"""Column of values known without parsing; no field's name has a space."""
FILES_OF_ROWS = (".parquet", ".pq")


class Format(Protocol):
    """Travels in Spark's tasks: picklable and hashable."""

    @property
    def endings(self) -> Sequence[str]:
        """The usual first; other files are strays."""

    @property
    def of_json(self) -> bool:
        pass

    def first_problem(self, path: Path, fields: Sequence[str]) -> str | None:
        """Why nothing may be read, with byte or line."""

    def records(self, path: Path, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """In order, with :func:`record_columns`: ``number`` is the line or row, from 1.

        An unreadable record is ``value`` with null ``fields``. Raises :class:`SourceUnreadable` for a file gone or
        damaged.
        """


@runtime_checkable
class FormatOfValues(Format, Protocol):
    def typed_records(self, path: Path, fields: Sequence[str], values: pa.Schema) -> Iterator[pa.RecordBatch]:
        """:meth:`records`, then a struct of ``values``, only where the text would parse to exactly it."""


def record_columns(format_: Format, fields: Sequence[str]) -> pa.Schema:
    """Fields are text, null if absent; of JSON only number and text."""
    columns = [("number", pa.int64()), ("value", pa.string())]
    if not format_.of_json:
        columns += [("fields", pa.struct([(name, pa.string()) for name in fields])), ("others", OTHERS)]
    return pa.schema(columns)


def typed_columns(format_: Format, fields: Sequence[str], values: pa.Schema) -> pa.Schema:
    typed = isinstance(format_, FormatOfValues) and len(values) > 0
    columns = record_columns(format_, fields)
    return columns.append(pa.field(VALUES, pa.struct(list(values)))) if typed else columns


def record_word(file: str) -> str:
    return "row" if file.endswith(FILES_OF_ROWS) else "line"


@dataclass(frozen=True)
class SourceOfFiles(Source):
    """Format and file names decide no row."""

    format: Format | None = None
    files: str = ""
    """See :class:`FileNames`; empty: folders have the day."""
    events: EventFormat | None = None
    """Of a topic; None: JSON."""


def declared_format(source: Source) -> Format | None:
    return source.format if isinstance(source, SourceOfFiles) else None


def declared_files(source: Source) -> str:
    return source.files if isinstance(source, SourceOfFiles) else ""


def arrival_day_of(source: Source, path: str) -> date | None:
    return arrival_day(path, declared_files(source))
