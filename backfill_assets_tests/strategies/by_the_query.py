"""Both tables of a refinement by Spark, held beside those of the declared query: every row, and every column's type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from backfill_assets.judge.engine import columns_of, engine, stored
from backfill_assets.landing import deletions
from backfill_assets.landing.standing_query import standing
from backfill_assets.model import bronze_query, refinement
from backfill_assets.model.landed import quarantine_contract, raw_contract
from backfill_assets_tests.strategies import refined_by_python

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend
    from pyspark.sql import DataFrame

    from backfill_assets.model.contract import Contract
    from backfill_assets.model.declaration import Source
    from backfill_assets.model.refinement import Refinement

PARTS = 3


def accepted(raw: DataFrame, asked: Refinement) -> DataFrame:
    """Spark's, after the query gave the same: of the whole day, and of parts of its keys."""
    _require_python(raw, refinement.accepted(raw, asked), asked, refined_by_python.accepted)
    return _as_both(raw, refinement.accepted(raw, asked), asked, asked.contract, bronze_query.accepted)


def rejected(raw: DataFrame, asked: Refinement) -> DataFrame:
    """Spark's, after the query gave the same."""
    contract = quarantine_contract(asked.source, asked.contract)
    _require_python(raw, refinement.rejected(raw, asked), asked, refined_by_python.rejected)
    return _as_both(raw, refinement.rejected(raw, asked), asked, contract, bronze_query.rejected)


def standing_rows(raw: DataFrame, source: Source) -> DataFrame:
    """Spark's, after the query gave the same."""
    by_spark = deletions.standing_rows(raw)
    with engine(threads=1) as connection:
        _require_same(connection.to_pyarrow(standing(_held(connection, raw, source))), by_spark.toArrow())
    return by_spark


def _as_both(
    raw: DataFrame,
    by_spark: DataFrame,
    asked: Refinement,
    contract: type[Contract],
    table: Callable[[ir.Table, Refinement], ir.Table],
) -> DataFrame:
    """By the query, what is judged is stored, as workers do it."""
    expected = by_spark.select(*columns_of(contract).names).toArrow()
    with engine(threads=1) as connection:
        rows = _held(connection, raw, asked.source)

        def found(part: tuple[int, int]) -> pa.Table:
            return connection.to_pyarrow(table(stored(bronze_query.judged(rows, asked, part)), asked))

        whole = found((0, 1))
        assert _types(whole.schema) == _types(columns_of(contract)) and set(whole.column_names) == set(
            expected.column_names
        )
        _require_same(whole, expected)
        _require_same(pa.concat_tables(found((part, PARTS)) for part in range(PARTS)), expected)
    return by_spark


def _held(connection: Backend, raw: DataFrame, source: Source) -> ir.Table:
    columns = columns_of(raw_contract(source))
    connection.con.register("raw", raw.select(*columns.names).toArrow().cast(columns))
    return connection.table("raw")


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return dict(zip(schema.names, schema.types, strict=True))


def _require_same(found: pa.Table, expected: pa.Table) -> None:
    names = expected.column_names
    ours, theirs = (Counter(map(str, _rows(table.select(names)))) for table in (found, expected))
    differing = [list((these - those).elements())[:5] for these, those in ((ours, theirs), (theirs, ours))]
    if any(differing):
        raise AssertionError(f"By the query, and by Spark: {differing}")


def _rows(table: pa.Table) -> Iterable[tuple[object, ...]]:
    return zip(*(_plain(column) for column in table.columns), strict=True)


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Python has no year 0."""
    numbers = {pa.date32(): pa.int32(), pa.timestamp("us", "UTC"): pa.int64()}
    return list(column.cast(numbers.get(column.type, column.type)).to_pylist())


def _require_python(raw, by_spark, asked, made):
    names = columns_of(raw_contract(asked.source)).names
    table = raw.select(*names).toArrow()
    rows = [dict(zip(names, row)) for row in _rows(table)]
    expected = by_spark.toArrow()
    ours = Counter(str({n: r[n] for n in expected.column_names}) for r in made(rows, asked))
    theirs = Counter(str(dict(zip(expected.column_names, r))) for r in _rows(expected))
    d = [list((a-b).elements())[:3] for a, b in ((ours, theirs), (theirs, ours))]
    assert not any(d), f"python {d[0]}\n spark {d[1]}"
