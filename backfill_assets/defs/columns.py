"""The columns of a table as Dagster shows them: their schema, and where each comes from.

The schema is that of the declared fields, not of the pandera model: Dagster loads the code location in every process
that it starts, and pandera, with pandas, would cost each of them more than a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import dagster as dg

from backfill_assets.model.contract import DeclaredField, declared_types
from backfill_assets.model.declaration import Step, Table
from backfill_assets.model.lineage import column_lineage
from backfill_assets.text import format_count

_LINEAGE = "dagster/column_lineage"


def column_schema(table: Table) -> dg.TableSchema:
    """Columns, types, nullability and value rules of ``table``, as its contract declares them."""
    types = declared_types(table.contract)
    return dg.TableSchema(
        columns=[_column(name, types[name], field, table.key) for name, field in table.contract.fields().items()],
        constraints=dg.TableConstraints(other=[f"key: {', '.join(table.key)}"] if table.key else []),
    )


def lineage_metadata(step: Step, table_named: Callable[[str], Table]) -> dict[str, dict[str, dg.MetadataValue]]:
    """Metadata for a materialization of each table of ``step``; none for raw tables, whose columns come from files."""
    metadata: dict[str, dict[str, dg.MetadataValue]] = {}
    for table in step.tables:
        origins = column_lineage(step, table, table_named)
        deps = {
            column: [dg.TableColumnDep(dg.AssetKey(each.table), each.column) for each in columns]
            for column, columns in origins.items()
        }
        origin = dg.MetadataValue.column_lineage(dg.TableColumnLineage(deps_by_column=deps))
        metadata[table.name] = {_LINEAGE: origin} if deps else {}
    return metadata


def _column(name: str, type_name: str, field: DeclaredField, key: tuple[str, ...]) -> dg.TableColumn:
    return dg.TableColumn(
        name=name,
        type=type_name,
        description=field.description,
        constraints=dg.TableColumnConstraints(
            nullable=field.nullable,
            unique=key == (name,),
            other=[_RULES[check](asked) for check, asked in field.checks.items()],
        ),
    )


def _join(values: Any) -> str:
    return ", ".join(map(str, values))


def _range(asked: Mapping[str, Any]) -> str:
    least = "at least" if asked.get("include_min", True) else "more than"
    most = "at most" if asked.get("include_max", True) else "less than"
    return f"{least} {asked['min_value']}, {most} {asked['max_value']}"


def _length(asked: Mapping[str, Any]) -> str:
    least, most = asked.get("min_value"), asked.get("max_value")
    if most is None:
        return f"at least {format_count(least or 0, 'character')}"
    return f"{least or 0} to {most} characters"


_RULES: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {
        "ge": lambda limit: f"at least {limit}",
        "gt": lambda limit: f"more than {limit}",
        "le": lambda limit: f"at most {limit}",
        "lt": lambda limit: f"less than {limit}",
        "in_range": _range,
        "eq": lambda value: f"equal to {value}",
        "ne": lambda value: f"not {value}",
        "isin": lambda values: f"one of {_join(values)}",
        "notin": lambda values: f"none of {_join(values)}",
        "str_matches": lambda pattern: f"matches ^{str(pattern).removeprefix('^')}",
        "str_length": _length,
    }
)
"""Each check that a contract may ask for, in words."""
