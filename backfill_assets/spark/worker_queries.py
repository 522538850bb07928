"""The declared query as workers get it: DuckDB's SQL, made once in the driver, with the hashes beside each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from backfill_assets.judge.engine import batches, columns_of
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import Table
from backfill_assets.model.landed_values import AS_HASHED
from backfill_assets.model.measure import hashes_written_of

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from duckdb import DuckDBPyConnection

    from backfill_assets.model.contract import Contract

ROWS_AT_ONCE = 100_000


def columns_written(table: Table) -> pa.Schema:
    """The columns of the files of ``table``: those of its contract, the hashes beside them, and the day."""
    return columns_of(table.contract, [each.name for each in hashes_written_of(table)])


def written_schema(contract: type[Contract]) -> StructType:
    """The schema of rows of ``contract`` as timelines have it: without the descriptions of columns."""
    return StructType([StructField(each.name, each.dataType) for each in struct_type(contract)])


def with_hashes(rows: ir.Table, table: Table) -> ir.Table:
    """``rows`` of ``table`` with the hashes that are written beside them, and without what was carried for these."""
    found = rows.mutate(**{each.name: each.value(rows) for each in hashes_written_of(table)})
    return found.drop(AS_HASHED) if AS_HASHED in rows.columns else found


@contextmanager
def made_meanwhile(*queries: Callable[[], object]) -> Iterator[None]:
    """Has ``queries`` made, which are kept, while the block waits for something else; Spark's start, say.

    An error of theirs is raised where the query is asked for.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="queries") as beside:
        for query in queries:
            beside.submit(query)
        yield


def sql_of(expression: ir.Table) -> str:
    """DuckDB's SQL of an expression over tables that the worker names."""
    import ibis

    return str(ibis.to_sql(expression, dialect="duckdb"))


def streamed(connection: DuckDBPyConnection, asked: str, at_once: int = ROWS_AT_ONCE) -> Iterator[pa.RecordBatch]:
    """The rows that ``asked`` gives, some at a time."""
    return batches(connection, asked, at_once)


def stored(connection: DuckDBPyConnection, name: str, asked: str) -> Iterator[pa.RecordBatch]:
    """The rows that ``asked`` gives, computed before the first is taken, in the temporary table ``name``.

    :func:`streamed` is for queries of one part: of two that give rows which nobody has taken yet, DuckDB waits for ever
    if it has one thread.
    """
    connection.execute(f"CREATE TEMP TABLE {name} AS {asked}")
    return streamed(connection, f"FROM {name}")
