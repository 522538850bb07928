"""Measures days from their files with kernels over Arrow's buffers; Spark measures what has no rendering for Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Metrics, Table
from backfill_assets.quality import measures
from backfill_assets.quality.compilation import compile_for
from backfill_assets.rebuild.measuring.measure_on_executors import can_measure, measure_on_executors, measure_paths

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
    by_day: dict[date, list[str]] = {}
    for file in files:
        by_day.setdefault(date.fromisoformat(file.day), []).append(f"{path}/{file.path}")
    if storage.is_folder or sum(file.size for file in files) <= MOST_BYTES_FROM_A_BUCKET:
        compile_for(count)
        return measures.complete_days(_measure_here(storage, table, by_day), table, rows, count)
    spark, root = rows().sparkSession, storage.uri()
    if not can_measure(spark, root):
        return measures.measure_days(rows(), table, count)
    known = measure_on_executors(spark, root, by_day, table.contract, measures.numbers(table))
    return measures.complete_days(known, table, rows, count)


def _measure_here(storage: Storage, table: Table, files: Mapping[date, Sequence[str]]) -> dict[date, Metrics]:
    """What Arrow's kernels measure of each day, a few days at a time."""
    metrics = measures.numbers(table)

    def measured(day: date) -> Metrics:
        return measure_paths(storage, files[day], day, table.contract, metrics)

    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS)) as threads:
        return dict(zip(files, threads.map(measured, files), strict=True))
