"""Proves that rows which a filter does not choose are the same before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from backfill_assets.judge.compare import is_balanced
from backfill_assets.judge.engine import DAY, columns_of, database, quoted, select_rows
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Table
from backfill_assets.model.row_filter import Condition, RowFilter

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SIDE = "its side"
Sides = Mapping[date, tuple[Sequence[AddedFile], Sequence[AddedFile]]]
"""Files before and after, with paths in the lakehouse."""


def days_with_other_rows_changed(storage: Storage, table: Table, chosen: RowFilter, sides: Sides) -> list[date]:
    """Days of which a row that ``chosen`` does not hold for was lost, doubled or changed."""
    columns = columns_of(table.contract)
    compared = columns.remove(columns.get_field_index(DAY)).append(pa.field(_SIDE, pa.int64()))
    with database(threads=1) as connection:
        held = " AND ".join(_conditions(connection, compared, chosen))

        def is_changed(before: Sequence[AddedFile], after: Sequence[AddedFile]) -> bool:
            rows = select_rows(connection, storage, compared, _SIDE, {1: before, -1: after})
            others = f"SELECT * FROM ({rows}) AS own WHERE NOT coalesce({held}, false)"  # noqa: S608 - quoted names
            return not is_balanced(connection, others, compared, _SIDE)

        return [day for day, files in sorted(sides.items()) if is_changed(*files)]


def _conditions(connection: DuckDBPyConnection, columns: pa.Schema, chosen: RowFilter) -> Iterator[str]:
    """Values are rows of tables of their own, with the column's type."""
    for number, each in enumerate(chosen.conditions):
        values = f'"values {number}"'
        kind = columns.field(each.column).type
        connection.register(values.strip('"'), pa.table({"value": pa.array(each.values, kind)}))
        yield _condition(each, values)


def _condition(each: Condition, values: str) -> str:
    name = f"own.{quoted(each.column)}"
    if each.is_range:
        return f"{name} BETWEEN (SELECT min(value) FROM {values}) AND (SELECT max(value) FROM {values})"  # noqa: S608
    return f"{name} IN (SELECT value FROM {values})"  # noqa: S608 - quoted names
