"""Blanks lines of landed files, for rows that a person erases: every other line keeps its number.

This is the one place that writes to the landing zone.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.durable import sync_file
from backfill_assets.landing.compressed import content_of
from backfill_assets.landing.csv_files import Csv
from backfill_assets.landing.json_lines import JsonLines
from backfill_assets.landing.records import format_of, records_of
from backfill_assets.model.declaration import Source

_END = b"\n"


def can_blank(source: Source) -> bool:
    """Formats of lines, whose blank ones are counted and hold no row."""
    return isinstance(format_of(source), JsonLines | Csv)


def lines_with(path: Path, value: str) -> list[int]:
    """Numbers of lines in which ``value`` stands alone: no ASCII letter or digit touches it."""
    spelled = [re.escape(text) for text in sorted(_spellings(value))]
    alone = re.compile(rb"(?<!\w)(?:" + b"|".join(spelled) + rb")(?!\w)")
    return [number for number, line in enumerate(_lines(path), 1) if alone.search(line)]


def _spellings(value: str) -> Iterator[bytes]:
    yield value.encode()
    yield json.dumps(value)[1:-1].encode()
    with suppress(UnicodeEncodeError):
        yield value.encode("latin-1")


def blank_lines(source: Source, path: Path, numbers: Collection[int]) -> bool:
    """Blank the records that begin at ``numbers``, by replacing ``path`` whole; False if they are blank already. Lines
    count from 1, the time of landing stays.

    Raises :class:`LakehouseUnusable` if the file cannot be written, and
    :class:`~backfill_assets.errors.SourceUnreadable` if it cannot be read.
    """
    records = (number for batch in records_of(source, path) for number in batch["number"].to_pylist())
    begins = sorted({*numbers, *records})
    ends = {begin: end for begin, end in pairwise([*begins, None]) if begin in numbers}
    # Hidden: a file that begins with a dot is no landed file.
    unfinished = path.with_name(f".{path.name}.{clock.token(4)}.tmp")
    try:
        landed = path.stat()
        with _written(unfinished, path.suffix) as stream:
            changed = _write(_blanked(path, ends), stream)
        if changed:
            sync_file(str(unfinished))
            unfinished.chmod(landed.st_mode)
            os.utime(unfinished, ns=(landed.st_atime_ns, landed.st_mtime_ns))
            unfinished.replace(path)
    except OSError as error:
        raise LakehouseUnusable(
            f"{path} cannot be written: {error.strerror}.",
            hint="Erasing rows also blanks their landed lines. Give this process the right to write there, then run "
            "it again.",
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return changed


def _lines(path: Path) -> Iterator[bytes]:
    """With their ends."""
    begun = b""
    for part in content_of(path):
        *whole, begun = (begun + part).split(_END)
        yield from (line + _END for line in whole)
    if begun:
        yield begun


def _blanked(path: Path, ends: Mapping[int, int | None]) -> Iterator[tuple[bytes, bool]]:
    """Each line, and whether it was another one. ``ends`` has the first line behind each record to blank."""
    blank_until: int | None = 1
    for number, line in enumerate(_lines(path), 1):
        if number in ends:
            blank_until = ends[number]
        blank = _END if line.endswith(_END) else b""
        is_blanked = blank_until is None or number < blank_until
        yield (blank, line != blank) if is_blanked else (line, False)


def _write(lines: Iterable[tuple[bytes, bool]], stream: BinaryIO) -> bool:
    changed = False
    for line, is_other in lines:
        stream.write(line)
        changed = changed or is_other
    return changed


@contextmanager
def _written(path: Path, suffix: str) -> Iterator[BinaryIO]:
    """The same lines give the same bytes."""
    if suffix == ".gz":
        with path.open("wb") as stream, gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as packed:
            yield cast("BinaryIO", packed)
    elif suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as packed:
            yield packed
    else:
        with path.open("wb") as stream:
            yield stream
