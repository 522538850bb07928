"""The declared query, asked of lines that Spark holds, such as the events of a topic: its workers carry it out."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from backfill_assets.landing.line_reader import LINES
from backfill_assets.landing.raw_query import TODAY, raw_rows, register, register_tokens, text_of_line
from backfill_assets.landing.raw_rows import raw_schema
from backfill_assets.model.declaration import Source
from backfill_assets.spark.partition_query import ROWS, PartitionQuery, by_query, columns_of_rows
from backfill_assets.spark.worker_queries import sql_of

if TYPE_CHECKING:
    from datetime import date

    import ibis.expr.types as ir
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_HELD = pa.schema([("value", pa.binary()), *(each for each in LINES if each.name != "value"), (TODAY, pa.date32())])
Asked = Callable[["ir.Table", Source], "ir.Table"]
"""What is asked of the lines of a source: their values are text."""


def rows_of_lines(source: Source, lines: DataFrame, token_key_file: str, today: date) -> DataFrame:
    """One raw row in ``raw_schema(source)`` for each of ``lines``, which are never null. Lazy.

    ``lines`` has ``value`` (bytes), ``source_file``, ``source_line`` and ``arrival_day``. An arrival day may be null:
    it is the day of the event if that is possible ``today``, or else ``today``.
    """
    return asked_of_lines(source, raw_rows, lines, raw_schema(source), token_key_file, today)


def asked_of_lines(
    source: Source, asked: Asked, lines: DataFrame, schema: StructType, token_key_file: str, today: date
) -> DataFrame:
    """What is ``asked`` of :func:`rows_of_lines`, in ``schema``. Workers read the token key where they need it."""
    known = partial(_known, token_key_file if source.personal_fields else "")
    query = PartitionQuery(_sql(source, asked), _HELD, columns_of_rows(schema), known)
    return by_query(lines.withColumn(TODAY, F.lit(today)), query, schema)


def _known(token_key_file: str, connection: DuckDBPyConnection) -> None:
    register(connection)
    if token_key_file:
        register_tokens(connection, Path(token_key_file))


@cache
def _sql(source: Source, asked: Asked) -> str:
    """Made once in a process: it takes half a second."""
    import ibis

    held = ibis.table(ibis.Schema.from_pyarrow(_HELD), name=ROWS)
    return sql_of(asked(held.mutate(value=text_of_line(held.value)), source))
