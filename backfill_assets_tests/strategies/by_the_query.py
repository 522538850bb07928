"""Both tables of a refinement by the declared query, held beside those of plain Python: every row and every type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from backfill_assets.judge.engine import columns_of, engine
from backfill_assets.landing import deletions
from backfill_assets.model.declaration import Reads, Version
from backfill_assets.model.landed import quarantine_contract, raw_contract
from backfill_assets.model.standing_query import standing
from backfill_assets.spark.computed import computed
from backfill_assets_tests.strategies import refined_by_python
from backfill_assets_tests.strategies.refined_by_python import Row

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend
    from pyspark.sql import DataFrame

    from backfill_assets.model.declaration import Source
    from backfill_assets.model.refinement import Refinement

PARTS = 2


def accepted(raw: DataFrame, asked: Refinement) -> DataFrame:
    """The query's, after plain Python found the same: of the whole day, and of parts of its keys."""
    return _as_both(raw, asked, f"bronze_{asked.source.name}")


def rejected(raw: DataFrame, asked: Refinement) -> DataFrame:
    """The query's, after plain Python found the same."""
    return _as_both(raw, asked, f"quarantine_{asked.source.name}")


def both(raw: DataFrame, asked: Refinement) -> dict[str, DataFrame]:
    """Both tables, as Spark's workers ask the query for them."""
    return dict(computed(Version("v1", "", (Reads(asked.raw),), asked), {asked.raw: raw}))


def standing_rows(raw: DataFrame, source: Source) -> DataFrame:
    """Spark's, after the query gave the same."""
    by_spark = deletions.standing_rows(raw)
    with engine(threads=1) as connection:
        rows = _registered(connection, _held(raw, source))
        require_same(connection.to_pyarrow(standing(rows)), python_rows(by_spark.toArrow()))
    return by_spark


def _as_both(raw: DataFrame, asked: Refinement, table: str) -> DataFrame:
    require_as_by_python(_held(raw, asked.source), asked)
    return both(raw, asked)[table]


def require_as_by_python(raw: pa.Table, asked: Refinement) -> dict[str, int]:
    """Both tables are those of plain Python, of the whole day and of parts of its keys; gives their numbers of rows.

    By the query, what is judged is stored, as workers do it; a query of it is compiled once.
    """
    name, rows = asked.source.name, python_rows(raw)
    expected = {
        f"bronze_{name}": refined_by_python.accepted(rows, asked),
        f"quarantine_{name}": refined_by_python.rejected(rows, asked),
    }
    contracts = asked.contract, quarantine_contract(asked.source, asked.contract)
    with engine(threads=1) as connection:
        held = _registered(connection, raw)

        def judge(part: tuple[int, int]) -> ir.Table:
            connection.raw_sql(f"CREATE OR REPLACE TEMP TABLE judged AS {connection.compile(asked.judged(held, part))}")
            return connection.table("judged")

        queries = {table: connection.compile(rows) for table, rows in asked.tables(judge((0, 1))).items()}

        def found() -> dict[str, pa.Table]:
            return {table: connection.con.execute(query).to_arrow_table() for table, query in queries.items()}

        whole, parts = found(), list[dict[str, pa.Table]]()
        for part in range(PARTS):
            judge((part, PARTS))
            parts.append(found())
    for (table, by_python), contract in zip(expected.items(), contracts, strict=True):
        assert _types(whole[table].schema) == _types(columns_of(contract))
        require_same(whole[table], by_python)
        require_same(pa.concat_tables(part[table] for part in parts), by_python)
    return {table: len(of_table) for table, of_table in expected.items()}


def _held(raw: DataFrame, source: Source) -> pa.Table:
    columns = columns_of(raw_contract(source))
    return raw.select(*columns.names).toArrow().cast(columns)


def _registered(connection: Backend, held: pa.Table) -> ir.Table:
    connection.con.register("raw", held)
    return connection.table("raw")


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return dict(zip(schema.names, schema.types, strict=True))


def require_same(found: pa.Table, expected: Iterable[Row]) -> None:
    """The same rows, in any order; those of ``found`` by :func:`python_rows`."""
    ours, theirs = (Counter(str(sorted(row.items())) for row in rows) for rows in (python_rows(found), expected))
    differing = [list((these - those).elements())[:5] for these, those in ((ours, theirs), (theirs, ours))]
    if any(differing):
        raise AssertionError(f"By the query, and beside it: {differing}")


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Its rows; days and moments are numbers, since Python has no year 0."""
    columns = [_plain(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(column: pa.ChunkedArray) -> list[Any]:
    numbers = {pa.date32(): pa.int32(), pa.timestamp("us", "UTC"): pa.int64()}
    return list(column.cast(numbers.get(column.type, column.type)).to_pylist())
