"""Measures days on Spark's executors, each of which reads the files of its days itself, with the same kernels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Aggregates, Metrics
from backfill_assets.model.measure import Aggregate
from backfill_assets.quality.measures import as_metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_assets.model.contract import Contract


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
