"""Hashes of Arrow columns, as ``xxhash64`` of Spark has them: by type, over Arrow's buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.quality.compilation import compiled_hashes
from backfill_assets.quality.xxh64 import SEED, Bytes, Words, hash_of_bytes, hash_of_ints, hash_of_longs

MOST_DIGITS_IN_A_LONG = 18
_INTS = (pa.types.is_int8, pa.types.is_int16, pa.types.is_int32, pa.types.is_date32)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_LISTS = (pa.types.is_list, pa.types.is_large_list)


class NotRendered(Exception):
    """Arrow's kernels have no rendering of a metric: Spark measures it."""


def hash_of_row(columns: Iterable[pa.Array], rows: int) -> Words:
    """The hash of each of ``rows`` rows, whose columns are hashed in turn."""
    hashes = first_seeds(rows)
    for column in columns:
        hashes = hash_of_column(column, hashes)
    return hashes


def first_seeds(rows: int) -> Words:
    """What the first column of each row is seeded by."""
    return np.full(rows, SEED)


def hash_of_column(values: pa.Array, seeds: Words) -> Words:
    """The hash of each value, seeded by the hash of what is before it; where there is no value, the seed."""
    return hash_where_valid(values, _hash_of(values.type), seeds)


def hash_where_valid(values: pa.Array, hash_values: Callable[[pa.Array, Words], Words], seeds: Words) -> Words:
    """``hash_values`` where there is a value, and the seed where there is none."""
    if values.null_count == len(values):
        return seeds
    hashes = hash_values(values, seeds)
    return hashes if not values.null_count else np.where(is_valid(values), hashes, seeds)


def is_valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    return as_bools(pc.is_valid(values))


def as_bools(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Whether a condition is fulfilled, which null is not."""
    numbers = values.cast(pa.uint8())
    return fixed_width(numbers.fill_null(0) if numbers.null_count else numbers, np.uint8).view(np.bool_)


def fixed_width(values: pa.Array, kind: Any) -> npt.NDArray[Any]:
    """The values as an array of numpy, without a copy; a value that is null is any number."""
    if not len(values):
        return np.empty(0, kind)
    return np.frombuffer(values.buffers()[1], kind)[values.offset : values.offset + len(values)]


def limbs(values: pa.Array) -> npt.NDArray[Any]:
    """The unscaled numbers of decimals, each as four numbers of 32 bits, the least first."""
    return fixed_width(values, np.dtype(("<u4", 4)))


def unscaled(values: pa.Array) -> npt.NDArray[np.int64]:
    """The unscaled numbers of decimals of at most 18 digits."""
    return fixed_width(values, np.dtype(("<i8", 2)))[:, 0]


def _hash_of(kind: pa.DataType) -> Callable[[pa.Array, Words], Words]:
    """How values of ``kind`` are hashed. Raises :class:`NotRendered` if they are not."""
    found = next((hashed for is_one, hashed in _HASHES if is_one(kind)), None)
    if found is None:
        raise NotRendered(f"Arrow's kernels do not hash {kind}.")
    if any(is_one(kind) for is_one in _LISTS):
        _hash_of(kind.value_type)
    return found


def _hash_of_bools(values: pa.Array, seeds: Words) -> Words:
    return hash_of_ints(fixed_width(values.cast(pa.uint8()), np.uint8).astype(np.uint32), seeds)


def _hash_of_ints(values: pa.Array, seeds: Words) -> Words:
    numbers = fixed_width(values, f"<i{values.type.bit_width // 8}")
    return hash_of_ints(numbers.astype(np.int32).view(np.uint32), seeds)


def _hash_of_bigints(values: pa.Array, seeds: Words) -> Words:
    return hash_of_longs(fixed_width(values, np.uint64), seeds)


def is_micros(kind: pa.DataType) -> bool:
    """Whether ``kind`` is a moment in microseconds, as Spark keeps it."""
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "us"


def _hash_of_doubles(values: pa.Array, seeds: Words) -> Words:
    """For Java there is one zero and one NaN."""
    numbers = fixed_width(values, np.float64) + 0.0
    return hash_of_longs(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64), seeds)


def _hash_of_floats(values: pa.Array, seeds: Words) -> Words:
    numbers = fixed_width(values, np.float32) + np.float32(0)
    return hash_of_ints(np.where(np.isnan(numbers), np.float32(np.nan), numbers).view(np.uint32), seeds)


def _hash_of_decimals(values: pa.Array, seeds: Words) -> Words:
    """The unscaled number: as a bigint, or by the fewest bytes that hold it, the greatest first."""
    if values.type.precision <= MOST_DIGITS_IN_A_LONG:
        return hash_of_longs(np.ascontiguousarray(unscaled(values)).view(np.uint64), seeds)
    data = np.ascontiguousarray(limbs(values)).view(np.uint8).reshape(-1, 16)[:, ::-1]
    lengths = 16 - _superfluous(data)
    starts = np.arange(1, len(values) + 1, dtype=np.int64) * 16 - lengths
    return hash_of_bytes(np.ascontiguousarray(data).reshape(-1), starts, lengths, seeds)


def _superfluous(numbers: Bytes) -> npt.NDArray[np.int64]:
    """How many bytes at the front only repeat the sign."""
    signs = np.where(numbers[:, :1] >> 7, 0xFF, 0).astype(np.uint8)
    repeats = (numbers[:, :-1] == signs) & ((numbers[:, 1:] >> 7) == (signs >> 7))
    return np.asarray(np.logical_and.accumulate(repeats, axis=1).sum(axis=1), dtype=np.int64)


def _hash_of_texts(values: pa.Array, seeds: Words) -> Words:
    data, places = bytes_and_places(values)
    compiled = compiled_hashes()
    if compiled is not None:
        return compiled.hash_of_texts(b"", data, places, seeds)
    return hash_of_bytes(data, places[:-1], np.diff(places), seeds)


def bytes_and_places(values: pa.Array) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """The bytes of all texts, and where in them each one begins and the last one ends."""
    places = fixed_offsets(values)
    data = values.buffers()[2]
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return text[places[0] : places[-1]], places - places[0]


def fixed_offsets(values: pa.Array) -> npt.NDArray[np.int64]:
    """Where each text or list of ``values`` begins, and where the last one ends."""
    large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    large = large or pa.types.is_large_list(values.type)
    if not len(values):
        return np.zeros(1, np.int64)
    offsets = np.frombuffer(values.buffers()[1], np.int64 if large else np.int32)
    return offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)


def _hash_of_lists(values: pa.Array, seeds: Words) -> Words:
    """Item by item: the first ones of all lists, then the second ones of those that have one."""
    places = fixed_offsets(values)
    lengths = np.where(is_valid(values), np.diff(places), 0)
    hashes = seeds.copy()
    for number in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > number)
        items = values.values.take(pa.array(places[:-1][rows] + number))
        hashes[rows] = hash_of_column(items, hashes[rows])
    return hashes


def hash_of_nulls_in_lists(values: pa.Array, seeds: Words) -> Words:
    """Which items of each list are null, as a list is hashed; the seed where none is."""
    if not values.values.null_count:
        return seeds
    hashes = _hash_of_lists(type(values).from_arrays(values.offsets, pc.is_null(values.values)), seeds)
    return np.where(as_bools(have_nulls(values)), hashes, seeds)


def have_nulls(values: pa.Array) -> pa.Array:
    """Whether an item of each list is null; null where there is no list."""
    places = fixed_offsets(values)
    nulls_before = np.concatenate([[0], np.cumsum(as_bools(pc.is_null(values.values)))])
    return pa.array(nulls_before[places[1:]] > nulls_before[places[:-1]], mask=~is_valid(values))


_HASHES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, Words], Words]], ...] = (
    (pa.types.is_boolean, _hash_of_bools),
    *((is_one, _hash_of_ints) for is_one in _INTS),
    (pa.types.is_int64, _hash_of_bigints),
    (is_micros, _hash_of_bigints),
    (pa.types.is_float64, _hash_of_doubles),
    (pa.types.is_float32, _hash_of_floats),
    (pa.types.is_decimal128, _hash_of_decimals),
    *((is_one, _hash_of_texts) for is_one in _TEXTS),
    *((is_one, _hash_of_lists) for is_one in _LISTS),
)
