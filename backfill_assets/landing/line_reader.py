"""Lines as Arrow batches, unchanged and numbered from 1, in bounded memory."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.errors import SourceUnreadable

if TYPE_CHECKING:
    import numpy.typing as npt

LINES = pa.schema([("number", pa.int64()), ("value", pa.binary())])
AT_ONCE = 1 << 22
BLANKS = " \t\r"
_END = b"\n"
_LONGEST = (1 << 31) - 1
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def lines_of(parts: Iterable[bytes], blanks: str = BLANKS) -> Iterator[pa.RecordBatch]:
    """Lines in :data:`LINES`. Only a line feed ends a line. Lines of only ``blanks`` are counted and left out."""
    before = 0
    for text in _whole_lines(_without_mark(iter(parts))):
        ends = _ends(text)
        values = _values(text, ends)
        numbers = pa.array(np.arange(before + 1, before + 1 + len(values), dtype=np.int64))
        kept = not_blank(values, blanks) if blanks else None
        if kept is not None:
            values, numbers = values.filter(kept), numbers.filter(kept)
        if len(values):
            yield pa.record_batch([numbers, values], schema=LINES)
        before += len(ends)


# ------------------------------------------------------------------ text


def _whole_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    begun: list[bytes] = []
    size = 0
    for part in parts:
        size += len(part)
        end = part.rfind(_END) + 1 if size >= AT_ONCE else 0
        if end:
            yield b"".join([*begun, part[:end]])
            begun, size = [], len(part) - end
        begun.append(part[end:])
    if rest := b"".join(begun):
        yield rest


def _without_mark(parts: Iterator[bytes]) -> Iterator[bytes]:
    begun = b""
    for part in parts:
        begun += part
        if len(begun) >= len(_BYTE_ORDER_MARK):
            break
    return chain([begun.removeprefix(_BYTE_ORDER_MARK)], parts)


def _ends(text: bytes) -> npt.NDArray[np.int64]:
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _END[0])
    return ends if text.endswith(_END) else np.append(ends, len(text))


def _values(text: bytes, ends: npt.NDArray[np.int64]) -> pa.Array:
    if len(text) > _LONGEST:
        raise SourceUnreadable("A line of more than 2 GB cannot be read.", hint="Land it as several lines.")
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    content = pa.py_buffer(text.replace(_END, b""))
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), content])


def readable(lines: pa.Array) -> pa.Array:
    """A line that is not UTF-8 becomes base64, which is no JSON object."""
    try:
        return lines.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(map(_readable, lines.to_pylist()), pa.string())


def _readable(line: bytes | None) -> str | None:
    if line is None:
        return None
    try:
        return line.decode()
    except UnicodeDecodeError:
        return f"base64: {base64.b64encode(line).decode()}"


def not_blank(values: pa.Array, blanks: str) -> pa.Array | None:
    first = pc.binary_slice(values, 0, 1)
    doubtful = pc.is_in(first, pa.array([b"", *(blank.encode() for blank in blanks)], pa.binary()))
    if not pc.any(doubtful).as_py():
        return None
    return pc.or_(pc.invert(doubtful), pc.invert(pc.match_substring_regex(values, f"^[{blanks}]*$")))
