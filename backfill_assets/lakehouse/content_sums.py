"""The content of rows, in any order and any files: how many, and the sum of their hashes; over Arrow's buffers.

Two sides are compared batch by batch, so memory stays that of a batch. A hash has 64 bits: it finds rows that were
lost, doubled or changed, and is no protection against a search for two rows of one hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]
_NULL, _SEED = np.uint64(0x9AE16A3B2F90404F), np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_WORD = 8
_VIEWS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary_view)


@dataclass(frozen=True)
class ContentSums:
    """The number of rows, and the sum of their hashes modulo 2 to the 64."""

    rows: int = 0
    hashes: int = 0

    def __add__(self, other: ContentSums) -> ContentSums:
        return ContentSums(self.rows + other.rows, (self.hashes + other.hashes) % 2**64)


def content_sums(batches: Iterable[pa.RecordBatch]) -> ContentSums:
    """The sums of all rows of ``batches``. The order of rows and columns and where a batch ends do not matter."""
    return sum((_sums_of(batch) for batch in batches), ContentSums())


def _sums_of(batch: pa.RecordBatch) -> ContentSums:
    columns = [_hashes(batch.column(name)) for name in sorted(batch.schema.names)]
    rows = _combine(columns, batch.num_rows)
    return ContentSums(batch.num_rows, int(np.add.reduce(rows, dtype=np.uint64)) if batch.num_rows else 0)


def _combine(columns: Iterable[Hashes], rows: int) -> Hashes:
    hashes = np.full(rows, _SEED)
    for column in columns:
        hashes = _mix(hashes ^ column)
    return hashes


def _hashes(values: pa.Array) -> Hashes:
    """A hash of each value; equal values of a type have equal ones, and all nulls one of their own."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _hashes(values.dictionary_decode())
    if pa.types.is_null(kind) or not len(values):
        return np.full(len(values), _NULL)
    hashes = _hash_of(kind)(values)
    return hashes if not values.null_count else np.where(np.asarray(pc.is_valid(values)), hashes, _NULL)


def _hash_of(kind: pa.DataType) -> Callable[[Any], Hashes]:
    if pa.types.is_struct(kind):
        return _of_structures
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _of_lists
    if pa.types.is_boolean(kind):
        return lambda values: _of_fixed_width(values.cast(pa.uint8()))
    if any(is_one(kind) for is_one in _VIEWS) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda values: _of_bytes(values.cast(pa.large_binary()))
    return _of_fixed_width


def _of_fixed_width(values: pa.Array) -> Hashes:
    """Numbers, decimals, days and moments: their bytes, whole words of them or one that is filled up."""
    width = values.type.bit_width // 8
    data = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * width :][: len(values) * width]
    if width % _WORD:
        filled = np.zeros((len(values), -(-width // _WORD) * _WORD), np.uint8)
        filled[:, :width] = data.reshape(len(values), width)
        data = filled.reshape(-1)
    words = data.view("<u8").reshape(len(values), -1)
    return _combine((_mix(words[:, at]) for at in range(words.shape[1])), len(values))


def _of_bytes(values: pa.Array) -> Hashes:
    """Word by word, of all values that are as long at once."""
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset :][: len(values) + 1]
    lengths = np.diff(offsets)
    hashes = _mix(lengths.astype(np.uint64) ^ _SEED)
    data = values.buffers()[2]
    text = np.frombuffer(data, np.uint8)[: offsets[-1]] if data is not None else np.empty(0, np.uint8)
    text = np.concatenate([text, np.zeros(_WORD, np.uint8)])
    words = np.ndarray((len(text) - _WORD + 1,), "<u8", buffer=text.data, strides=(1,))
    longer, at = np.flatnonzero(lengths > 0), 0
    while len(longer):
        left = np.minimum(lengths[longer] - at, _WORD).astype(np.uint64)
        # The bytes behind the value are shifted out at the top.
        word = words[offsets[longer] + at] << ((np.uint64(_WORD) - left) * np.uint64(8))
        hashes[longer] = _mix(hashes[longer] ^ word)
        at += _WORD
        longer = longer[lengths[longer] > at]
    return hashes


def _of_lists(values: Any) -> Hashes:
    """Each item with its place, added up."""
    offsets = np.asarray(values.offsets).astype(np.int64)
    first, lengths = offsets[0], np.diff(offsets)
    items = values.values.slice(first, offsets[-1] - first)
    places = np.arange(len(items)) - np.repeat(offsets[:-1] - first, lengths)
    each = _mix(_hashes(items) + places.astype(np.uint64) * _SEED)
    totals = np.concatenate([np.zeros(1, np.uint64), np.cumsum(each, dtype=np.uint64)])
    sums = totals[offsets[1:] - first] - totals[offsets[:-1] - first]
    return _mix(sums ^ _mix(lengths.astype(np.uint64)))


def _of_structures(values: Any) -> Hashes:
    return _combine((_hashes(child) for child in values.flatten()), len(values))


def _mix(values: Hashes) -> Hashes:
    """The last steps of splitmix64: each bit of what comes in changes half of what goes out."""
    values = values + _SEED
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))
