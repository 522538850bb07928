"""Finds records of delimited text line by line; only sound ones go to Arrow, at 0.3 us a line.

A broken line costs no other one. DuckDB and Arrow tell no place of a record and lose all lines behind an unclosed
quote; DuckDB drops bytes that are not UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from backfill_assets.errors import SourceUnreadable
from backfill_assets.landing.line_reader import not_blank, readable
from backfill_assets.model.landed_format import OTHERS

MOST_LINES = 1_000
"""A value with more lines is an unclosed quote."""
_MARK = b"\xef\xbb\xbf"
Encoding = Literal["utf-8", "latin-1"]


@dataclass(frozen=True)
class Dialect:
    delimiter: str
    quote: str
    escape: str
    null: str

    @property
    def blanks(self) -> str:
        return "".join(blank for blank in " \t\r" if blank != self.delimiter)


class Lines(NamedTuple):
    numbers: pa.Array
    texts: pa.Array
    sound: pa.Array


class Patterns(NamedTuple):
    record: str
    opens: str
    """The record's last value goes on in the next line."""
    within: str
    closes: str
    """The line ends such a value."""
    reopens: str
    """The line ends such a value, and begins another."""


@cache
def patterns(dialect: Dialect) -> Patterns:
    delimiter, quote, escape = map(re.escape, (dialect.delimiter, dialect.quote, dialect.escape))
    escaped = f"|{escape}[^\\n]" if escape and dialect.escape != dialect.quote else ""
    special = f"{delimiter}\\r\\n{escape if escaped else ''}"
    bare = f"(?:[^{special}]{escaped})*"
    if not quote:
        return Patterns(f"{bare}(?:{delimiter}{bare})*\\r?", *[""] * 4)
    bare = f"(?:(?:[^{quote}{special}]{escaped})(?:[^{special}]{escaped})*)?"
    within = f"(?:[^{quote}{escape if escaped else ''}]{escaped}|{quote}{quote})*"
    value = f"(?:{quote}{within}{quote}|{bare})"
    more = f"(?:{delimiter}{value})*"
    return Patterns(
        record=f"{value}{more}\\r?",
        opens=f"(?:{value}{delimiter})*{quote}{within}",
        within=within,
        closes=f"{within}{quote}{more}\\r?",
        reopens=f"{within}{quote}(?:{delimiter}{value})*{delimiter}{quote}{within}",
    )


def looked_at(lines: pa.RecordBatch, dialect: Dialect) -> Lines:
    numbers, values = lines["number"], lines["value"]
    texts = readable(values)
    if _is_plain(values, dialect):
        sound = pa.repeat(True, len(texts))
    else:
        sound = pc.match_substring_regex(texts, f"^(?:{patterns(dialect).record})$")
    if not (as_landed := texts.cast(pa.binary())).equals(values):
        sound = pc.and_(sound, pc.equal(as_landed, values))
    return Lines(numbers, texts, sound)


def _is_plain(values: pa.Array, dialect: Dialect) -> bool:
    text = bytes(values.buffers()[2] or b"")
    if any(sign.encode() in text for sign in (dialect.quote, dialect.escape) if sign):
        return False
    return text.count(b"\r") == (pc.sum(pc.ends_with(values, b"\r")).as_py() or 0)


class Records(NamedTuple):
    """The last ``begun`` lines may go on in the next batch."""

    lines: Lines
    begun: int


def joined(lines: Lines, dialect: Dialect, *, at_end: bool) -> Records:
    """Joins the lines of one record, at the place of the first. Before ``at_end`` an open record may still go on."""
    if not dialect.quote or pc.all(lines.sound).as_py():
        return Records(lines, 0)
    found = patterns(dialect)
    opens = np.flatnonzero(pc.match_substring_regex(lines.texts, f"^(?:{found.opens})$").to_numpy(zero_copy_only=False))
    texts = lines.texts
    kept, joined_at, next_free = np.ones(len(texts), bool), dict[int, str](), 0
    for at in opens.tolist():
        if at < next_free:
            continue
        end = _end(lines, at, found)
        if end == len(texts) and not at_end:
            return Records(_with(lines, kept, joined_at, at), len(texts) - at)
        if end is not None and end < len(texts):
            joined_at[at] = "\n".join(texts[at : end + 1].to_pylist())
            kept[at + 1 : end + 1] = False
            next_free = end + 1
    return Records(_with(lines, kept, joined_at, len(texts)), 0)


def _end(lines: Lines, at: int, found: Patterns) -> int | None:
    """The closing line; the number of lines if the record is still open; None if it cannot close."""
    last = min(len(lines.texts), at + MOST_LINES)
    for number in range(at + 1, last):
        text = lines.texts[number].as_py()
        if re.fullmatch(found.closes, text):
            return number
        if not re.fullmatch(found.within, text) and not re.fullmatch(found.reopens, text):
            return None
    return last if last == len(lines.texts) else None


def _with(lines: Lines, kept: np.ndarray, joined_at: dict[int, str], until: int) -> Lines:
    texts, sound = lines.texts, lines.sound
    if joined_at:
        places = np.zeros(len(texts), bool)
        places[list(joined_at)] = True
        mask = pa.array(places)
        texts = pc.replace_with_mask(texts, mask, pa.array(joined_at.values(), pa.string()))
        sound = pc.or_(sound, mask)
    chosen = pa.array(kept & (np.arange(len(kept)) < until))
    return Lines(*(each.filter(chosen) for each in (lines.numbers, texts, sound)))


def records_in(batches: Iterator[pa.RecordBatch], dialect: Dialect) -> Iterator[Lines]:
    begun: pa.RecordBatch | None = None
    for batch in batches:
        lines = batch if begun is None else _appended(begun, batch)
        found = joined(looked_at(lines, dialect), dialect, at_end=False)
        begun = lines[len(lines) - found.begun :] if found.begun else None
        yield from _without_blank(found.lines, dialect)
    if begun is not None:
        yield from _without_blank(joined(looked_at(begun, dialect), dialect, at_end=True).lines, dialect)


def _without_blank(lines: Lines, dialect: Dialect) -> Iterator[Lines]:
    kept = not_blank(lines.texts.cast(pa.binary()), dialect.blanks)
    found = lines if kept is None else Lines(*(each.filter(kept) for each in lines))
    if len(found.numbers):
        yield found


def _appended(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    (whole,) = pa.Table.from_batches([first, second]).combine_chunks().to_batches()
    return whole


# ------------------------------------------------------------------ columns


def in_columns(texts: pa.Array, names: Sequence[str], dialect: Dialect) -> tuple[pa.Table, list[int]]:
    """Fields as texts, and positions of records with another number of fields."""
    wrong: list[int] = []

    def leave_out(row: arrow_csv.InvalidRow) -> str:
        wrong.append(row.number - 1)
        return "skip"

    if not len(texts):
        return pa.table({name: pa.array([], pa.string()) for name in names}), wrong
    # Arrow reads an empty last field without line end as a quoted one, and strips a leading mark: both are added here.
    text = _MARK + "\n".join([*texts.to_pylist(), ""]).encode()
    read = arrow_csv.read_csv(
        pa.BufferReader(text),
        # One block and one thread: otherwise rows that are left out have no number.
        arrow_csv.ReadOptions(use_threads=False, column_names=list(names), block_size=len(text) + 1),
        arrow_csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            double_quote=not dialect.escape,
            escape_char=dialect.escape or False,
            newlines_in_values=True,
            invalid_row_handler=leave_out,
        ),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[dialect.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    if len(read) + len(wrong) != len(texts):
        raise SourceUnreadable(f"Of {len(texts)} records only {len(read)} were read, and {len(wrong)} were left out.")
    return read.combine_chunks(), wrong


def others_of(columns: pa.Table, names: Sequence[str]) -> pa.Array:
    count, rows = len(names), len(columns)
    if not names:
        return pa.nulls(rows, OTHERS)
    values = pa.concat_arrays([chunk for name in names for chunk in columns[name].chunks])
    by_row = np.arange(rows * count).reshape(count, rows).T.ravel()
    keys = pa.DictionaryArray.from_arrays(np.tile(np.arange(count, dtype=np.int32), rows), list(names))
    pairs = pa.StructArray.from_arrays([keys.cast(pa.string()), values.take(pa.array(by_row))], ["key", "value"])
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * count), pairs)
