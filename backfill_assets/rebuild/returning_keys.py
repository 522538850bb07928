"""Finds keys that arrived on one day and are on another one, too, from the key columns of files and without Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from backfill_assets.judge.measure import MOST_BYTES_FROM_A_BUCKET
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.canonical import canonical_text
from backfill_assets.model.declaration import Source
from backfill_assets.quality.arrow_hashes import NotRendered, as_bools, hash_of_row
from backfill_assets.quality.arrow_texts import text_of_landed
from backfill_assets.quality.compilation import compile_for
from backfill_assets.quality.xxh64 import Words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_BYTES = 512 * 2**20
"""Of larger files, the hashes of all keys would not fit beside Spark: 8 bytes a row, and as much again to sort them."""
MOST_NAMED = 1_000
"""Rows of as many keys are chosen by naming the hashes of these."""
_ROWS_AT_ONCE = 65_536
_BYTES_OF_A_ROW = 32
"""What a row of raw takes in Parquet at least, about."""
_KEYS_AS_A_MEASURED_ROW = 8
"""Compiled hashes gain 0.3 us on each key, and 2.4 on a measured row: loading them has to pay for itself."""
_SEVERAL_DAYS = -1
_ON_ARRIVAL_DAY = "day_is_arrival"


@dataclass(frozen=True)
class ReturningKeys:
    """Hashes of the keys that are on several days, and on which days of what was there they are.

    Two keys may have one hash: then there is one more here than there need be.
    """

    hashes: tuple[int, ...]
    days: frozenset[date]

    def rows(self, rows: DataFrame, source: Source) -> DataFrame:
        """Those of ``rows`` that have such a key; of very many keys, all rows."""
        if len(self.hashes) > MOST_NAMED:
            return rows
        key = (canonical_text(F.col(name), source.type_of(name)) for name in source.key_columns)
        return rows.where(F.xxhash64(*key).isin(list(self.hashes)))


Files = Mapping[date, Sequence[AddedFile]]
"""Files of a table by day."""


@dataclass(frozen=True)
class KeyFiles:
    """The files of some days, in which table or timeline they are, and how its paths begin."""

    folder: str
    by_day: Files

    def files(self) -> Iterator[AddedFile]:
        for files in self.by_day.values():
            yield from files

    def of_days(self, days: Collection[date]) -> KeyFiles:
        return KeyFiles(self.folder, {day: files for day, files in self.by_day.items() if day in days})


def returning_keys(storage: Storage, source: Source, arrived: KeyFiles, existing: KeyFiles) -> ReturningKeys | None:
    """The keys of ``arrived`` rows that are on another day as well, of arrived or of ``existing`` rows.

    Keys of equal values are one, however they were written. Rows whose day or key cannot be read have none. None if
    there is too much to look at in this process, or if only Spark reads the values.
    """
    size = sum(file.size for file in (*arrived.files(), *existing.files()))
    if size > (MOST_BYTES if storage.is_folder else MOST_BYTES_FROM_A_BUCKET):
        return None
    compile_for(size // _BYTES_OF_A_ROW // _KEYS_AS_A_MEASURED_ROW)
    try:
        return _found(storage, source, arrived, existing)
    except NotRendered:
        return None


def _found(storage: Storage, source: Source, arrived: KeyFiles, existing: KeyFiles) -> ReturningKeys:
    new = _Arrived.of(_keys(storage, source, arrived))
    again, met = [new.on_several_days], []
    for day, keys in _keys(storage, source, existing):
        known, elsewhere = new.among(keys, day)
        again.append(elsewhere)
        met.append((day, known))
    hashes = np.unique(np.concatenate(again))
    days = {date.fromordinal(day) for day, known in met if np.isin(known, hashes).any()}
    return ReturningKeys(tuple(int(each) for each in hashes.view(np.int64)), frozenset(days))


@dataclass(frozen=True)
class _Arrived:
    """The keys that arrived, in order and each once, with the one day that each is on or :data:`_SEVERAL_DAYS`."""

    keys: Words
    days: npt.NDArray[np.int64]

    @classmethod
    def of(cls, by_file: Iterable[tuple[int, Words]]) -> _Arrived:
        by_day: dict[int, list[Words]] = {}
        for day, keys in by_file:
            by_day.setdefault(day, []).append(keys)
        once = {day: np.unique(np.concatenate(keys)) for day, keys in by_day.items()}
        together = np.concatenate([np.empty(0, np.uint64), *once.values()])
        on_days = np.concatenate([np.full(len(keys), day) for day, keys in once.items()] or [np.empty(0, np.int64)])
        keys, first, count = np.unique(together, return_index=True, return_counts=True)
        return cls(keys, np.where(count > 1, _SEVERAL_DAYS, on_days[first]))

    @property
    def on_several_days(self) -> Words:
        several: Words = self.keys[self.days == _SEVERAL_DAYS]
        return several

    def among(self, keys: Words, day: int) -> tuple[Words, Words]:
        """Those of ``keys`` on ``day`` that arrived, and those of them that arrived on another day."""
        if not len(self.keys):
            return keys[:0], keys[:0]
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        known = self.keys[at] == keys
        return keys[known], keys[known & (self.days[at] != day)]


def hashed_batches(
    storage: Storage, source: Source, files: KeyFiles, others: Sequence[str]
) -> Iterator[tuple[date, pa.RecordBatch, Words]]:
    """Some rows of ``files`` with their keys and ``others`` as columns, on which day they are, and each key's hash.

    A file from before a column was declared lacks it. Raises :class:`NotRendered` for keys that only Spark reads.
    """
    names = tuple(dict.fromkeys((*source.key_columns, *others)))
    for day, some in files.by_day.items():
        for file in some:
            for batch in storage.parquet_batches(f"{files.folder}/{file.path}", _ROWS_AT_ONCE, names):
                texts = (text_of_landed(landed(batch, name), source, name) for name in source.key_columns)
                yield day, batch, hash_of_row(texts, batch.num_rows)


def landed(rows: pa.RecordBatch, name: str) -> pa.Array:
    """A landed field of raw rows; no value where their file is older than its declaration."""
    return rows.column(name) if name in rows.schema.names else pa.nulls(rows.num_rows, pa.string())


def _keys(storage: Storage, source: Source, files: KeyFiles) -> Iterator[tuple[int, Words]]:
    """The day of some rows, and the hashes of their keys."""
    for day, batch, hashes in hashed_batches(storage, source, files, (_ON_ARRIVAL_DAY,)):
        yield day.toordinal(), hashes[_have_keys(batch, source)]


def _have_keys(rows: pa.RecordBatch, source: Source) -> npt.NDArray[np.bool_]:
    """As ``landing/supersessions.py`` chooses rows; of a file without that column, none is on the day it arrived."""
    readable = [as_bools(pc.greater(pc.binary_length(landed(rows, name)), 0)) for name in source.key_columns]
    if _ON_ARRIVAL_DAY in rows.schema.names:
        readable.append(~as_bools(rows.column(_ON_ARRIVAL_DAY)))
    return reduce(np.logical_and, readable)
