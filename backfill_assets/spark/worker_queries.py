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
    return columns_of(table.contract, [each.name for each in hashes_written_of(table)])


def written_schema(contract: type[Contract]) -> StructType:
    return StructType([StructField(each.name, each.dataType) for each in struct_type(contract)])


def with_hashes(rows: ir.Table, table: Table) -> ir.Table:
    found = rows.mutate(**{each.name: each.value(rows) for each in hashes_written_of(table)})
    return found.drop(AS_HASHED) if AS_HASHED in rows.columns else found


@contextmanager
def made_meanwhile(*queries: Callable[[], object]) -> Iterator[None]:
    """Errors are raised where the query is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="queries") as beside:
        for query in queries:
            beside.submit(query)
        yield


def sql_of(expression: ir.Table) -> str:
    import ibis

    return str(ibis.to_sql(expression, dialect="duckdb"))


def streamed(connection: DuckDBPyConnection, asked: str, at_once: int = ROWS_AT_ONCE) -> Iterator[pa.RecordBatch]:
    return batches(connection, asked, at_once)


def stored(connection: DuckDBPyConnection, name: str, asked: str) -> Iterator[pa.RecordBatch]:
    """With one thread, DuckDB waits forever for the second of two unread :func:`streamed` queries."""
    connection.execute(f"CREATE TEMP TABLE {name} AS {asked}")
    return streamed(connection, f"FROM {name}")
