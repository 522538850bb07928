"""What a format of landed files has to say. Those that are there are in ``landing/json_lines.py`` and beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from backfill_assets.model.arrival_days import arrival_day
from backfill_assets.model.declaration import Source

OTHERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
"""The fields of a record that are not declared, in its order."""
VALUES = "values by type"
"""The column of records with the values of some fields, where they are known without reading their texts. No field has
a space in its name."""
FILES_OF_ROWS = (".parquet", ".pq")
"""How the names of files end whose records are no lines."""


class Format(Protocol):
    """How the files of a source are written: which they are, and what records are in them.

    It is declared on a source, is part of the tasks of Spark's workers, and so has to be picklable and hashable: a
    frozen dataclass is. Nothing else knows of the format: what is read here goes through one query to raw.
    """

    @property
    def endings(self) -> Sequence[str]:
        """What the names of its files end in, the usual one first; files of other names are reported as strays."""

    @property
    def of_json(self) -> bool:
        """Whether a record is given as the text of a JSON object, from which the query of raw takes its fields."""

    def first_problem(self, path: Path, fields: Sequence[str]) -> str | None:
        """What is wrong with a file of which nothing is to be read, in words, with the byte or the line; or None.

        It is asked before the rows of a file count: of one that is cut off, damaged, or of another dialect.
        """

    def records(self, path: Path, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All records of the file in their order, some at a time, with the columns of :func:`record_columns`.

        ``number`` is the place of a record in its file, from 1: the line where it begins, or the row. ``fields`` are
        those that the source declares; what a record has besides is among its ``others``. No record is left out: one
        that cannot be read has its text as ``value`` and no ``fields``, and becomes a row of the quarantine. Raises
        :class:`SourceUnreadable` for a file that is gone or turns out to be damaged.
        """


@runtime_checkable
class FormatOfValues(Format, Protocol):
    """A format whose files have values of types, most of which need not be read from their texts again."""

    def typed_records(self, path: Path, fields: Sequence[str], values: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Like :meth:`records`, with a struct of ``values`` behind all other columns, unless there are none.

        These are fields in the types that are declared. A value is given only if it is just what its text is read as;
        what is null is read from the text.
        """


def record_columns(format_: Format, fields: Sequence[str]) -> pa.Schema:
    """The columns of the records that ``format_`` gives of a source with these ``fields``.

    ``fields`` are texts, null where a record has none. Of a format ``of_json`` there is only the number and the text.
    """
    columns = [("number", pa.int64()), ("value", pa.string())]
    if not format_.of_json:
        columns += [("fields", pa.struct([(name, pa.string()) for name in fields])), ("others", OTHERS)]
    return pa.schema(columns)


def typed_columns(format_: Format, fields: Sequence[str], values: pa.Schema) -> pa.Schema:
    """:func:`record_columns`, and those ``values`` that the format gives with their types."""
    typed = isinstance(format_, FormatOfValues) and len(values) > 0
    columns = record_columns(format_, fields)
    return columns.append(pa.field(VALUES, pa.struct(list(values)))) if typed else columns


def record_word(file: str) -> str:
    """What a record of ``file`` is called: a ``row``, or a ``line``."""
    return "row" if file.endswith(FILES_OF_ROWS) else "line"


@dataclass(frozen=True)
class SourceOfFiles(Source):
    """A source that says how its files are written, and how named. That decides no row: all values land as text."""

    format: Format | None = None
    """None for JSON lines."""
    files: str = ""
    """How they are named, with the arrival day in their name: see :class:`FileNames`. Empty: it is their folder's."""


def declared_format(source: Source) -> Format | None:
    """How files of ``source`` are written; None for JSON lines."""
    return source.format if isinstance(source, SourceOfFiles) else None


def declared_files(source: Source) -> str:
    """How files of ``source`` are named; empty if they are in the folder of their day."""
    return source.files if isinstance(source, SourceOfFiles) else ""


def arrival_day_of(source: Source, path: str) -> date | None:
    """The arrival day of the landed file ``path`` of ``source``; None if nothing says it."""
    return arrival_day(path, declared_files(source))
