"""Raw rows computed by Spark's workers at each use; see :func:`~backfill_assets.spark.workers.errors_of_workers`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from backfill_assets.judge.engine import columns_of
from backfill_assets.landing import raw_query
from backfill_assets.landing.landing_files import LandingFile, LinesQuery, landing_tasks, lines_query
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed import raw_contract, raw_schema
from backfill_assets.spark.partition_query import ROWS, ROWS_FOR_SPARK, PartitionQuery, by_query, in_columns
from backfill_assets.spark.worker_queries import sql_of
from backfill_assets.spark.workers import carrying, require_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class _RowsOfTasks:
    query: LinesQuery
    columns: pa.Schema
    tasks: Sequence[Sequence[LandingFile]]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for some in numbers:
            for number in some.column(0).to_pylist():
                with self.query.rows(self.tasks[number], ROWS_FOR_SPARK) as rows:
                    for batch in rows:
                        yield from in_columns(batch, self.columns)


def landed_rows(spark: SparkSession, source: Source, files: Sequence[LandingFile], token_key_file: str) -> DataFrame:
    """A raw row for each line that is not blank.

    Raises :class:`LakehouseUnusable` if workers lack this package; at use, :class:`SourceUnreadable` for damage, and
    :class:`LakehouseUnusable` for a wrong token key.
    """
    if not files:
        return spark.createDataFrame([], raw_schema(source))
    require_workers(spark)
    tasks = landing_tasks(files)
    work = _RowsOfTasks(lines_query(source, token_key_file), _columns(source), tasks)
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(carrying(work), raw_schema(source))


def placed_anew(rows: DataFrame, source: Source) -> DataFrame:
    import ibis

    columns = _columns(source)
    raw = ibis.table(ibis.Schema.from_pyarrow(columns), name=ROWS)
    asked = sql_of(raw_query.placed_anew(raw, source))
    return by_query(rows, PartitionQuery(asked, columns, columns), raw_schema(source))


def _columns(source: Source) -> pa.Schema:
    columns = columns_of(raw_contract(source))
    return pa.schema([columns.field(name) for name in raw_schema(source).names])
