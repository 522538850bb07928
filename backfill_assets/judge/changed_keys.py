"""Rows by the keys that new raw rows brought, quicker than a Spark job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.judge.engine import DAY, columns_of, database, select_rows
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Table
from backfill_assets.model.landed_values import joined_key, parsed
from backfill_assets.model.measure import hashes_written_of

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from duckdb import DuckDBPyConnection

    from backfill_assets.model.refinement import Refinement

_ROWS, _CHANGED, _PLACE = "rows of a table", "changed keys", "its place"
_DAY_DIGITS = 10
_ROWS_AT_ONCE = 64 * 1024


@dataclass(frozen=True)
class KeyedFiles:
    """Raw's keys are landed text, others typed."""

    table: Table
    files: Sequence[AddedFile]


def keys_of_raw(storage: Storage, raw: KeyedFiles, refinement: Refinement) -> pa.Table:
    with database() as connection:
        keys = _asked(connection, storage, raw, _landed_keys(raw.table, refinement))
        names = ", ".join(["day", *map(_quoted, range(len(refinement.key)))])
        return connection.execute(f"SELECT DISTINCT {names} FROM ({keys})").to_arrow_table()  # noqa: S608 - our own names


def count_rows_of_keys(
    storage: Storage, refinement: Refinement, changed: pa.Table, raw: KeyedFiles, typed: Sequence[KeyedFiles]
) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    queries = [_landed_keys(raw.table, refinement), *(_typed_keys(each.table, refinement.key) for each in typed)]
    with database() as connection:
        connection.register(_CHANGED, changed)
        for place, query in zip((raw, *typed), queries, strict=True):
            own = f"({_asked(connection, storage, place, query)}) AS own"
            asked = f'SELECT "{_PLACE}", count(*) FROM {own} SEMI JOIN {_same(refinement.key)} GROUP BY ALL'  # noqa: S608
            counts = connection.execute(asked).fetchall() if place.files else []
            found[place.table.name] = {at[_DAY_DIGITS + 1 :]: rows for at, rows in counts}
    return found


def select_rows_of_keys(
    connection: DuckDBPyConnection, storage: Storage, refinement: Refinement, changed: pa.Table, raw: KeyedFiles
) -> str:
    connection.register(_CHANGED, changed)
    own = f"({_asked(connection, storage, raw, _landed_keys(raw.table, refinement))}) AS own"
    names = ", ".join(f'own."{name}"' for name in columns_of(raw.table.contract).names)
    return f"SELECT {names} FROM {own} SEMI JOIN {_same(refinement.key)}"  # noqa: S608 - our own names


def rows_of_other_keys(
    storage: Storage, place: KeyedFiles, key: Sequence[str], changed: pa.Table
) -> Iterator[tuple[date, pa.Table]]:
    """In batches by day, like their files, with stored hashes."""
    columns = copied_columns(place.table)
    with database() as connection:
        connection.register(_CHANGED, changed)
        own = f"({_asked(connection, storage, place, _typed_keys(place.table, tuple(key)))}) AS own"
        names = ", ".join(f'own."{name}"' for name in (*columns.names, DAY))
        asked = f"SELECT {names} FROM {own} ANTI JOIN {_same(key)} ORDER BY own.day"  # noqa: S608 - our own names
        for batch in connection.execute(asked).to_arrow_reader(_ROWS_AT_ONCE):
            rows = pa.Table.from_batches([batch])
            for day in rows.column(DAY).unique().to_pylist():
                yield day, rows.filter(pc.equal(rows.column(DAY), pa.scalar(day))).select(columns.names).cast(columns)


def copied_columns(table: Table) -> pa.Schema:
    columns = columns_of(table.contract, [each.name for each in hashes_written_of(table)])
    return columns.remove(columns.get_field_index(DAY))


# ------------------------------------------------------------------ queries


def _asked(connection: DuckDBPyConnection, storage: Storage, place: KeyedFiles, query: str) -> str:
    columns = copied_columns(place.table).append(pa.field(_PLACE, pa.string()))
    files = {f"{file.day} {file.path}": [file.below(place.table.name)] for file in place.files}
    rows = select_rows(connection, storage, columns, _PLACE, files)
    of_day = f'SELECT *, CAST(left("{_PLACE}", {_DAY_DIGITS}) AS DATE) AS day FROM ({rows})'  # noqa: S608
    return f'WITH "{_ROWS}" AS NOT MATERIALIZED ({of_day}) {query}'


def _same(key: Sequence[str]) -> str:
    """Null, unreadable, equals null."""
    parts = (f"changed.{_quoted(number)} IS NOT DISTINCT FROM own.{_quoted(number)}" for number in range(len(key)))
    return f'"{_CHANGED}" AS changed ON {" AND ".join(["changed.day = own.day", *parts])}'


def _quoted(number: int) -> str:
    return f'"{_key(number)}"'


def _key(number: int) -> str:
    return f"key {number}"


@cache
def _landed_keys(raw: Table, refinement: Refinement) -> str:
    rows = _rows(raw)
    return _with_keys(rows, [_landed(rows, refinement, name) for name in refinement.key])


@cache
def _typed_keys(table: Table, key: tuple[str, ...]) -> str:
    rows = _rows(table)
    return _with_keys(rows, [_comparable(rows[name]) for name in key])


def _rows(table: Table) -> ir.Table:
    import ibis

    columns = [*copied_columns(table), (_PLACE, pa.string()), (DAY, pa.date32())]
    return ibis.table(ibis.Schema.from_pyarrow(pa.schema(columns)), name=_ROWS)


def _with_keys(rows: ir.Table, keys: Sequence[ir.Value]) -> str:
    import ibis

    named = rows.mutate(**{_key(number): key for number, key in enumerate(keys)})
    return str(ibis.to_sql(named, dialect="duckdb"))


def _landed(rows: ir.Table, refinement: Refinement, name: str) -> ir.Value:
    source = refinement.source
    if parts := refinement.derived.get(name):
        return joined_key(source, rows, parts)
    return _comparable(parsed(rows[name].cast("string"), source.type_of(name)))


def _comparable(value: ir.Value) -> ir.Value:
    return value.cast("timestamp") if value.type().is_timestamp() else value
