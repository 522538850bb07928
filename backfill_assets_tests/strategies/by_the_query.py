"""Both tables of a refinement by the declared query, held beside those of plain Python: every row and every type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from backfill_assets.judge.engine import columns_of, engine, stored
from backfill_assets.landing import deletions
from backfill_assets.model.declaration import Reads, Version
from backfill_assets.model.landed import quarantine_contract, raw_contract
from backfill_assets.model.standing_query import standing
from backfill_assets.spark.computed import computed
from backfill_assets_tests.strategies import refined_by_python
from backfill_assets_tests.strategies.refined_by_python import Found, Row

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend
    from pyspark.sql import DataFrame

    from backfill_assets.model.contract import Contract
    from backfill_assets.model.declaration import Source
    from backfill_assets.model.refinement import Refinement

PARTS = 3


def accepted(raw: DataFrame, asked: Refinement) -> DataFrame:
    """The query's, after plain Python found the same: of the whole day, and of parts of its keys."""
    return _as_both(raw, asked, f"bronze_{asked.source.name}", asked.contract, refined_by_python.accepted)


def rejected(raw: DataFrame, asked: Refinement) -> DataFrame:
    """The query's, after plain Python found the same."""
    contract = quarantine_contract(asked.source, asked.contract)
    return _as_both(raw, asked, f"quarantine_{asked.source.name}", contract, refined_by_python.rejected)


def both(raw: DataFrame, asked: Refinement) -> dict[str, DataFrame]:
    """Both tables, as Spark's workers ask the query for them."""
    return dict(computed(Version("v1", "", (Reads(asked.raw),), asked), {asked.raw: raw}))


def standing_rows(raw: DataFrame, source: Source) -> DataFrame:
    """Spark's, after the query gave the same."""
    by_spark = deletions.standing_rows(raw)
    with engine(threads=1) as connection:
        rows = _registered(connection, _held(raw, source))
        _require_same(connection.to_pyarrow(standing(rows)), python_rows(by_spark.toArrow()))
    return by_spark


def _as_both(
    raw: DataFrame,
    asked: Refinement,
    table: str,
    contract: type[Contract],
    by_python: Callable[[Sequence[Row], Refinement], Found],
) -> DataFrame:
    """By the query, what is judged is stored, as workers do it."""
    held = _held(raw, asked.source)
    expected = by_python(python_rows(held), asked)
    with engine(threads=1) as connection:
        rows = _registered(connection, held)

        def found(part: tuple[int, int]) -> pa.Table:
            return connection.to_pyarrow(asked.tables(stored(asked.judged(rows, part)))[table])

        whole = found((0, 1))
        assert _types(whole.schema) == _types(columns_of(contract))
        _require_same(whole, expected)
        _require_same(pa.concat_tables(found((part, PARTS)) for part in range(PARTS)), expected)
    return both(raw, asked)[table]


def _held(raw: DataFrame, source: Source) -> pa.Table:
    columns = columns_of(raw_contract(source))
    return raw.select(*columns.names).toArrow().cast(columns)


def _registered(connection: Backend, held: pa.Table) -> ir.Table:
    connection.con.register("raw", held)
    return connection.table("raw")


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return dict(zip(schema.names, schema.types, strict=True))


def _require_same(found: pa.Table, expected: Iterable[Row]) -> None:
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
