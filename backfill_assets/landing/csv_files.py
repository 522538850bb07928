"""CSV in a declared dialect; a quoted value may have line ends."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.landing.compressed import COMPRESSIONS, content_of, first_problem
from backfill_assets.landing.csv_lines import Dialect, Encoding, Lines, in_columns, others_of, records_in
from backfill_assets.landing.line_reader import lines_of
from backfill_assets.model.landed_format import record_columns


@dataclass(frozen=True, kw_only=True)
class Csv:
    """Delimited text, plain or compressed, with a header unless ``columns`` are declared.

    An unquoted ``null`` is missing. Records with another number of fields, or a misplaced quote, are quarantined.
    """

    delimiter: str = ","
    quote: str = '"'
    """Doubled within a value without ``escape``."""
    escape: str = ""
    null: str = ""
    columns: tuple[str, ...] = ()
    encoding: Encoding = "utf-8"

    endings: ClassVar[Sequence[str]] = tuple(f".csv{each}" for each in ("", *COMPRESSIONS))
    of_json: ClassVar[bool] = False

    def __post_init__(self) -> None:
        signs = [sign for sign in (self.delimiter, self.quote, self.escape) if sign]
        one_each = all(len(sign) == 1 and sign.isascii() and sign not in "\r\n" for sign in signs)
        if not self.delimiter or not one_each or len(set(signs)) < len(signs):
            raise InvalidRequest(
                "A dialect of CSV is declared wrong: delimiter, quote and escape are an ASCII sign each, and differ.",
                hint='For example: Csv(delimiter=";"). Without an escape a quote within a value is written twice.',
            )
        if len(set(self.columns)) < len(self.columns):
            raise InvalidRequest("Two columns of the CSV have one name.", hint="Name each of its columns once.")

    def first_problem(self, path: Path, fields: Sequence[str]) -> str | None:
        return first_problem(path) or self._problem_of(self._header(path), fields)

    def _problem_of(self, header: Sequence[str] | None, fields: Sequence[str]) -> str | None:
        if header is None or self.columns:
            return None
        twice = [name for at, name in enumerate(header) if name in header[:at]]
        if twice or not header:
            return f"its header names {twice[0]!r} twice" if twice else "its header cannot be read"
        if not set(header) & set(fields):
            return f"its header names none of {', '.join(fields)}: is its delimiter {self.delimiter!r}?"
        return None

    def records(self, path: Path, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        header = self._header(path)
        if header is None:
            return
        if problem := self._problem_of(header, fields):
            raise SourceUnreadable(f"{path}: {problem}.")
        behind = not self.columns
        for lines in self._lines(path):
            some = Lines(*(each[1:] for each in lines)) if behind else lines
            behind = False
            if len(some.numbers):
                yield self._batch(some, header, fields)

    def _header(self, path: Path) -> Sequence[str] | None:
        first = next(self._lines(path), None)
        if first is None or self.columns:
            return None if first is None else self.columns
        quoting = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        signs = {"delimiter": self.delimiter, "quotechar": self.quote or None, "escapechar": self.escape or None}
        text = first.texts[0].as_py()
        read = csv.reader([text], **signs, quoting=quoting, doublequote=not self.escape)  # type: ignore[arg-type]
        return next(read) if first.sound[0].as_py() else ()

    def _lines(self, path: Path) -> Iterator[Lines]:
        parts = content_of(path)
        if self.encoding == "latin-1":
            parts = (part.decode("latin-1").encode() for part in parts)
        return records_in(lines_of(parts, blanks=""), self._dialect)

    @property
    def _dialect(self) -> Dialect:
        return Dialect(self.delimiter, self.quote, self.escape, self.null)

    def _batch(self, lines: Lines, header: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
        columns, wrong = in_columns(lines.texts.filter(lines.sound), header, self._dialect)
        sound = np.delete(np.flatnonzero(lines.sound.to_numpy(zero_copy_only=False)), wrong)
        at = np.full(len(lines.numbers), -1)
        at[sound] = np.arange(len(sound))
        row = pa.array(at, mask=at < 0)
        known = pa.StructArray.from_arrays([_column(columns, name) for name in fields], list(fields))
        others = others_of(columns, [name for name in header if name not in fields])
        text = pc.if_else(row.is_null(), lines.texts, pa.scalar(None, pa.string()))
        return pa.record_batch(
            [lines.numbers, text, known.take(row), others.take(row)], schema=record_columns(self, fields)
        )


def _column(columns: pa.Table, name: str) -> pa.Array:
    if name not in columns.column_names:
        return pa.nulls(len(columns), pa.string())
    return columns[name].combine_chunks()
