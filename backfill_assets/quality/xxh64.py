"""XXH64 as Spark's ``xxhash64(a, b, ...)`` computes it, over whole arrays: each column is seeded by the hash before it.

It shares nothing with the JVM that wrote the rows. A null leaves the seed as it is. Numbers are unsigned here; a hash
is the same 64 bits as the bigint of Spark.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
SEED = np.uint64(42)
"""What the first column is seeded by."""
_P1, _P2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_P3, _P4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_STRIPE, _LANE, _HALF_LANE = 32, 8, 4
_FEW = 16
"""Of so many texts that are left, a stripe each takes Python less time than a stripe of all of them takes numpy."""
_WORD = (1 << 64) - 1
_LAST = _STRIPE
"""Bytes behind the last text, so that a word can be read at every byte of it."""


def hash_of_ints(values: npt.NDArray[np.uint32], seeds: Words) -> Words:
    """Values of 4 bytes: what Spark hashes as ``int``, which are booleans, dates and whole numbers up to 32 bits."""
    return _finish(_add_half_lane(seeds + _P5 + np.uint64(4), values.astype(np.uint64)))


def hash_of_longs(values: Words, seeds: Words) -> Words:
    """Values of 8 bytes: bigints, moments, doubles, and decimals of up to 18 digits."""
    return _finish(_add_lane(seeds + _P5 + np.uint64(8), values))


def hash_of_bytes(data: Bytes, starts: Places, lengths: Places, seeds: Words) -> Words:
    """Texts and bytes: those of ``lengths`` that begin at ``starts`` of ``data``."""
    words = _Unaligned(data, starts)
    mixed = seeds + _P5
    done = lengths & ~np.int64(_STRIPE - 1)
    long = np.flatnonzero(done)
    if len(long):
        mixed[long] = _of_stripes(words, long, done[long], seeds[long])
    mixed += lengths.astype(np.uint64)
    return _finish(_add_tail(mixed, words, done, lengths - done))


class _Unaligned:
    """Reads words that begin at any byte, of many texts at once."""

    def __init__(self, data: Bytes, starts: Places) -> None:
        self.starts = starts
        self._data = np.concatenate([data, np.zeros(_LAST, np.uint8)])

    def at(self, rows: Any, offsets: Places | int, kind: str) -> Words:
        size = np.dtype(kind).itemsize
        shape = (len(self._data) - size + 1,)
        view = np.ndarray(shape, kind, buffer=self._data.data, strides=(1,))
        return np.asarray(view[self.starts[rows] + offsets], dtype=np.uint64)

    def stripes(self, row: int, start: int, end: int) -> Iterator[tuple[int, ...]]:
        """Of one text, from one byte to another."""
        begin = self.starts[row]
        return struct.iter_unpack("<4Q", self._data[begin + start : begin + end].tobytes())


def _of_stripes(words: _Unaligned, rows: Places, ends: Places, seeds: Words) -> Words:
    """The first whole 32 bytes each, in four lanes; the longest texts first, so that those left are the first ones."""
    order = np.argsort(-ends, kind="stable")
    rows, ends, seeds = rows[order], ends[order], seeds[order]
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for start in range(0, int(ends[0]), _STRIPE):
        left = int(np.searchsorted(-ends, -start, side="left"))
        if left <= _FEW:  # one of ten million bytes has 312,500 stripes
            for row in range(left):
                of_row = _further((int(lane[row]) for lane in lanes), words.stripes(rows[row], start, ends[row]))
                for lane, value in zip(lanes, of_row, strict=True):
                    lane[row] = value
            break
        for number, lane in enumerate(lanes):
            lane[:left] = _round(lane[:left], words.at(rows[:left], start + number * _LANE, "<u8"))
    mixed = np.empty_like(seeds)
    mixed[order] = _merge(lanes)
    return mixed


def _further(lanes: Iterator[int], stripes: Iterator[tuple[int, ...]]) -> tuple[int, int, int, int]:
    """The lanes of one text after more stripes of it, by numbers of Python."""
    p1, p2, word = int(_P1), int(_P2), _WORD
    a, b, c, d = lanes
    for of_a, of_b, of_c, of_d in stripes:
        a, b, c, d = a + of_a * p2 & word, b + of_b * p2 & word, c + of_c * p2 & word, d + of_d * p2 & word
        a, b = (a << 31 | a >> 33) * p1 & word, (b << 31 | b >> 33) * p1 & word
        c, d = (c << 31 | c >> 33) * p1 & word, (d << 31 | d >> 33) * p1 & word
    return a, b, c, d


def _merge(lanes: list[Words]) -> Words:
    mixed = np.zeros_like(lanes[0])
    for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True):
        mixed += _rotate(lane, bits)
    for lane in lanes:
        mixed = (mixed ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
    return mixed


def _add_tail(mixed: Words, words: _Unaligned, done: Places, left: Places) -> Words:
    """The last up to 31 bytes: words of 8, then one of 4, then single bytes."""
    whole, rest = left // _LANE, left % _LANE
    for number in range(_STRIPE // _LANE - 1):
        at = done + number * _LANE

        def add_lane(rows: Any, at: Places = at) -> Words:
            return _add_lane(mixed[rows], words.at(rows, at[rows], "<u8"))

        _where(whole > number, add_lane, mixed)
    at = done + whole * _LANE
    _where(rest >= _HALF_LANE, lambda rows: _add_half_lane(mixed[rows], words.at(rows, at[rows], "<u4")), mixed)
    at, rest = at + (rest & _HALF_LANE), rest % _HALF_LANE
    for number in range(_HALF_LANE - 1):

        def add_byte(rows: Any, number: int = number) -> Words:
            return _add_byte(mixed[rows], words.at(rows, at[rows] + number, "u1"))

        _where(rest > number, add_byte, mixed)
    return mixed


def _where(rows: npt.NDArray[np.bool_], change: Callable[[Any], Words], values: Words) -> None:
    """Change the ``values`` of some rows; of all of them without looking each up."""
    chosen = np.flatnonzero(rows)
    if len(chosen) == len(values):
        values[:] = change(slice(None))
    elif len(chosen):
        values[chosen] = change(chosen)


def _round(lane: Words, word: Words) -> Words:
    return _rotate(lane + word * _P2, 31) * _P1


def _add_lane(mixed: Words, word: Words) -> Words:
    return _rotate(mixed ^ _rotate(word * _P2, 31) * _P1, 27) * _P1 + _P4


def _add_half_lane(mixed: Words, half: Words) -> Words:
    return _rotate(mixed ^ half * _P1, 23) * _P2 + _P3


def _add_byte(mixed: Words, byte: Words) -> Words:
    return _rotate(mixed ^ byte * _P5, 11) * _P1


def _finish(mixed: Words) -> Words:
    mixed = (mixed ^ (mixed >> np.uint64(33))) * _P2
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _P3
    return mixed ^ (mixed >> np.uint64(32))


def _rotate(values: Words, bits: int) -> Words:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
