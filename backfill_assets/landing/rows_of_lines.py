"""The declared query on lines that Spark holds, such as a topic's events."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from backfill_assets.lakehouse.day_files import day_folders
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.raw_query import PLACE, TODAY, raw_rows, raw_rows_to_write, register, text_of_line
from backfill_assets.model.declaration import Source, Table
from backfill_assets.model.landed import raw_schema
from backfill_assets.spark.partition_query import ROWS, PartitionQuery, by_query, columns_of_rows, write_by_query
from backfill_assets.spark.worker_queries import columns_written, sql_of, with_hashes

if TYPE_CHECKING:
    from datetime import date

    import ibis.expr.types as ir
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_HELD = pa.schema([("value", pa.binary()), *PLACE, (TODAY, pa.date32())])
Asked = Callable[["ir.Table", Source], "ir.Table"]


def rows_of_lines(source: Source, lines: DataFrame, token_key_file: str, today: date) -> DataFrame:
    """Raw rows of ``lines``: ``value`` (bytes, never null), ``source_file``, ``source_line``, ``arrival_day``, and
    bytes of each of ``source.record_fields``. Lazy.

    A null arrival day becomes the event day if possible ``today``, else ``today``.
    """
    return asked_of_lines(source, raw_rows, lines, raw_schema(source), token_key_file, today)


def asked_of_lines(
    source: Source, asked: Asked, lines: DataFrame, schema: StructType, token_key_file: str, today: date
) -> DataFrame:
    query = _query(source, _sql(source, asked), columns_of_rows(schema), token_key_file)
    return by_query(_with_today(lines, today), query, schema)


def write_rows_of_lines(
    source: Source, lines: DataFrame, token_key_file: str, today: date, into: tuple[Table, Timeline]
) -> list[AddedFile]:
    table, timeline = into
    columns = columns_written(table)
    query = _query(source, _sql(source, raw_rows_to_write, table), columns, token_key_file)
    return write_by_query(_with_today(lines, today), query, day_folders(timeline, table, columns))


def _with_today(lines: DataFrame, today: date) -> DataFrame:
    return lines.withColumn(TODAY, F.lit(today))


def _query(source: Source, asked: str, found: pa.Schema, token_key_file: str) -> PartitionQuery:
    # The worker reads the key, so no task and no plan contains it.
    known = partial(register, token_key_file=token_key_file if source.personal_fields else "")
    return PartitionQuery(asked, _held(source), found, known)


def _held(source: Source) -> pa.Schema:
    return pa.schema([*_HELD, *((name, pa.binary()) for name in source.record_fields)])


@cache
def _sql(source: Source, asked: Asked, table: Table | None = None) -> str:
    import ibis

    held = ibis.table(ibis.Schema.from_pyarrow(_held(source)), name=ROWS)
    texts = {name: text_of_line(held[name]) for name in ("value", *source.record_fields)}
    found = asked(held.mutate(**texts), source)
    return sql_of(with_hashes(found, table) if table else found)
