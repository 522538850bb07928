"""Spark's ``xxhash64``: XXH64 of each value, seeded with the hash before; nulls are skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.landed_values import HASH_OF_NAMED_TEXTS, HASH_OF_VALUES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
Rows = Numbers | slice
Places = int | Numbers
_SEED = 42
# Arrays without dimension: with numpy scalars the computation takes a third longer.
_P1, _P2, _P3 = (np.array(each, np.uint64) for each in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
_P4, _P5 = (np.array(each, np.uint64) for each in (0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5))
_LANES = np.array([[0x60EA27EEADC0B5D6], [0xC2B2AE3D27D4EB4F], [0], [0x61C8864E7A143579]], np.uint64)
"""P1 + P2, P2, 0, -P1."""
_BITS = [np.array(bits, np.uint64) for bits in range(64)]
_LOW_BYTE, _LOW_HALF = np.array(0xFF, np.uint64), np.array(0xFFFFFFFF, np.uint64)
_STRIPE, _WORD, _HALF = 32, 8, 4
_ALL = slice(None)
_DIGITS_OF_WORD = 18


def register(connection: DuckDBPyConnection) -> None:
    for name, function in {HASH_OF_VALUES: hashes_of_values, HASH_OF_NAMED_TEXTS: hashes_of_named_texts}.items():
        make = cast("Callable[..., object]", connection.create_function)
        make(name, function, None, "BIGINT", type="arrow", null_handling="special")


def hashes_of_values(*columns: pa.ChunkedArray) -> pa.Array:
    hashes = _first_seeds(columns[0])
    for column in columns:
        hashes = _with_values(hashes, _whole(column), b"")
    return pa.array(hashes.view(np.int64))


def hashes_of_named_texts(rows: pa.ChunkedArray) -> pa.Array:
    hashes = _first_seeds(rows)
    for field, texts in zip(rows.type, _whole(rows).flatten(), strict=True):
        hashes = _with_values(hashes, texts, f"{field.name}=".encode())
    return pa.array(hashes.view(np.int64))


def _first_seeds(column: pa.ChunkedArray) -> Words:
    return np.full(len(column), _SEED, np.uint64)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _with_values(seeds: Words, values: pa.Array, prefix: bytes) -> Words:
    if values.null_count == len(values):
        return seeds
    if not values.null_count:
        return _hashed(seeds, values, _ALL, prefix)
    present = np.flatnonzero(_bits(values.buffers()[0], values))
    hashes = seeds.copy()
    hashes[present] = _hashed(seeds[present], values, present, prefix)
    return hashes


# ------------------------------------------------------------------ values of each type


def _hashed(seeds: Words, values: pa.Array, present: Rows, prefix: bytes) -> Words:
    kind = values.type
    if kind in _TEXTS:
        return _of_texts(seeds, _texts(values, present, prefix))
    if kind in _BY_TYPE:
        return _BY_TYPE[kind](seeds, values, present)
    if pa.types.is_decimal128(kind):
        return _of_decimals(seeds, values, present)
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return _of_words(seeds, _numbers(values, np.uint64)[present])
    if pa.types.is_list(kind):
        return _of_lists(seeds, values.drop_null())
    raise InvalidRequest(f"A hash of a row takes no values of the type {kind}.")


def _numbers(values: pa.Array, kind: Any) -> Any:
    size = np.dtype(kind).itemsize
    return np.frombuffer(values.buffers()[1], kind, len(values), values.offset * size)


def _bits(buffer: pa.Buffer, values: pa.Array) -> npt.NDArray[np.uint8]:
    first = values.offset
    return np.unpackbits(np.frombuffer(buffer, np.uint8), count=first + len(values), bitorder="little")[first:]


def _of_booleans(seeds: Words, values: pa.Array, present: Rows) -> Words:
    return _of_halves(seeds, _bits(values.buffers()[1], values)[present])


def _of_integers(seeds: Words, values: pa.Array, present: Rows) -> Words:
    return _of_halves(seeds, _numbers(values.cast(pa.int32()), np.uint32)[present])


def _of_floats(seeds: Words, values: pa.Array, present: Rows) -> Words:
    numbers = _numbers(values, values.type.to_pandas_dtype())[present]
    with np.errstate(invalid="ignore"):
        plain = np.where(np.isnan(numbers), np.nan, numbers + 0).astype(numbers.dtype)
    if plain.itemsize == _WORD:
        return _of_words(seeds, plain.view(np.uint64))
    return _of_halves(seeds, plain.view(np.uint32))


def _of_decimals(seeds: Words, values: pa.Array, present: Rows) -> Words:
    """Like Spark: a word if the type's digits fit, else the shortest bytes."""
    if values.type.precision <= _DIGITS_OF_WORD:
        halves = np.frombuffer(values.buffers()[1], np.uint64, 2 * len(values), 2 * _WORD * values.offset)
        return _of_words(seeds, halves[::2][present])
    return _of_texts(seeds, _shortest_bytes(values.drop_null()))


def _shortest_bytes(values: pa.Array) -> _Texts:
    """Most significant first, without repeated sign bytes."""
    size = 2 * _WORD
    first_last = np.frombuffer(values.buffers()[1], np.uint8, size * len(values), size * values.offset)
    content = first_last.reshape(-1, size)[:, ::-1]
    not_sign = content ^ (np.uint8(0xFF) * (content[:, :1] >> 7))
    not_sign[:, -1] |= 1
    rows, first = np.arange(len(values)), (not_sign != 0).argmax(axis=1)
    # The first bit has to be the sign.
    first = first - (not_sign[rows, first] >> 7)
    data = np.concatenate([np.zeros(_STRIPE, np.uint8), content.ravel(), np.zeros(_STRIPE, np.uint8)])
    return _at(data, _STRIPE + size * rows + first, size - first, b"", size)


def _of_lists(seeds: Words, values: pa.Array) -> Words:
    """The end of a list is not hashed."""
    ends, hashes = values.offsets.to_numpy().astype(np.int64), seeds.copy()
    lengths = ends[1:] - ends[:-1]
    for number in range(int(lengths.max())):
        some = np.flatnonzero(lengths > number)
        hashes[some] = _with_values(hashes[some], values.values.take(pa.array(ends[some] + number)), b"")
    return hashes


_TEXTS = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.string_view(), pa.binary_view())
_AS_BINARY = (pa.string(), pa.binary())
_BY_TYPE: Mapping[pa.DataType, Callable[[Words, pa.Array, Rows], Words]] = MappingProxyType(
    {
        pa.int64(): lambda seeds, values, present: _of_words(seeds, _numbers(values, np.uint64)[present]),
        pa.date32(): lambda seeds, values, present: _of_halves(seeds, _numbers(values, np.uint32)[present]),
        pa.bool_(): _of_booleans,
        **dict.fromkeys([pa.int8(), pa.int16(), pa.int32()], _of_integers),
        **dict.fromkeys([pa.float32(), pa.float64()], _of_floats),
    }
)


# ------------------------------------------------------------------ texts


@dataclass(frozen=True)
class _Texts:
    """Texts behind a common prefix shorter than a stripe."""

    data: npt.NDArray[np.uint8]
    starts: Places
    """Only the first if lengths are equal."""
    lengths: Places
    """With prefix; one number if equal."""
    shortest: int
    longest: int
    prefix: bytes
    count: int
    apart: int

    def of_length(self, least: int) -> Rows | None:
        return _ALL if self.shortest >= least else _those(self.lengths >= least)

    def words(self, places: Places, some: Rows = _ALL) -> Words:
        """Word-aligned places. Bytes behind a text are arbitrary."""
        if isinstance(places, int):
            return self._words_at(places, some)
        read = self._read(places, some)
        if places.min() >= len(self.prefix):
            return read
        known, mask = _known(self.prefix)
        of_prefix: Numbers = np.minimum(places[some], _STRIPE) >> 3
        return (read & mask[of_prefix]) | known[of_prefix]

    def _words_at(self, place: int, some: Rows) -> Words:
        if place + _WORD <= len(self.prefix):
            return np.frombuffer(self.prefix, np.uint64, 1, place)
        read = self._read(place, some)
        if place >= len(self.prefix):
            return read
        known, mask = _known(self.prefix)
        return (read & mask[place >> 3, ...]) | known[place >> 3, ...]

    def stripes(self, place: int, some: Rows) -> Words:
        read = self._read(place, some, _STRIPE // _WORD)
        if place >= len(self.prefix):
            return read
        known, mask = (each[: len(read), np.newaxis] for each in _known(self.prefix))
        return (read & mask) | known

    def _read(self, places: Places, some: Rows, wide: int = 0) -> Words:
        at = self.starts + places
        if isinstance(at, int):
            size, apart = ((wide, self.count), (_WORD, self.apart)) if wide else ((self.count,), (self.apart,))
            return np.ndarray(size, np.uint64, self.data, at, apart).copy()
        window = np.ndarray((len(self.data) - _WORD + 1,), np.uint64, self.data, strides=(1,))
        return window[at[some] + _WORD * np.arange(wide)[:, np.newaxis] if wide else at[some]]


@lru_cache
def _known(prefix: bytes) -> tuple[Words, Words]:
    own = bytes(2 * _STRIPE - len(prefix))
    return np.frombuffer(prefix + own, np.uint64), ~np.frombuffer(b"\xff" * len(prefix) + own, np.uint64)


def _texts(values: pa.Array, present: Rows, prefix: bytes) -> _Texts:
    if values.type not in _AS_BINARY:
        values = values.cast(pa.binary())
    if len(prefix) >= _STRIPE:
        values, prefix = pc.binary_join_element_wise(prefix, values.cast(pa.binary()), b""), b""
    _, offsets, content = values.buffers()
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, _HALF * values.offset)
    first, size = int(ends[0]), int(ends[-1]) - int(ends[0])
    # Padding: words are also read from before and behind all texts.
    data = np.empty(size + 3 * _STRIPE, np.uint8)
    if size:
        data[_STRIPE : _STRIPE + size] = np.frombuffer(content, np.uint8, size, first)
    starts, lengths = ends[:-1][present] + (_STRIPE - first), np.diff(ends)[present]
    return _at(data, starts, lengths, prefix, int(lengths[0]))


def _at(data: npt.NDArray[np.uint8], starts: Any, lengths: Any, prefix: bytes, apart: int) -> _Texts:
    """A null may hide bytes: then texts are not evenly ``apart``."""
    before = len(prefix)
    shortest, longest = int(lengths.min()) + before, int(lengths.max()) + before
    if shortest == longest and starts[-1] - starts[0] == apart * (len(starts) - 1):
        return _Texts(data, int(starts[0]) - before, longest, shortest, longest, prefix, len(starts), apart)
    starts, lengths = (each.astype(np.int64) + more for each, more in ((starts, -before), (lengths, before)))
    return _Texts(data, starts, lengths, shortest, longest, prefix, len(starts), apart)


def _of_texts(seeds: Words, texts: _Texts) -> Words:
    hashes, striped = seeds + _P5, cast("Places", 0)
    if (long := texts.of_length(_STRIPE)) is not None:
        hashes, striped = _put(hashes, long, _of_stripes(seeds[long], texts, long)), texts.lengths & -_STRIPE
    hashes += np.uint64(texts.lengths)
    for at in range(0, _STRIPE - _WORD, _WORD):
        longer = texts.of_length(at + _WORD) if long is None else _those(texts.lengths - striped >= at + _WORD)
        if longer is not None:
            hashes = _put(hashes, longer, _with_word(hashes[longer], texts.words(striped + at, longer)))
    return _finished(_with_tail(hashes, texts))


def _of_stripes(seeds: Words, texts: _Texts, long: Rows) -> Words:
    """A lane per word; texts with equal numbers of stripes finish together."""
    lanes, rows = seeds + _LANES, np.arange(texts.count)[long]
    stripes = texts.lengths >> 5 if isinstance(texts.lengths, int) else texts.lengths[long] >> 5
    for first, last in pairwise([0, *np.unique(stripes).tolist()]):
        some = _those(stripes > first)
        part = lanes[:, some]
        for number in range(first, last):
            part = _round(part, texts.stripes(number * _STRIPE, long if isinstance(some, slice) else rows[some]))
        lanes[:, some] = part
    hashes = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
    for lane in lanes:
        hashes = (hashes ^ _rounded(lane)) * _P1 + _P4
    return hashes


def _with_tail(hashes: Words, texts: _Texts) -> Words:
    rest = texts.lengths & (_WORD - 1)
    if isinstance(rest, int) and not rest:
        return hashes
    left = texts.words(texts.lengths & -_WORD)
    if (some := _those(rest >= _HALF)) is not None:
        hashes = _put(hashes, some, _with_half(hashes[some], left[some] & _LOW_HALF))
        left[some] >>= _BITS[8 * _HALF]
    for number in range(_HALF - 1):
        if (some := _those(rest & (_HALF - 1) > number)) is None:
            break
        hashes = _put(hashes, some, _with_byte(hashes[some], left[some] >> _BITS[8 * number] & _LOW_BYTE))
    return hashes


def _those(fulfil: bool | npt.NDArray[np.bool_]) -> Rows | None:
    if isinstance(fulfil, bool):
        return _ALL if fulfil else None
    found = np.flatnonzero(fulfil)
    return found if len(found) else None


def _put(hashes: Words, some: Rows, changed: Words) -> Words:
    if isinstance(some, slice):
        return changed
    hashes[some] = changed
    return hashes


# ------------------------------------------------------------------ XXH64


def _of_words(seeds: Words, words: Words) -> Words:
    return _finished(_with_word(seeds + _P5 + _BITS[_WORD], words))


def _of_halves(seeds: Words, halves: npt.NDArray[np.unsignedinteger[Any]]) -> Words:
    return _finished(_with_half(seeds + _P5 + _BITS[_HALF], halves.astype(np.uint64)))


def _with_word(hashes: Words, words: Words) -> Words:
    found = _rotated(hashes ^ _rounded(words), 27)
    found *= _P1
    found += _P4
    return found


def _with_half(hashes: Words, halves: Words) -> Words:
    found = _rotated(hashes ^ (halves * _P1), 23)
    found *= _P2
    found += _P3
    return found


def _with_byte(hashes: Words, each: Words) -> Words:
    found = _rotated(hashes ^ (each * _P5), 11)
    found *= _P1
    return found


def _round(lanes: Words, words: Words) -> Words:
    return _multiplied(lanes + words * _P2)


def _rounded(words: Words) -> Words:
    return _multiplied(words * _P2)


def _multiplied(values: Words) -> Words:
    found = _rotated(values, 31)
    found *= _P1
    return found


def _finished(hashes: Words) -> Words:
    for bits, factor in ((33, _P2), (29, _P3)):
        hashes = hashes ^ (hashes >> _BITS[bits])
        hashes *= factor
    return hashes ^ (hashes >> _BITS[32])


def _rotated(values: Words, bits: int) -> Words:
    found = values << _BITS[bits]
    found |= values >> _BITS[64 - bits]
    return found
