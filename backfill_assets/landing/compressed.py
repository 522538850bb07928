"""The content of landed files, plain, gzip or zstd, in parts; and the damage in one."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from backfill_assets.errors import SourceUnreadable

COMPRESSIONS = (".gz", ".zst")
AT_ONCE = 1 << 22
_COMPRESSED = 1 << 18
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


def content_of(path: Path) -> Iterator[bytes]:
    """A file may have any number of members or frames. Raises :class:`SourceUnreadable` if it is gone, cut off or
    damaged.
    """
    with opened(path) as stream:
        if path.suffix == ".zst":
            yield from _of_zstd(stream, path)
        elif path.suffix == ".gz":
            yield from _of_gzip(stream, path)
        else:
            yield from iter(lambda: stream.read(AT_ONCE), b"")


def first_problem(path: Path) -> str | None:
    with opened(path) as stream:
        if path.suffix == ".gz":
            return _first_gzip_problem(stream)
        return _first_zstd_problem(stream) if path.suffix == ".zst" else None


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise SourceUnreadable(f"{path} cannot be read: {error.strerror}.") from error


def unreadable(path: Path, problem: str) -> SourceUnreadable:
    return SourceUnreadable(
        f"{path}: {problem}.", hint="Land the whole file again, or move it out of the landing zone."
    )


# ------------------------------------------------------------------ gzip


def _of_gzip(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    member: Any = zlib.decompressobj(_GZIP_WINDOW)
    within = False
    while compressed := stream.read(_COMPRESSED):
        left, more = compressed, False
        while left or more:
            if member.eof:
                member = zlib.decompressobj(_GZIP_WINDOW)
            part = _inflated(member, left, path)
            yield part
            left = member.unconsumed_tail or member.unused_data
            within = not member.eof
            # The member may hold more output although all input is consumed.
            more = within and len(part) == AT_ONCE
    if within:
        raise unreadable(path, "truncated gzip, it ends before the end of its data")


def _inflated(member: Any, compressed: bytes, path: Path) -> bytes:
    try:
        return bytes(member.decompress(compressed, AT_ONCE))
    except zlib.error as error:
        raise unreadable(path, f"undecodable gzip ({error})") from error


def _first_gzip_problem(stream: BinaryIO) -> str | None:
    member, in_member, offset = zlib.decompressobj(_GZIP_WINDOW), False, 0
    while chunk := stream.read(_COMPRESSED):
        while chunk:
            before = member.copy()
            try:
                member.decompress(chunk)
            except zlib.error:
                return f"undecodable gzip at byte {offset + _good_bytes(before, chunk)}"
            in_member = not member.eof
            offset += len(chunk) - len(member.unused_data)
            chunk = member.unused_data
            if member.eof:
                member = zlib.decompressobj(_GZIP_WINDOW)
    return f"truncated gzip, it ends at byte {offset} before the end of its data" if in_member else None


def _good_bytes(member: zlib._Decompress, chunk: bytes) -> int:
    for position in range(len(chunk)):
        try:
            member.decompress(chunk[position : position + 1])
        except zlib.error:
            return position
    return len(chunk)


# ------------------------------------------------------------------ zstd


def _of_zstd(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        yield from _inflated_zstd(stream)
    except _ZstdError as error:
        raise unreadable(path, str(error)) from error


def _first_zstd_problem(stream: BinaryIO) -> str | None:
    try:
        for _ in _inflated_zstd(stream):
            pass
    except _ZstdError as error:
        return str(error)
    return None


class _ZstdError(Exception):
    """Arrow reads ahead: damage is some bytes before the one named."""


def _inflated_zstd(stream: BinaryIO) -> Iterator[bytes]:
    frames = pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd")
    while True:
        try:
            part = frames.read(AT_ONCE)
        except OSError as error:
            if error.errno is not None:
                raise
            at = stream.tell()
            if "Truncated" in str(error):
                raise _ZstdError(f"truncated zstd, it ends at byte {at} before the end of its data") from error
            raise _ZstdError(f"undecodable zstd before byte {at}") from error
        if not part:
            return
        yield part
