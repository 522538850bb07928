"""Measures days from their files, here in this process, with kernels over Arrow's buffers; Spark measures the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Metrics, Table
from backfill_assets.quality import measures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_BYTES_FROM_A_BUCKET = 256 * 2**20
"""As much is read from an object store into this process; what is more, executors read side by side."""
_MOST_THREADS = 4


def measure_files(
    storage: Storage, table: Table, path: str, files: Sequence[AddedFile], rows: Callable[[], DataFrame], count: int
) -> dict[date, Metrics]:
    """The metrics of the days that have rows in ``files`` of the Delta table at ``path``; ``count`` is how many.

    ``rows`` are those files read by Spark, for what has no rendering for Arrow, and for examples of what is wrong.
    """
    if not storage.is_folder and sum(file.size for file in files) > MOST_BYTES_FROM_A_BUCKET:
        return measures.measure_days(rows(), table, count)
    return measures.complete_days(_known(storage, table, path, files), table, rows, count)


def _known(storage: Storage, table: Table, path: str, files: Sequence[AddedFile]) -> dict[date, Metrics]:
    """What Arrow's kernels measure of each day, a few days at a time."""
    from backfill_assets.quality.native_measures import measure_day

    metrics = measures.numbers(table)
    by_day: dict[str, list[AddedFile]] = {}
    for file in files:
        by_day.setdefault(file.day, []).append(file)

    def measured(day: str) -> tuple[date, Metrics]:
        when, batches = date.fromisoformat(day), _batches(storage, path, by_day[day])
        return when, measure_day(batches, when, table.contract, metrics)

    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS)) as threads:
        return dict(threads.map(measured, by_day))


def _batches(storage: Storage, path: str, files: Sequence[AddedFile]) -> Iterator[pa.RecordBatch]:
    from backfill_assets.quality.native_measures import ROWS_AT_ONCE

    for file in files:
        yield from storage.parquet_batches(f"{path}/{file.path}", ROWS_AT_ONCE)
