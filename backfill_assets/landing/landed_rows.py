"""Raw rows that Spark takes from its workers when it needs them: of landed files, and put on their days anew.

They are computed each time Spark needs them. What goes wrong then is raised as what it is within
:func:`~backfill_assets.spark.workers.errors_of_workers`.
"""

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
    """The rows of the tasks whose numbers Spark gives. No secret is in it."""

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
    """One row in :func:`raw_schema` for each line of ``files`` that is not blank: see ``landing/raw_query.py``.

    Works through Spark Connect, too. Raises :class:`LakehouseUnusable` if the workers lack this package. When rows are
    taken: :class:`SourceUnreadable` for a damaged file, and :class:`LakehouseUnusable` for a key that cannot be used.
    """
    if not files:
        return spark.createDataFrame([], raw_schema(source))
    require_workers(spark)
    tasks = landing_tasks(files)
    work = _RowsOfTasks(lines_query(source, token_key_file), _columns(source), tasks)
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(carrying(work), raw_schema(source))


def placed_anew(rows: DataFrame, source: Source) -> DataFrame:
    """Raw ``rows`` on the days where they belong by what ``source`` declares now; all else of them stays."""
    import ibis

    columns = _columns(source)
    raw = ibis.table(ibis.Schema.from_pyarrow(columns), name=ROWS)
    asked = sql_of(raw_query.placed_anew(raw, source))
    return by_query(rows, PartitionQuery(asked, columns, columns), raw_schema(source))


def _columns(source: Source) -> pa.Schema:
    """In the order that Spark is told: it takes columns from workers by their places."""
    columns = columns_of(raw_contract(source))
    return pa.schema([columns.field(name) for name in raw_schema(source).names])
