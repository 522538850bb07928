"""A table's contract as the column schema that Dagster shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from backfill_assets.datasets.dataset import Table

if TYPE_CHECKING:
    from pandera.api.pyspark.components import Column


def column_schema(table: Table) -> dg.TableSchema:
    """Columns, types, nullability and value rules of ``table``, as its pandera contract declares them."""
    columns = table.contract.to_schema().columns
    return dg.TableSchema(
        columns=[_column(name, column, table.key) for name, column in columns.items()],
        constraints=dg.TableConstraints(other=[f"key: {', '.join(table.key)}"] if table.key else []),
    )


def _column(name: str, column: Column, key: tuple[str, ...]) -> dg.TableColumn:
    return dg.TableColumn(
        name=name,
        type=column.dtype.type.simpleString(),
        description=column.description,
        constraints=dg.TableColumnConstraints(
            nullable=bool(column.nullable),
            unique=key == (name,),
            other=[str(check.error or check.name) for check in column.checks],
        ),
    )
