"""A declared query over rows that Spark holds: each partition is asked for itself, whatever the session is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from backfill_assets.spark.partition_query import ROWS, PartitionQuery, by_query

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_GIVEN = pa.schema([("day", pa.date32()), ("amount", pa.int64())])
_FOUND = pa.schema([("day", pa.date32()), ("total", pa.decimal128(38, 0)), ("rows", pa.int64())])
_SCHEMA = T.StructType(
    [
        T.StructField("day", T.DateType(), False),
        T.StructField("total", T.DecimalType(38, 0)),
        T.StructField("rows", T.LongType()),
    ]
)
_TOTALS = f"SELECT day, sum(amount)::DECIMAL(38, 0) AS total, count(*) AS rows FROM {ROWS} GROUP BY day"  # noqa: S608


def test_each_partition_is_asked(each_spark: SparkSession) -> None:
    rows = each_spark.range(40_000).selectExpr("date_add(DATE'2017-03-01', int(id % 3)) AS day", "id AS amount")
    found = by_query(rows.repartition(4, "day"), PartitionQuery(_TOTALS, _GIVEN, _FOUND), _SCHEMA)
    assert found.schema == _SCHEMA
    assert sorted((row["day"].day, int(row["total"]), row["rows"]) for row in found.collect()) == [
        (day + 1, sum(range(day, 40_000, 3)), len(range(day, 40_000, 3))) for day in range(3)
    ]


def test_no_rows_ask_nothing(spark: SparkSession) -> None:
    rows = spark.range(0).selectExpr("DATE'2017-03-01' AS day", "id AS amount")
    assert by_query(rows, PartitionQuery("SELECT error('asked')", _GIVEN, _FOUND), _SCHEMA).collect() == []


def _with_twice(connection: DuckDBPyConnection) -> None:
    connection.execute("CREATE MACRO twice(number) AS 2 * number")


def test_what_a_query_needs_is_made_known_in_the_worker(spark: SparkSession) -> None:
    asked = f"SELECT day, twice(amount)::DECIMAL(38, 0) AS total, 1::BIGINT AS rows FROM {ROWS}"  # noqa: S608
    rows = spark.sql("SELECT DATE'2017-03-01' AS day, 21L AS amount")
    query = PartitionQuery(asked, _GIVEN, _FOUND, _with_twice)
    assert [int(row["total"]) for row in by_query(rows, query, _SCHEMA).collect()] == [42]
