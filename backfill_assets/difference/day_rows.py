"""A day of a table as its files have it, for a comparison: hashes of keys and rows, groups as text, and totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import spark_types
from backfill_assets.model.declaration import Table
from backfill_assets.model.measure import KeyHash, RowHash
from backfill_assets.quality.arrow_hashes import NotRendered, fixed_width
from backfill_assets.quality.arrow_rows import DAY, ArrowRows, key_hashes
from backfill_assets.quality.arrow_texts import text_of_values
from backfill_assets.quality.native_measures import ROWS_AT_ONCE
from backfill_assets.quality.xxh64 import Words

if TYPE_CHECKING:
    from backfill_assets.model.contract import Contract

DayFiles = Mapping[date, Sequence[AddedFile]]
"""The files that have the rows of each day, as the lakehouse names them."""
_MOST_DIGITS_BEFORE_THE_POINT = 18
_MOST_DECIMALS = 10
"""Sums are shown with as many decimals, and what Spark adds up has ten digits more than its values."""
_MOST_DIGITS = 38


@dataclass(frozen=True)
class DayRows:
    """The rows of one day on one side, in the order of its files."""

    keys: Words
    """A hash of the key of each row; none in a table without a key."""
    rows: Words
    """A hash of all that is in each row."""
    groups: tuple[pa.ChunkedArray, ...]
    """The text of each column of ``table.groups``."""
    totals: tuple[pa.ChunkedArray, ...]
    """The values of each column of ``table.totals``, as decimals that can be added up."""

    def __len__(self) -> int:
        return len(self.rows)


def read_day(storage: Storage, table: Table, day: date, files: Sequence[AddedFile]) -> DayRows:
    """Raises :class:`NotRendered` where only Spark can compare the rows."""
    return day_rows(table, day_batches(storage, table.contract, day, files))


def day_rows(table: Table, batches: Iterable[ArrowRows]) -> DayRows:
    """What is known of all rows of a day, which are in ``batches``. Raises :class:`NotRendered`."""
    kinds, parts = total_types(table), [_rows_of_a_batch(table, rows) for rows in batches]
    return DayRows(
        keys=np.concatenate([np.empty(0, np.uint64), *(part.keys for part in parts)]),
        rows=np.concatenate([np.empty(0, np.uint64), *(part.rows for part in parts)]),
        groups=tuple(_chunked([part.groups[n] for part in parts], pa.string()) for n in range(len(table.groups))),
        totals=tuple(_chunked([part.totals[n] for part in parts], kind) for n, kind in enumerate(kinds)),
    )


def day_batches(
    storage: Storage, contract: type[Contract], day: date, files: Sequence[AddedFile]
) -> Iterator[ArrowRows]:
    """The rows of a day, some at a time, with every column of ``contract``: one that a file lacks is null.

    Raises :class:`NotRendered` if a file has other types than are declared.
    """
    kinds = arrow_types(contract)
    for file in files:
        for batch in storage.parquet_batches(file.path, ROWS_AT_ONCE, tuple(kinds)):
            yield ArrowRows(_in_shape(batch, kinds), day)


def arrow_types(contract: type[Contract]) -> Mapping[str, pa.DataType]:
    """How files have each column, without the day, which is that of their folder."""
    return {name: to_arrow_type(kind, timezone="UTC") for name, kind in spark_types(contract).items() if name != DAY}


def total_types(table: Table) -> list[pa.DataType]:
    """What the totals of ``table`` are added up as. Raises :class:`NotRendered` where that would not be exact."""
    kinds = arrow_types(table.contract)
    return [_type_of_sum(kinds[name]) for name in table.totals]


def _rows_of_a_batch(table: Table, rows: ArrowRows) -> DayRows:
    kinds = zip(table.totals, total_types(table), strict=True)
    return DayRows(
        keys=key_hashes(rows, KeyHash.of(table)) if table.key else np.empty(0, np.uint64),
        rows=fixed_width(rows.value(RowHash(table.contract)), np.uint64),
        groups=tuple(pa.chunked_array([text_of_values(rows.column(name), "")]) for name in table.groups),
        totals=tuple(pa.chunked_array([rows.column(name).cast(kind)]) for name, kind in kinds),
    )


def _chunked(parts: Iterable[pa.ChunkedArray], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], kind)


def _in_shape(batch: pa.RecordBatch, kinds: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    columns = []
    for name, kind in kinds.items():
        values = batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, kind)
        if values.type != kind:
            raise NotRendered(f"{name} is {values.type} in a file, and declared as {kind}.")
        columns.append(values)
    return pa.RecordBatch.from_arrays(columns, list(kinds))


def _type_of_sum(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_signed_integer(kind):
        return pa.decimal128(_MOST_DIGITS, 0)
    exact = pa.types.is_decimal128(kind) and kind.scale <= _MOST_DECIMALS
    if not exact or kind.precision - kind.scale > _MOST_DIGITS_BEFORE_THE_POINT:
        raise NotRendered(f"The sum of {kind}.")
    return pa.decimal128(_MOST_DIGITS, kind.scale)
