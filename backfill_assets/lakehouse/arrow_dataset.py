"""Reads Delta tables with Arrow's own file systems: Arrow's threads run no Python.

With delta-rs's, written in Python, 2 of 300 short processes abort at their end ("terminate called without an active
exception", exit code 134).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable, Schema

from backfill_assets.lakehouse.delta_log import AddedFile, open_table
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN
from backfill_assets.lakehouse.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds


def arrow_dataset(storage: Storage, path: str, version: int | None = None) -> ds.Dataset:
    return dataset_of(storage, path, open_table(storage, path, version))


def dataset_of(storage: Storage, path: str, handle: DeltaTable, days: Iterable[date] = ()) -> ds.FileSystemDataset:
    chosen = [("day", "in", sorted(map(str, days)))] if days else None
    return handle.to_pyarrow_dataset(filesystem=storage.filesystem(path), file_pruning_predicate=chosen)


def dataset_of_files(storage: Storage, path: str, files: Sequence[AddedFile], schema: Schema) -> ds.FileSystemDataset:
    """Files of any versions; the add action has the day."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    columns, filesystem = pa.schema(schema.to_arrow()), storage.filesystem(path)
    parquet = ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=True))
    day = columns.field(PARTITION_COLUMN).type
    fragments = [
        parquet.make_fragment(
            file.path,
            filesystem=filesystem,
            partition_expression=ds.field(PARTITION_COLUMN) == pa.scalar(file.day).cast(day),
        )
        for file in files
    ]
    return ds.FileSystemDataset(fragments, columns, parquet, filesystem)


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Dates and times outside the years 1 to 9999 are text."""
    try:
        values: list[dict[str, Any]] = rows.to_pylist()
    except OverflowError:
        columns = {name: [_python_value(each) for each in rows.column(name)] for name in rows.column_names}
        values = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return values


def _python_value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except OverflowError:
        return value.cast("string").as_py()
