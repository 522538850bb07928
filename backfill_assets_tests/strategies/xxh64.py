"""XXH64 in plain Python, after its specification: an independent answer for content hashes."""

from __future__ import annotations

from collections.abc import Iterable

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxh64(data: bytes, seed: int) -> int:
    """The unsigned hash of ``data``."""
    at = 0
    if len(data) >= 32:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        while at + 32 <= len(data):
            lanes = [_round(lane, _word(data, at + 8 * n, 8)) for n, lane in enumerate(lanes)]
            at += 32
        mixed = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            mixed = ((mixed ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        mixed = (seed + _P5) & _MASK
    return _finished(_with_tail((mixed + len(data)) & _MASK, data, at))


def chained(values: Iterable[str], seed: int = 42) -> int:
    """The signed hash of several texts, each seeded by the one before, as Spark does it."""
    return chained_bytes((value.encode() for value in values), seed)


def chained_bytes(values: Iterable[bytes | None], seed: int = 42) -> int:
    """The same of bytes; nulls are passed over."""
    hashed = seed
    for value in values:
        hashed = hashed if value is None else xxh64(value, hashed)
    return hashed - (1 << 64) if hashed >> 63 else hashed


def _with_tail(mixed: int, data: bytes, at: int) -> int:
    while at + 8 <= len(data):
        mixed = (_rotated(mixed ^ _round(0, _word(data, at, 8)), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= len(data):
        mixed = (_rotated(mixed ^ (_word(data, at, 4) * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        mixed = _rotated(mixed ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    return mixed


def _finished(mixed: int) -> int:
    mixed = (mixed ^ mixed >> 33) * _P2 & _MASK
    mixed = (mixed ^ mixed >> 29) * _P3 & _MASK
    return mixed ^ mixed >> 32


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _word(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")
