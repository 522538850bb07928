from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from backfill_assets import clock
from backfill_assets.judge.engine import batches, columns_of, database
from backfill_assets.lakehouse.day_files import DayFolders, day_folders, write_days
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.model.declaration import Table
from backfill_assets.spark.worker_queries import columns_written, sql_of, with_hashes
from backfill_assets.spark.workers import carrying, of_partitions, require_workers

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

ROWS = "partition_rows"
ROWS_FOR_SPARK = 16_384
"""The JVM holds whole batches."""
_FOUND = "found"


def _as_it_is(_: DuckDBPyConnection) -> None:
    pass


@dataclass(frozen=True)
class PartitionQuery:
    """DuckDB's SQL, without secrets. :data:`ROWS` is a stream, named once: what is used twice is ``MATERIALIZED``."""

    asked: str
    given: pa.Schema
    found: pa.Schema
    known: Callable[[DuckDBPyConnection], None] = field(default=_as_it_is)
    """Runs in the worker before the query. Picklable."""

    def __call__(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Computes all before the first row is returned."""
        first = next(given, None)
        if first is None:
            return
        with database(threads=1) as connection:
            self.known(connection)
            connection.register(ROWS, self._rows(chain([first], given)))
            connection.execute(f"CREATE TEMP TABLE {_FOUND} AS {self.asked}")
            for batch in batches(connection, f"FROM {_FOUND}", ROWS_FOR_SPARK):
                yield from in_columns(batch, self.found)

    def _rows(self, given: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
        cast = (part for batch in given for part in in_columns(batch, self.given))
        return pa.RecordBatchReader.from_batches(self.given, cast)


def in_columns(batch: pa.RecordBatch, columns: pa.Schema) -> list[pa.RecordBatch]:
    rows = pa.Table.from_batches([batch]).select(columns.names).cast(columns)
    return cast("list[pa.RecordBatch]", rows.to_batches())


def by_query(rows: DataFrame, query: PartitionQuery, schema: StructType) -> DataFrame:
    """Lazy. A query that compares rows needs them in one partition: ``rows.repartition("day")``.

    Raises :class:`LakehouseUnusable` if workers lack this package; later errors are those of
    :func:`~backfill_assets.spark.workers.errors_of_workers`.
    """
    require_workers(rows.sparkSession)
    return rows.select(*query.given.names).mapInArrow(carrying(query), schema)


def write_by_query(rows: DataFrame, query: PartitionQuery, into: DayFolders) -> list[AddedFile]:
    """A file a day and partition, in one job; no log names them yet."""
    written = of_partitions(rows.select(*query.given.names), _DayWriter(query, into))
    return [file for files in written for file in files]


def write_here(rows: pa.Table, table: Table, timeline: Timeline) -> list[AddedFile]:
    write = _DayWriter(_as_written(table), day_folders(timeline, table, columns_written(table)))
    return write(iter(rows.to_batches()))


@cache
def _as_written(table: Table) -> PartitionQuery:
    import ibis

    columns = columns_of(table.contract)
    rows = ibis.table(ibis.Schema.from_pyarrow(columns), name=ROWS)
    return PartitionQuery(sql_of(with_hashes(rows, table)), columns, columns_written(table))


@dataclass(frozen=True)
class _DayWriter:
    query: PartitionQuery
    into: DayFolders

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> list[AddedFile]:
        return write_days(self.query(batches), self.into, f"part-{clock.token(6)}")


def columns_of_rows(schema: StructType) -> pa.Schema:
    return pa.schema([(each.name, to_arrow_type(each.dataType, timezone="UTC")) for each in schema])
