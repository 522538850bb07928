"""A table's contract as the column schema that Dagster shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from backfill_assets.datasets.dataset import Table

if TYPE_CHECKING:
    from pandera.api.checks import Check
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
            other=[_value_rule(check) for check in column.checks],
        ),
    )


def _value_rule(check: Check) -> str:
    """A rule in words; one without words is shown as pandera names it."""
    limits = check.statistics or {}
    words = {
        "greater_than_or_equal_to": lambda: f"at least {limits['min_value']}",
        "greater_than": lambda: f"more than {limits['min_value']}",
        "less_than_or_equal_to": lambda: f"at most {limits['max_value']}",
        "less_than": lambda: f"less than {limits['max_value']}",
        "isin": lambda: f"one of {', '.join(map(str, limits['allowed_values']))}",
        "str_matches": lambda: f"matches {limits['pattern']}",
        "str_length": lambda: _length(limits.get("min_value"), limits.get("max_value")),
    }
    found = words.get(str(check.name))
    return found() if found else str(check.error or check.name)


def _length(least: int | None, most: int | None) -> str:
    if most is None:
        return f"at least {least} character" + ("s" if least != 1 else "")
    return f"{least or 0} to {most} characters"
