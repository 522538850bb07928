"""Measures days from their files with kernels over Arrow's buffers; Spark measures what has no rendering for Arrow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Aggregates, Metrics, Table
from backfill_assets.model.measure import Aggregate
from backfill_assets.quality import measures
from backfill_assets.quality.compilation import compile_for
from backfill_assets.quality.measures import as_metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from backfill_assets.model.contract import Contract

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


# ------------------------------------------------------------------ on executors, which read files themselves


@cache
def can_measure(spark: SparkSession, root: str) -> bool:
    """Whether executors have this package and may read ``root``; asked once. Otherwise Spark measures as always."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from backfill_assets.quality import native_measures  # noqa: F401

        for batch in batches:
            Storage(root).folders("")
            yield batch

    try:
        return bool(spark.range(1).mapInArrow(read, "id bigint").count() == 1)
    except (PySparkException, Py4JError):
        return False


def measure_on_executors(
    spark: SparkSession,
    root: str,
    files: Mapping[date, Sequence[str]],
    contract: type[Contract],
    metrics: Aggregates,
) -> dict[date, Metrics]:
    """What Arrow's kernels measure of each day; ``files`` are the paths of its files below ``root``.

    Executors have the rights of their own environment: no key of an object store travels with the work.
    """
    wanted = {name: made for name, made in metrics.items() if isinstance(made, Aggregate)}

    def measured(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            days, paths = batch.column("day").to_pylist(), batch.column("files").to_pylist()
            found = [measure_paths(Storage(root), *each, contract, wanted) for each in zip(paths, days, strict=True)]
            texts = pa.array([json.dumps(as_metrics(each)) for each in found], pa.string())
            yield pa.RecordBatch.from_arrays([batch.column("day"), texts], ["day", "metrics"])

    work = spark.createDataFrame([(day, list(paths)) for day, paths in files.items()], "day date, files array<string>")
    found = work.repartition(len(files)).mapInArrow(measured, "day date, metrics string").collect()
    return {row["day"]: json.loads(row["metrics"]) for row in found}


def measure_paths(
    storage: Storage, paths: Sequence[str], day: date, contract: type[Contract], metrics: Aggregates
) -> Metrics:
    """What Arrow's kernels measure of a day whose rows are in ``paths``; reads a few rows at a time."""
    from backfill_assets.quality.native_measures import ROWS_AT_ONCE, measure_day

    columns = tuple(contract.fields())
    batches = (batch for path in paths for batch in storage.parquet_batches(path, ROWS_AT_ONCE, columns))
    return measure_day(batches, day, contract, metrics)
