"""Blanks lines of landed files, for rows that a person erases: every other line keeps its number.

This is the one place that writes to the landing zone.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable
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
    spelled = {value.encode(), json.dumps(value)[1:-1].encode(), value.encode("latin-1", errors="ignore")}
    alone = re.compile(rb"(?<!\w)(?:" + b"|".join(map(re.escape, sorted(spelled))) + rb")(?!\w)")
    lines = _lines_with_ends(b"".join(content_of(path)))
    return [number for number, line in enumerate(lines, 1) if alone.search(line)]


def blank_lines(source: Source, path: Path, numbers: Collection[int]) -> bool:
    """Blank the records that begin at ``numbers``, by replacing ``path`` whole; False if they are blank already. Lines
    count from 1, the time of landing stays.

    Raises :class:`LakehouseUnusable` if the file cannot be written, and
    :class:`~backfill_assets.errors.SourceUnreadable` if it cannot be read.
    """
    records = (number for batch in records_of(source, path) for number in batch["number"].to_pylist())
    begins = sorted({*numbers, *records})
    before = list(_lines_with_ends(b"".join(content_of(path))))
    wanted = {
        line
        for begin, end in pairwise([*begins, max([len(before), *begins]) + 1])
        if begin in numbers
        for line in range(begin, end)
    }
    after = [_blank(line) if number in wanted else line for number, line in enumerate(before, 1)]
    if after == before:
        return False
    text = b"".join(after)
    # Hidden: a file that begins with a dot is no landed file.
    unfinished = path.with_name(f".{path.name}.{clock.token(4)}.tmp")
    try:
        landed = path.stat()
        with unfinished.open("wb") as stream:
            stream.write(_compressed(path, text))
            stream.flush()
            os.fsync(stream.fileno())
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
    return True


def _lines_with_ends(text: bytes) -> Iterator[bytes]:
    begin = 0
    while begin < len(text):
        end = text.find(_END, begin) + 1 or len(text)
        yield text[begin:end]
        begin = end


def _blank(line: bytes) -> bytes:
    return _END if line.endswith(_END) else b""


def _compressed(path: Path, text: bytes) -> bytes:
    if path.suffix == ".gz":
        return gzip.compress(text, mtime=0)
    if path.suffix == ".zst":
        return bytes(pa.compress(text, codec="zstd", asbytes=True))
    return text
