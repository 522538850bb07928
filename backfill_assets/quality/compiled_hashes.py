"""Hashes as in ``xxh64.py``, and of the texts of numbers, in loops that Numba compiles: for many rows.

Numba takes half a second to import and some seconds to compile, once on a machine: what it compiled is kept beside
this file. A text then takes a fifth of the time that numpy needs, its name in front of it included, and other threads
go on meanwhile. Every ``uint64`` is written out: with a signed number beside it, numpy's rules make it a float.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy import uint64 as u64

from backfill_assets.quality.xxh64 import Bytes, Places, Words

_P1, _P2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_P3, _P4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_ZERO, _ONE, _TEN = np.uint64(0), np.uint64(1), np.uint64(10)
_STRIPE, _LANE, _HALF_LANE = np.uint64(32), np.uint64(8), np.uint64(4)
_POINT, _MINUS, _DIGIT = np.uint8(ord(".")), np.uint8(ord("-")), np.uint64(ord("0"))
_LONGEST_NUMBER = 48
"""A sign, a point, and the digits of a number of 64 bits or of a decimal with up to 38 of them behind the point."""
_WORDS = types.Array(types.uint64, 1, "C")
_SEEDS, _PLACES, _BYTES = (
    types.Array(kind, 1, "C", readonly=True) for kind in (types.uint64, types.int64, types.uint8)
)


def hash_of_texts(prefix: bytes, data: Bytes, places: Places, seeds: Words) -> Words:
    """Of ``prefix`` and each text of ``data``: one begins at each of ``places``, and the last of them ends."""
    return np.asarray(_hash_of_texts(np.frombuffer(prefix, np.uint8), data, places, seeds))


def hash_of_numbers(prefix: bytes, unscaled: Places, scale: int, seeds: Words) -> Words:
    """Of ``prefix`` and the digits of each number, ``scale`` of them behind the point."""
    return np.asarray(_hash_of_numbers(np.frombuffer(prefix, np.uint8), unscaled, scale, seeds))


@njit(inline="always")
def _rotate(value: u64, bits: int) -> u64:
    return (value << u64(bits)) | (value >> u64(64 - bits))


@njit(inline="always")
def _round(lane: u64, word: u64) -> u64:
    return _rotate(lane + word * _P2, 31) * _P1


@njit(inline="always")
def _half_word(data: Bytes, at: u64) -> u64:
    """In such a form that the compiler makes one load of it."""
    low = u64(data[at]) | (u64(data[at + u64(1)]) << u64(8))
    return low | (u64(data[at + u64(2)]) << u64(16)) | (u64(data[at + u64(3)]) << u64(24))


@njit(inline="always")
def _word(data: Bytes, at: u64) -> u64:
    return _half_word(data, at) | (_half_word(data, at + _HALF_LANE) << u64(32))


@njit(inline="always")
def _hash(data: Bytes, at: u64, end: u64, seed: u64) -> u64:
    """Places are unsigned: of a signed one, Numba looks whether it counts from the end."""
    length = end - at
    if length >= _STRIPE:
        one, two, three, four = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + _STRIPE <= end:
            one, two = _round(one, _word(data, at)), _round(two, _word(data, at + u64(8)))
            three, four = _round(three, _word(data, at + u64(16))), _round(four, _word(data, at + u64(24)))
            at += _STRIPE
        mixed = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
        mixed = (mixed ^ _round(_ZERO, one)) * _P1 + _P4
        mixed = (mixed ^ _round(_ZERO, two)) * _P1 + _P4
        mixed = (mixed ^ _round(_ZERO, three)) * _P1 + _P4
        mixed = (mixed ^ _round(_ZERO, four)) * _P1 + _P4
    else:
        mixed = seed + _P5
    mixed += length
    while at + _LANE <= end:
        mixed = _rotate(mixed ^ _round(_ZERO, _word(data, at)), 27) * _P1 + _P4
        at += _LANE
    if at + _HALF_LANE <= end:
        mixed = _rotate(mixed ^ (_half_word(data, at) * _P1), 23) * _P2 + _P3
        at += _HALF_LANE
    while at < end:
        mixed = _rotate(mixed ^ (u64(data[at]) * _P5), 11) * _P1
        at += _ONE
    mixed = (mixed ^ (mixed >> u64(33))) * _P2
    mixed = (mixed ^ (mixed >> u64(29))) * _P3
    return mixed ^ (mixed >> u64(32))


@njit(_WORDS(_BYTES, _BYTES, _PLACES, _SEEDS), nogil=True, cache=True)
def _hash_of_texts(prefix: Bytes, data: Bytes, places: Places, seeds: Words) -> Words:
    hashes = np.empty(len(seeds), np.uint64)
    longest = 0
    for row in range(len(seeds)):
        longest = max(longest, places[row + 1] - places[row])
    begin = u64(len(prefix))
    text = np.empty(len(prefix) + longest, np.uint8)
    text[: len(prefix)] = prefix
    for row in range(len(seeds)):
        first, last = u64(places[row]), u64(places[row + 1])
        if begin == _ZERO:
            hashes[row] = _hash(data, first, last, seeds[row])
        else:
            at = begin
            while first < last:
                text[at] = data[first]
                at += _ONE
                first += _ONE
            hashes[row] = _hash(text, _ZERO, at, seeds[row])
    return hashes


@njit(_WORDS(_BYTES, _PLACES, types.int64, _SEEDS), nogil=True, cache=True)
def _hash_of_numbers(prefix: Bytes, unscaled: Places, scale: int, seeds: Words) -> Words:
    """Each text is written from its end."""
    hashes = np.empty(len(seeds), np.uint64)
    begin, end = u64(len(prefix)), u64(len(prefix) + _LONGEST_NUMBER)
    text = np.empty(len(prefix) + _LONGEST_NUMBER, np.uint8)
    for row in range(len(seeds)):
        is_negative = unscaled[row] < 0
        left = _ZERO - u64(unscaled[row]) if is_negative else u64(unscaled[row])
        at, digits = end, 0
        while left != _ZERO or digits <= scale:
            if digits == scale and scale > 0:
                at -= _ONE
                text[at] = _POINT
            at -= _ONE
            text[at] = np.uint8(left % _TEN + _DIGIT)
            left //= _TEN
            digits += 1
        if is_negative:
            at -= _ONE
            text[at] = _MINUS
        at -= begin
        byte = _ZERO
        while byte < begin:
            text[at + byte] = prefix[byte]
            byte += _ONE
        hashes[row] = _hash(text, at, end, seeds[row])
    return hashes
