"""Spark's ``xxhash64`` as a function of DuckDB: XXH64 of value after value, each seeded with the hash before it.

A null leaves the hash as it is. Vectors of rows come as Arrow arrays, and all rows of one are hashed together in numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.errors import InvalidRequest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Hashes = npt.NDArray[np.uint64]
NAME = "spark_xxhash64"
_SEED = 42
_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_P1_P2 = np.uint64(0x60EA27EEADC0B5D6)
"""The sum of both."""
_STRIPE, _WORD, _HALF = 32, 8, 4
_DIGITS_OF_LONG = 18


def register(connection: DuckDBPyConnection) -> None:
    """Make :data:`NAME` known to DuckDB: a BIGINT of any number of arguments of any scalar types."""
    connection.create_function(
        NAME,
        hashes_of_rows,
        None,  # type: ignore[arg-type]
        "BIGINT",  # type: ignore[arg-type]
        type="arrow",  # type: ignore[arg-type]
        null_handling="special",  # type: ignore[arg-type]
    )


def hashes_of_rows(*columns: pa.ChunkedArray) -> pa.Array:
    """The hash of each row (int64), over its values in the order of ``columns``."""
    hashes = np.full(len(columns[0]), _SEED, np.uint64)
    for column in columns:
        hashes = _with_values(hashes, column.combine_chunks())
    return pa.array(hashes.view(np.int64))


def _with_values(seeds: Hashes, values: pa.Array) -> Hashes:
    if values.null_count == len(values):
        return seeds
    hashes = _hashed(seeds, values)
    if values.null_count == 0:
        return hashes
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), hashes, seeds)


def _hashed(seeds: Hashes, values: pa.Array) -> Hashes:
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_texts(seeds, values)
    if pa.types.is_decimal128(kind):
        return _of_decimals(seeds, values)
    if pa.types.is_int64(kind) or kind in _MOMENTS:
        return _of_words(seeds, _numbers(values, np.uint64))
    if pa.types.is_integer(kind) and pa.types.is_signed_integer(kind):
        return _of_halves(seeds, _numbers(values.cast(pa.int32()), np.uint32))
    if pa.types.is_date32(kind):
        return _of_halves(seeds, _numbers(values, np.uint32))
    if pa.types.is_boolean(kind):
        return _of_halves(seeds, _numbers(values.cast(pa.int32()), np.uint32))
    if pa.types.is_float64(kind):
        return _of_words(seeds, _bits(_numbers(values, np.float64), np.uint64))
    if pa.types.is_float32(kind):
        return _of_halves(seeds, _bits(_numbers(values, np.float32), np.uint32))
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _of_texts(seeds, values)
    raise InvalidRequest(f"No hash of a row is made of values of the type {kind}.")


_MOMENTS = (pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.timestamp("us", tz="Etc/UTC"))


def _numbers(values: pa.Array, kind: Any) -> Any:
    size = np.dtype(kind).itemsize
    return np.frombuffer(values.buffers()[1], kind, len(values), values.offset * size)


def _bits(numbers: Any, kind: Any) -> Any:
    """Of 0.0 for -0.0, and of one NaN for all."""
    plain = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers + numbers.dtype.type(0))
    return plain.view(kind)


def _of_decimals(seeds: Hashes, values: pa.Array) -> Hashes:
    """Of the unscaled number: a word if its type has no more digits than one holds, or else its shortest bytes."""
    if values.type.precision <= _DIGITS_OF_LONG:
        halves = np.frombuffer(values.buffers()[1], np.uint64, 2 * len(values), 16 * values.offset)
        return _of_words(seeds, halves[::2])
    unscaled = (_bytes_of(each) for each in values.to_pylist())
    return _of_texts(seeds, pa.array(unscaled, pa.binary()))


def _bytes_of(number: Any) -> bytes | None:
    if number is None:
        return None
    sign, digits, _ = number.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)


# ------------------------------------------------------------------ XXH64


def _of_words(seeds: Hashes, words: Any) -> Hashes:
    return _finished(_with_word(seeds + _P5 + np.uint64(_WORD), words.astype(np.uint64)))


def _of_halves(seeds: Hashes, halves: Any) -> Hashes:
    return _finished(_with_half(seeds + _P5 + np.uint64(_HALF), halves.astype(np.uint64)))


def _of_texts(seeds: Hashes, values: pa.Array) -> Hashes:
    _, offsets, content = values.buffers()
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32, len(values) + 1, values.offset * (8 if wide else 4))
    ends = ends.astype(np.int64)
    first, last = int(ends[0]), int(ends[-1])
    # Words may be read from behind the last text, which are not looked at.
    data = np.zeros(last - first + _STRIPE, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(content, np.uint8, last - first, first)
    return _of_bytes(seeds, data, ends[:-1] - first, np.diff(ends))


def _of_bytes(seeds: Hashes, data: Any, starts: Any, lengths: Any) -> Hashes:
    words = np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
    hashes = seeds + _P5
    long = np.flatnonzero(lengths >= _STRIPE)
    if len(long):
        hashes[long] = _of_stripes(seeds[long], words, starts[long], lengths[long] // _STRIPE)
    hashes += lengths.astype(np.uint64)
    left, at = lengths % _STRIPE, starts + lengths // _STRIPE * _STRIPE
    for number in range(int(left.max()) // _WORD):
        some = np.flatnonzero(left >= _WORD * (number + 1))
        hashes[some] = _with_word(hashes[some], words[at[some] + _WORD * number])
    at = at + left // _WORD * _WORD
    some = np.flatnonzero(left & _HALF)
    hashes[some] = _with_half(hashes[some], words[at[some]] & np.uint64(0xFFFFFFFF))
    at[some] += _HALF
    for number in range(_HALF - 1):
        some = np.flatnonzero(left % _HALF > number)
        hashes[some] = _with_byte(hashes[some], data[at[some] + number].astype(np.uint64))
    return _finished(hashes)


def _of_stripes(seeds: Hashes, words: Any, starts: Any, stripes: Any) -> Hashes:
    lanes = [seeds + _P1_P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for number in range(int(stripes.max())):
        some = np.flatnonzero(stripes > number)
        at = starts[some] + _STRIPE * number
        for place, lane in enumerate(lanes):
            lane[some] = _round(lane[some], words[at + _WORD * place])
    hashes = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    for lane in lanes:
        hashes = (hashes ^ _round(np.uint64(0), lane)) * _P1 + _P4
    return hashes


def _with_word(hashes: Hashes, words: Any) -> Hashes:
    return _rotated(hashes ^ _round(np.uint64(0), words), 27) * _P1 + _P4


def _with_half(hashes: Hashes, halves: Any) -> Hashes:
    return _rotated(hashes ^ (halves * _P1), 23) * _P2 + _P3


def _with_byte(hashes: Hashes, each: Any) -> Hashes:
    return _rotated(hashes ^ (each * _P5), 11) * _P1


def _round(lanes: Any, words: Any) -> Any:
    return _rotated(lanes + words * _P2, 31) * _P1


def _finished(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


def _rotated(values: Any, bits: int) -> Any:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
